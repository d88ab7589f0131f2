"""CDXJ exports: from tables and from WARC files the same, and equal to cdxj-indexer's."""

from __future__ import annotations

import gzip
import json
import random

import pytest
from crawlkit.config import Config, ConfigError
from crawlkit.exports.cdxj import export_cdxj, index_warcs
from crawlkit.exports.files import atomic, sorted_lines
from crawlkit.exports.source import Source
from crawlkit.outcomes import Refused

from tests.exports import sample
from tests.outside import run_tool

pytestmark = pytest.mark.waits


def test_lines_of_a_crawl(source, tmp_path):
    counts = export_cdxj(source, tmp_path / "index.cdxj")
    lines = (tmp_path / "index.cdxj").read_text("utf-8").splitlines()
    assert (counts["lines"], counts["unresolved"]) == (9, 0)
    assert lines == sorted(lines)
    keys = [line.split(" ")[:2] for line in lines]
    assert keys == [
        ["9,0,0,127)/%c3%a9~x", "20240402120005"],
        ["test,site)/", "20240402120000"],
        ["test,site)/", "20240403120000"],
        ["test,site)/b?a=2&z=1", "20240402120001"],
        ["test,site)/b?a=2&z=1", "20240403120001"],
        ["test,site)/none", "20240402120004"],
        ["test,site)/old", "20240402120003"],
        ["test,site)/robots.txt", "20240402120006"],
        ["uk,co,site,sub:8443)/c", "20240402120002"],
    ]
    rows = [json.loads(line.split(" ", 2)[2]) for line in lines]
    assert [r.get("mime") for r in rows] == [
        None,
        "text/html",
        "warc/revisit",
        "text/html",
        "warc/revisit",
        "text/plain",
        "text/html",
        "text/plain",
        "application/pdf",
    ]
    assert [r["status"] for r in rows] == [
        "200",
        "200",
        "200",
        "200",
        "304",
        "404",
        "301",
        "200",
        "200",
    ]


def test_the_same_from_the_warc_files(source, data, tmp_path):
    export_cdxj(source, tmp_path / "a")
    counts = index_warcs(sorted((data / "warc").iterdir()), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (counts["lines"], counts["unresolved"]) == (9, 0)
    second = [p for p in (data / "warc").iterdir() if "r000002" in p.name]
    assert index_warcs(second, tmp_path / "c")["unresolved_examples"] == [
        "http://www.site.test/ 20240402120000",
        "http://www.site.test/b?z=1&a=2 20240402120001",
    ]


def test_damaged_records_are_left_out_and_told(data, tmp_path):
    index_warcs(sorted((data / "warc").iterdir()), tmp_path / "whole")
    lines = (tmp_path / "whole").read_text("utf-8").splitlines()
    file = sorted((data / "warc").iterdir())[0]
    place = next(json.loads(x.split(" ", 2)[2]) for x in lines if "/b?" in x and file.name in x)
    raw = bytearray(file.read_bytes())
    raw[int(place["offset"]) + 40] ^= 255
    (tmp_path / file.name).write_bytes(raw)
    counts = index_warcs([tmp_path / file.name], tmp_path / "less")
    assert counts["damaged"] == 1 and file.name in counts["damaged_examples"][0]
    kept = [x for x in lines if file.name in x and f'"offset": "{place["offset"]}"' not in x]
    assert (tmp_path / "less").read_text("utf-8").splitlines() == kept != []
    (tmp_path / "none").write_bytes(b"filedesc://x 1 2 3\n\n")
    with pytest.raises(Refused, match="none: at 0: an ARC file"):
        index_warcs([tmp_path / "none"], tmp_path / "x")


def test_a_digest_that_the_writer_left_out(tmp_path):
    http = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    head = (
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/\r\n"
        "WARC-Date: 2024-03-01T12:00:00Z\r\nContent-Type: application/http\r\n"
        f"Content-Length: {len(http)}\r\n\r\n"
    )
    (tmp_path / "a.warc").write_bytes(head.encode() + http + b"\r\n\r\n")
    index_warcs([tmp_path / "a.warc"], tmp_path / "i")
    row = json.loads((tmp_path / "i").read_text("utf-8").split(" ", 2)[2])
    # SHA-1 of "hello" in base 32, by hand: the body without its chunks (WARC 1.1, 5.9)
    assert row["digest"] == "sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N"


def test_equal_to_cdxj_indexer(source, data, tmp_path):
    theirs = run_tool("cdxj-indexer", "-s", *sorted((data / "warc").iterdir()))
    export_cdxj(source, tmp_path / "index.cdxj")
    assert (tmp_path / "index.cdxj").read_text("utf-8") == theirs


def test_zipnum(source, tmp_path):
    export_cdxj(source, tmp_path / "index.cdxj")
    counts = export_cdxj(source, tmp_path / "zip", block_lines=4)
    assert (counts["lines"], counts["blocks"]) == (9, 3)
    packed = (tmp_path / "zip" / "cdx-00000.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "index.cdxj").read_bytes()
    lines = (tmp_path / "index.cdxj").read_text("utf-8").splitlines()
    for n, line in enumerate((tmp_path / "zip" / "cluster.idx").read_text("utf-8").splitlines()):
        key, part, offset, length, number = line.split("\t")
        block = (
            gzip.decompress(packed[int(offset) : int(offset) + int(length)]).decode().splitlines()
        )
        assert (part, number, block) == ("cdx-00000.gz", str(n + 1), lines[4 * n : 4 * n + 4])
        assert block[0].startswith(key + " ")


def test_one_round_and_more_fields(source, tmp_path):
    counts = export_cdxj(source, tmp_path / "x", round_id="r000001", more=True)
    assert counts["lines"] == 7
    assert '"redirect": "http://site.test/b"' in (tmp_path / "x").read_text("utf-8")


def test_a_missing_first_copy_is_reported(tmp_path):
    captures = sample.make(tmp_path)
    sample.write(tmp_path, "captures", [c for c in captures if c["capture_id"] != "r000001-0-1-1"])
    counts = export_cdxj(Source(tmp_path, Config()), tmp_path / "x")
    assert (counts["unresolved"], counts["unresolved_examples"]) == (1, ["r000001-0-1-1"])


def test_no_crawl_there(tmp_path):
    with pytest.raises(ConfigError, match="no crawl there"):
        Source(tmp_path, Config())


def test_a_sort_larger_than_memory():
    lines = [f"{random.Random(n).random()} \u00e9" for n in range(5000)] * 2
    assert list(sorted_lines(iter(lines), chars=200)) == sorted(set(lines))


def test_a_file_is_whole_or_as_before(tmp_path):
    (tmp_path / "x").write_text("before")
    with pytest.raises(RuntimeError), atomic(tmp_path / "x", "w") as f:
        f.write("half")
        raise RuntimeError
    assert (tmp_path / "x").read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
