"""SURT keys and CDXJ lines.

Keys checked by hand against the rules of wayback indexes; cdxj-indexer is compared in
tests/exports.
"""

from __future__ import annotations

import pytest
from crawlkit.rules.warc.cdxj_lines import (
    Entry,
    RevisitCheck,
    cdxj_line,
    cluster_lines,
    mime_of,
    surt_key,
    timestamp_of,
)
from hypothesis import given, strategies as st

from tests.cputime import within

KEYS = {
    "http://site.example": "example,site)/",
    "https://www.site.example/": "example,site)/",
    "http://WWW2.Site.Example:80/A/": "example,site)/a",
    "http://site.example:8443/x": "example,site:8443)/x",
    "https://site.example:80/x": "example,site:80)/x",
    "http://user:secret@site.example/x": "example,site)/x",
    "http://site.example/a%20b": "example,site)/a%20b",
    "http://site.example/%2525/%7Eu": "example,site)/%25/~u",
    "http://site.example/\u00e9": "example,site)/%c3%a9",
    "http://site.example/a//b/../c": "example,site)/a/c",
    "http://site.example/?b=2&a=1&a&B": "example,site)/?a&a=1&b&b=2",
    "http://site.example/?": "example,site)/",
    "http://site.example/x?sid=0123456789abcdef0123456789abcdef&q=1#top": "example,site)/x?q=1",
    "http://site.example/x?q=1&cfid=1&cftoken=2&r=3": "example,site)/x?q=1&r=3",
    "http://site.example/(s(0123456789abcdefghijklmn))/page.aspx": "example,site)/page.aspx",
    "http://127.0.0.1/": "1,0,0,127)/",
    "http://[::1]:8080/": "::1:8080)/",
    "http://b\u00fccher.example/": "example,xn--bcher-kva)/",
    "urn:uuid:A": "urn:uuid:a",
}


@pytest.mark.parametrize("url", KEYS)
def test_key(url):
    assert surt_key(url) == KEYS[url]


@given(st.text(max_size=200))
def test_any_text_has_an_ascii_key_without_spaces(text):
    for url in (text, f"http://site.example/{text}", f"http://{text}/", f"http://h/?{text}"):
        key = surt_key(url)
        assert key.isascii() and " " not in key and "\n" not in key


@pytest.mark.waits
@pytest.mark.parametrize(
    "piece",
    [
        "%25",
        "%2",
        "/(a(" + "a" * 24 + "))",
        "cfid=1&cftoken=2&",
        "cfid=",
        "sid=",
        "/..",
        "//",
        "a&",
    ],
)
def test_hostile_urls_cost_linear_time(piece):
    url = "http://h/" + piece * (60_000 // len(piece))
    within(1.0, lambda: (surt_key(url), surt_key(url.replace("http://h/", "http://h/?"))))


def test_a_line():
    entry = Entry(
        "http://site.example/a", "20240301000000", "text/html", 200, "sha1:X", 10, 20, "a.warc.gz"
    )
    assert (
        cdxj_line(entry)
        == 'example,site)/a 20240301000000 {"url": "http://site.example/a", "mime": "text/html",'
        ' "status": "200", "digest": "sha1:X", "length": "10", "offset": "20", "filename":'
        ' "a.warc.gz"}'
    )
    assert cdxj_line(entry, {"redirect": "x"}).endswith('"filename": "a.warc.gz", "redirect": "x"}')


def test_media_type_and_date():
    assert mime_of("text/html; charset=utf-8") == "text/html"
    assert mime_of(" text/html") == "" == mime_of("")  # as cdxj-indexer
    assert mime_of(None) is None
    assert (
        timestamp_of("2024-03-01T12:00:01Z")
        == timestamp_of("2024-03-01T12:00:01.999Z")
        == "20240301120001"
    )
    assert timestamp_of("2024-03") == "20240301000000"


def test_a_revisit_points_at_url_and_second():
    check = RevisitCheck(
        [
            ("http://site.example/p", "2024-02-01T12:00:00Z"),
            ("http://site.example/q", "2024-02-01T12:00:00Z"),
        ]
    )
    check.add("http://site.example/p", "20240201120000")
    check.add("http://site.example/q", "20240201120001")
    assert check.list_unresolved() == [("http://site.example/q", "20240201120000")]


def test_cluster():
    assert list(
        cluster_lines([("a)/ 2024 {}", 0, 100), ("b)/ 2025 {}", 100, 50)], "cdx-00000.gz")
    ) == ["a)/ 2024\tcdx-00000.gz\t0\t100\t1", "b)/ 2025\tcdx-00000.gz\t100\t50\t2"]
