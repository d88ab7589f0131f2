"""Stored answers: the newest of a URL, and all of them."""

from __future__ import annotations

import datetime
import shutil

import crawlkit
import pytest
from crawlkit.outcomes import Refused
from crawlkit.reading.stored import NotStored
from warcio.archiveiterator import ArchiveIterator

from tests.exports import sample
from tests.reading.conftest import TEXT

pytestmark = pytest.mark.waits


def test_bodies_as_they_were_sent(crawl):
    for url, _, _, body in sample.PAGES:  # the first was answered alike again, the second by a 304
        assert crawl.body(url) == body, url
    assert crawl.body("http://site.test/gz") == TEXT.encode()
    assert crawl.record("http://site.test/gz").payload[:2] == b"\x1f\x8b"
    assert crawl.record("http://site.test/latin").text == "café"


def test_the_newest_or_that_of_a_round(crawl):
    home = "http://www.site.test/"
    newest, first = crawl.record(home), crawl.record(home, round_id="r000001")
    assert (newest.round_id, newest.record_type, newest.revisit_of) == (
        "r000002",
        "revisit",
        first.capture_id,
    )
    assert first.time == datetime.datetime.fromtimestamp(sample.T0 + 86_400, datetime.UTC)
    assert newest.time - first.time == datetime.timedelta(days=1)
    unchanged = crawl.record(sample.PAGES[1][0])
    assert (unchanged.status, unchanged.text) == (304, sample.B)
    assert dict(unchanged.payload_headers)["Content-Type"] == sample.HTML


def test_what_is_not_stored(crawl):
    with pytest.raises(NotStored, match="nothing is stored of it"):
        crawl.body("http://site.test/never")
    with pytest.raises(NotStored, match="in round r000002"):
        crawl.body("http://site.test/gz", "r000002")
    with pytest.raises(Refused):
        crawl.body("mailto:a@b.example")


def test_all_records_as_warcio_reads_them(crawl, data):
    right = []
    for path in sorted((data / "warc").rglob("*.warc.gz")):
        with path.open("rb") as f:
            for record in ArchiveIterator(f):
                if record.rec_type in ("response", "revisit"):
                    head = record.http_headers
                    right.append(
                        (
                            record.rec_headers["WARC-Target-URI"],
                            int(head.get_statuscode()),
                            head.headers,
                            record.content_stream().read(),
                        )
                    )
    found = [(r.url, r.status, r.headers, r.body) for r in crawl.records()]
    assert len(found) == 12 and found == right
    wanted = [r.url for r in crawl.records("status = 404 -- no more")]
    assert wanted == ["http://site.test/none"]


def test_a_damaged_record_says_so_and_the_others_are_read(data, tmp_path):
    shutil.copytree(data, tmp_path / "site")
    crawl = crawlkit.open(tmp_path / "site")
    bad = next(iter(crawl.captures(where="url = 'http://site.test/gz'")))
    file = tmp_path / "site/warc" / bad["warc_filename"]
    raw = bytearray(file.read_bytes())
    at = bad["warc_record_offset"] + bad["warc_record_length"] // 2
    raw[at : at + 40] = bytes(40)
    file.write_bytes(raw)
    errors = {r.url: r.error for r in crawl.records() if r.error}
    assert errors.keys() == {"http://site.test/gz"}
    with pytest.raises(NotStored, match="cannot be read"):
        crawl.body("http://site.test/gz")
    file.unlink()
    assert all(r.error for r in crawl.records("round_id = 'r000001'"))
    with pytest.raises(NotStored, match="missing"):
        crawl.body(sample.PAGES[0][0])
