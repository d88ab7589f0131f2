"""Every file of Scrapy's sample set (shared/suites/scrapy), accounted for; right values: its own
tests and the files themselves.
"""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
import zipfile
from functools import cache

import pytest
from crawlkit.rules.feeds.sitemaps import parse
from crawlkit.rules.http.content_coding import decode_content
from crawlkit.rules.page.page import parse_page

from tests.shared_data import shared

BOMB_BYTES = 11_511_612
BOMBS = {
    "bomb-br.bin": "br",
    "bomb-deflate.bin": "deflate",
    "bomb-gzip.bin": "gzip",
    "bomb-zstd.bin": "zstd",
}
PAGES = {
    "html-br.bin": ["br"],
    "html-gzip.bin": ["gzip"],
    "html-rawdeflate.bin": ["deflate"],
    "html-zlibdeflate.bin": ["deflate"],
    "html-gzip-deflate.bin": ["gzip", "deflate"],
    "html-gzip-deflate-gzip.bin": ["gzip", "deflate", "gzip"],
    "html-zstd-static-content-size.bin": ["zstd"],
    "html-zstd-static-no-content-size.bin": ["zstd"],
    "html-zstd-streaming-no-content-size.bin": ["zstd"],
}
DAMAGED = {
    "truncated-crc-error.gz",
    "truncated-crc-error-short.gz",
    "unexpected-eof.gz",
    "unexpected-eof-output.txt",
}
FEEDS = {
    "feed-sample1.xml",
    "feed-sample1.xml.gz",
    "feed-sample1.xml.bz2",
    "feed-sample1.zip",
    "feed-sample1.tar",
}
AT = "http://example.com/"
LINKS = {
    "linkextractor.html": [
        "sample1.html",
        "sample2.html",
        "sample3.html",
        "http://www.google.com/something",
        "innertag.html",
        "page%204.html",
    ],
    "linkextractor_latin1.html": [
        "sample_%C3%B1.html",
        "sample_%C3%A1.html",
        "sample_%C3%B6.html?%C2%B5=unit&price=%C2%A332",
    ],
    "linkextractor_noenc.html": ["sample_%C3%B1.html", "sample_%E2%82%AC.html"],
    "linkextractor_no_href.html": ["author/Albert-Einstein", "page/1/", "page/3/", "page/4/"],
}


@cache
def files() -> dict[str, bytes]:
    with tarfile.open(shared("suites/scrapy/samples.tar.gz")) as tar:
        return {m.name.rpartition("/")[2]: tar.extractfile(m).read() for m in tar if m.isfile()}


def test_every_file_is_used_here():
    assert set(files()) - {"LICENSE"} == {*BOMBS, *PAGES, *DAMAGED, *FEEDS, *LINKS}


def test_bombs_stop_at_the_limit():
    for name, coding in BOMBS.items():
        whole, cut = (
            decode_content(files()[name], [coding], 20_000_000),
            decode_content(files()[name], [coding], 1_000_000),
        )
        assert (len(whole.body), whole.truncated, whole.error) == (BOMB_BYTES, None, None), name
        assert (len(cut.body), cut.truncated, cut.error) == (1_000_000, "length", None), name


def test_pages_in_every_coding_are_one_page():
    """All but the one of br hold the same page."""
    found = {name: decode_content(files()[name], names) for name, names in PAGES.items()}
    assert {(d.truncated, d.error, d.raw_kept) for d in found.values()} == {(None, None, False)}
    assert len({d.body for name, d in found.items()}) <= 2
    assert all(b"<html" in d.body[:500].lower() for d in found.values())


def test_damaged_streams_keep_what_came():
    cut = decode_content(files()["unexpected-eof.gz"], ["gzip"])
    assert cut.error and cut.body == files()["unexpected-eof-output.txt"].decode().encode("latin-1")
    for name, end in (
        ("truncated-crc-error.gz", b"</html"),
        ("truncated-crc-error-short.gz", b"</html>"),
    ):
        found = decode_content(files()[name], ["gzip"])
        assert found.error and found.body.endswith(end) and not found.raw_kept


def test_a_product_list_is_no_sitemap_however_it_is_packed():
    """The same XML plain, gzipped, and in three archives that a sitemap may not use: no entry is
    made up of it.
    """
    plain = files()["feed-sample1.xml"]
    assert (
        gzip.decompress(files()["feed-sample1.xml.gz"])
        == bz2.decompress(files()["feed-sample1.xml.bz2"])
        == plain
    )
    assert (
        zipfile.ZipFile(io.BytesIO(files()["feed-sample1.zip"])).namelist()
        and tarfile.open(fileobj=io.BytesIO(files()["feed-sample1.tar"])).getnames()
    )
    for name in FEEDS:
        found = parse(files()[name], AT + name)
        assert (found.kind, found.entries, found.sitemaps) == ("none", [], {}), name
    assert decode_content(files()["feed-sample1.xml.gz"], ["gzip"]).body == plain


@pytest.mark.waits
def test_links_of_its_pages():
    for name, wanted in LINKS.items():
        page = parse_page(files()[name], AT + "index", "text/html", [], "crawlkit")
        found = list(
            dict.fromkeys(link.url for link in page.links.links if link.kind in ("a", "area"))
        )
        assert found == [w if w.startswith("http") else AT + w for w in wanted], name
