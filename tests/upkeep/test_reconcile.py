"""Tables against WARC files: N = N on a sound crawl, and each planted difference is found."""

from __future__ import annotations

import json

import pytest
from crawlkit.adapters.warc.writer import WarcWriter
from crawlkit.cli.main import load_all
from crawlkit.config import Config
from crawlkit.exports.source import Source
from crawlkit.upkeep.reconcile import reconcile
from typer.testing import CliRunner

from tests.exports import sample

pytestmark = pytest.mark.waits


@pytest.fixture
def crawl(tmp_path):
    return tmp_path, sample.make(tmp_path)


def found(data):
    return reconcile(Source(data, Config()))


def test_a_sound_crawl(crawl):
    r = found(crawl[0])
    assert (r["ok"], r["captures"], r["records"], r["files"], r["orphan_files"], r["examples"]) == (
        True,
        9,
        9,
        2,
        0,
        {},
    )


def test_a_file_that_is_gone_and_one_that_nobody_names(crawl):
    data, _ = crawl
    first = next(p for p in (data / "warc").iterdir() if "r000001" in p.name)
    first.rename(data / "warc" / "other.warc.gz")
    r = found(data)
    assert (r["ok"], r["missing_files"], r["captures_without_record"], r["orphan_files"]) == (
        False,
        1,
        7,
        1,
    )
    assert r["examples"]["missing_files"] == [first.name]


def test_a_file_with_the_log_alone_is_no_orphan(crawl):
    place = ("crawl", "r000009", 0, 1)
    writer = WarcWriter(crawl[0] / "warc", place, {}, roll_bytes=1 << 30, roll_s=1e9)
    writer.write_log([("round", b'{"id": "r000009"}')])
    writer.close()
    assert len(list((crawl[0] / "warc").glob("*r000009*.warc.gz"))) == 1
    r = found(crawl[0])
    assert (r["ok"], r["orphan_files"], r["examples"]) == (True, 0, {})


def test_a_record_without_a_capture(crawl):
    data, captures = crawl
    sample.write(data, "captures", [c for c in captures if c["capture_id"] != "r000001-0-1-4"])
    r = found(data)
    assert (r["ok"], r["captures"], r["records"], r["records_without_capture"]) == (False, 8, 9, 1)
    assert "http://site.test/none" in r["examples"]["records_without_capture"][0]


def test_a_capture_that_points_elsewhere_and_one_recorded_twice(crawl):
    data, captures = crawl
    changed = [
        c | {"warc_record_id": "<urn:uuid:0>"} if c["capture_id"] == "r000001-0-1-1" else c
        for c in captures
    ]
    sample.write(data, "captures", [*changed, captures[0] | {"capture_id": "again"}])
    r = found(data)
    assert (r["captures_without_record"], r["captures_twice"]) == (1, 1)


def test_a_damaged_file(crawl):
    data, _ = crawl
    first = next(p for p in (data / "warc").iterdir() if "r000001" in p.name)
    content = bytearray(first.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4] = b"\0\0\0\0"
    first.write_bytes(content)
    assert found(data)["damaged_files"] == 1


def test_the_verb(crawl):
    data, captures = crawl
    run = CliRunner().invoke
    assert "N = N" in run(load_all(), ["reconcile", "--data", str(data)]).output
    sample.write(data, "captures", captures[1:])
    done = run(load_all(), ["reconcile", "--data", str(data), "--json"])
    assert (done.exit_code, json.loads(done.output)["records_without_capture"]) == (1, 1)
