"""WET, WAT, WACZ, URL snapshot, indexer feed, host graph: read back by other readers."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from crawlkit.adapters.warc.file_check import check
from crawlkit.cli.main import load_all
from crawlkit.cli.verbs import export as cli_export
from crawlkit.config import Config, ConfigError
from crawlkit.exports.files import sorted_lines
from crawlkit.exports.lists import export_hostgraph, export_pages, export_urls, reversed_host
from crawlkit.exports.source import Source
from crawlkit.exports.wacz import export_wacz
from crawlkit.exports.wet import export_wat, export_wet
from typer.testing import CliRunner
from warcio.archiveiterator import ArchiveIterator

from tests.cli.call import call
from tests.exports import sample
from tests.outside import run_tool
from tests.servers.s3_server import moto

pytestmark = pytest.mark.waits


def records(path):
    with open(path, "rb") as f:
        return [
            (r.rec_type, dict(r.rec_headers.headers), r.content_stream().read())
            for r in ArchiveIterator(f, check_digests=True)
        ]


def test_wet(source, tmp_path):
    counts = export_wet(source, tmp_path)
    assert (counts["records"], len(counts["files"])) == (2, 2)
    info, *found = records(tmp_path / "crawl-r000001.warc.wet.gz")
    assert info[0] == "warcinfo"
    assert [r[0] for r in found] == ["conversion", "conversion"]
    text = {r[1]["WARC-Target-URI"]: r[2].decode() for r in found}
    assert "The harbour is open at high water." in text["http://www.site.test/"]
    assert "Moorings are to be had" in text["http://www.site.test/b?z=1&a=2"]
    assert "<p>" not in text["http://www.site.test/"]
    first = next(r[1] for r in found if r[1]["WARC-Target-URI"] == "http://www.site.test/")
    assert first["WARC-Date"] == "2024-04-02T12:00:00Z"
    assert first["Content-Type"] == "text/plain"
    with gzip.open(tmp_path / "crawl-r000002.warc.wet.gz") as f:
        assert f.read().count(b"WARC-Type: warcinfo") == 1
    assert check(tmp_path / "crawl-r000001.warc.wet.gz")["ok"]


def test_wet_twice_is_the_same_file(source, tmp_path):
    export_wet(source, tmp_path / "a", "r000001")
    export_wet(source, tmp_path / "b", "r000001")
    assert [p.read_bytes() for p in (tmp_path / "a").iterdir()] == [
        p.read_bytes() for p in (tmp_path / "b").iterdir()
    ]


def test_wat(source, data, tmp_path):
    counts = export_wat(source, tmp_path)
    assert len(counts["files"]) == 2
    found = records(next(p for p in tmp_path.iterdir() if "r000001" in p.name))
    assert found[0][0] == "warcinfo"
    rows = [(r[1].get("WARC-Target-URI"), json.loads(r[2])) for r in found[1:]]
    page = next(
        e["Envelope"]
        for u, e in rows
        if u == "http://www.site.test/"
        and e["Envelope"]["WARC-Header-Metadata"]["WARC-Type"] == "response"
    )
    http = page["Payload-Metadata"]["HTTP-Response-Metadata"]
    assert http["Response-Message"]["Status"] == "200"
    assert http["Headers"]["Content-Type"] == "text/html; charset=utf-8"
    assert http["HTML-Metadata"]["Head"]["Title"] == "Harbour"
    assert {"name": "description", "content": "All about it"} in http["HTML-Metadata"]["Head"][
        "Metas"
    ]
    assert http["HTML-Metadata"]["Links"] == [
        {"path": "A@/href", "url": "http://www.site.test/b", "text": "Moorings"},
        {"path": "A@/href", "url": "http://other.test/x", "text": "Other"},
    ]
    at = next(e["Container"] for u, e in rows if e["Envelope"] is page)
    with open(data / "warc" / at["Filename"], "rb") as f:
        f.seek(int(at["Offset"]))
        assert (
            next(iter(ArchiveIterator(f))).rec_headers["WARC-Target-URI"] == "http://www.site.test/"
        )


def test_wacz(source, data, tmp_path):
    path = tmp_path / "site.wacz"
    export_wacz(source, path, title="A site", with_text=True)
    with zipfile.ZipFile(path) as z:
        assert all(i.compress_type == zipfile.ZIP_STORED for i in z.infolist())
        package = json.loads(z.read("datapackage.json"))
        assert package["title"] == "A site"
        for row in package["resources"]:
            content = z.read(row["path"])
            assert (row["bytes"], row["hash"]) == (
                len(content),
                "sha256:" + hashlib.sha256(content).hexdigest(),
            )
        assert (
            json.loads(z.read("datapackage-digest.json"))["hash"]
            == "sha256:" + hashlib.sha256(z.read("datapackage.json")).hexdigest()
        )
        names = {i.filename for i in z.infolist()}
        assert {"archive/" + p.name for p in (data / "warc").iterdir()} <= names
        pages = [json.loads(line) for line in z.read("pages/pages.jsonl").splitlines()]
        assert [p["url"] for p in pages[1:]] == [
            "http://www.site.test/",
            "http://www.site.test/b?z=1&a=2",
        ]
        assert pages[1]["ts"] == "2024-04-02T12:00:00Z"
        lines = gzip.decompress(z.read("indexes/index.cdx.gz")).decode().splitlines()
        assert len(lines) == 9
    export_wacz(source, tmp_path / "again.wacz", title="A site", with_text=True)
    assert path.read_bytes() == (tmp_path / "again.wacz").read_bytes()


def test_wacz_leaves_out_what_a_cut_warc_file_has_lost(tmp_path):
    """The last record of one file is cut: it is told, and no index names it."""
    sample.make(tmp_path / "site")
    rows = Source(tmp_path / "site", Config()).rows(
        "captures", ["url", "warc_filename", "warc_record_offset", "warc_record_length"]
    )
    last = max((r for r in rows if r["warc_filename"]), key=lambda r: r["warc_record_offset"])
    (warc,) = (tmp_path / "site/warc").rglob(last["warc_filename"])
    end = last["warc_record_offset"] + last["warc_record_length"]
    os.truncate(warc, end - 5)
    out = tmp_path / "cut.wacz"
    done = call("export", "wacz", "--data", tmp_path / "site", "--out", out, "--json")
    assert done.code == 1
    said = done.said
    assert (said["damaged"], len(said["damaged_examples"])) == (1, 1)
    assert said["damaged_examples"][0].endswith(f"a record ends at byte {end} of {end - 5}")
    with zipfile.ZipFile(out) as z:
        index = gzip.decompress(z.read("indexes/index.cdx.gz")).decode()
    offsets = {
        json.loads(line.split(" ", 2)[2])["offset"]
        for line in index.splitlines()
        if last["warc_filename"] in line
    }
    assert offsets and str(last["warc_record_offset"]) not in offsets


def test_wacz_is_valid_to_its_own_checker(source, tmp_path):
    export_wacz(source, tmp_path / "site.wacz")
    assert "Invalid" not in run_tool("wacz", "validate", "-f", tmp_path / "site.wacz")


@pytest.mark.parametrize("export", [("cdxj",), ("export", "wet"), ("export", "urls")])
def test_an_export_to_s3_is_refused(data, export):
    done = CliRunner().invoke(load_all(), [*export, "--data", str(data), "--out", "s3://bucket/x"])
    assert done.exit_code == 2 and "exports are written to local files" in done.output
    assert not Path("s3:").exists()


def test_urls(source, tmp_path):
    counts = export_urls(source, tmp_path, "2024-04-02")
    table = pq.read_table(tmp_path / "date=2024-04-02" / "urls.parquet", partitioning=None)
    assert counts["urls"] == table.num_rows == 7
    assert set(table["url"].to_pylist()) == {p[0] for p in sample.PAGES}
    export_urls(source, tmp_path, "2024-04-02")
    assert [p.name for p in (tmp_path / "date=2024-04-02").iterdir()] == ["urls.parquet"]


def test_pages_with_their_aliases(tmp_path):
    sample.make(tmp_path)
    sample.write(
        tmp_path,
        "duplicates",
        [
            {"url": u, "canonical_url": "http://www.site.test/"}
            for u in (
                "http://www.site.test/",
                "http://www.site.test/b?z=1&a=2",
                "http://site.test/copy",
            )
        ],
    )
    counts = export_pages(Source(tmp_path, Config()), tmp_path / "feed.jsonl")
    (page,) = [
        json.loads(line) for line in (tmp_path / "feed.jsonl").read_text("utf-8").splitlines()
    ]
    assert page["url"] == "http://www.site.test/"
    assert page["aliases"] == ["http://site.test/copy", "http://www.site.test/b?z=1&a=2"]
    assert (page["title"], counts["pages"]) == ("Harbour", 1)


def test_hostgraph(source, tmp_path):
    counts = export_hostgraph(source, tmp_path)
    assert (
        gzip.decompress((tmp_path / "vertices.txt.gz").read_bytes()).decode()
        == "0\ttest.other\n1\ttest.site.www\n"
    )
    assert gzip.decompress((tmp_path / "edges.txt.gz").read_bytes()).decode() == "1\t0\n"
    assert (counts["hosts"], counts["edges"]) == (2, 1)
    assert [reversed_host(h) for h in ("a.b.c", "127.0.0.1", "[::1]")] == [
        "c.b.a",
        "127.0.0.1",
        "[::1]",
    ]


def test_a_round_that_is_not_there(source, tmp_path):
    with pytest.raises(ConfigError, match="known: r000001, r000002"):
        export_wet(source, tmp_path, "r9")


def test_verbs(data, tmp_path):
    run = CliRunner().invoke
    for verb in ("cdxj", "wet", "wat", "wacz", "urls", "pages", "hostgraph"):
        done = run(
            load_all(),
            ["export", verb, "--data", str(data), "--out", str(tmp_path / verb), "--json"],
        )
        assert done.exit_code == 0, done.output
        assert json.loads(done.output)
        assert f"crawlkit export {verb}" in run(cli_export.export, [verb, "--help"]).output
    done = run(load_all(), ["export", "cdxj", "--data", str(tmp_path / "none")])
    assert done.exit_code == 2
    done = run(
        load_all(),
        [
            "cdxj",
            "--data",
            str(data),
            "--out",
            str(tmp_path / "x"),
            "--json",
            *(a for p in (data / "warc").iterdir() for a in ("--warc", str(p))),
        ],
    )
    assert json.loads(done.output)["lines"] == 9


def test_from_s3(data, tmp_path):
    """WARC files in S3, the same index and a WACZ."""
    with moto() as endpoint:
        cfg = Config.model_validate(
            {
                "storage": {"warc": "s3://crawl/w"},
                "s3": {"endpoint_url": endpoint, "path_style": True},
            }
        )
        there = Source(data, cfg)
        for path in (data / "warc").iterdir():
            there.warc.put_file_if_absent(path.name, path)
        export_wacz(there, tmp_path / "s3.wacz")
        export_wacz(Source(data, Config()), tmp_path / "local.wacz")
        assert (tmp_path / "s3.wacz").read_bytes() == (tmp_path / "local.wacz").read_bytes()


def test_lines_are_sorted_by_bytes():
    assert [*sorted_lines(["~", "a", "A", "!", "\u00e9", "\U00010000", "\uffff"])] == [
        "!",
        "A",
        "a",
        "~",
        "\u00e9",
        "\uffff",
        "\U00010000",
    ]
