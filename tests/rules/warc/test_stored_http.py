"""Right values: WARC 1.1 5.6, 6.3; RFC 9112 6 (what a reader of the stored header will do)."""

from __future__ import annotations

import pytest
from crawlkit.rules.http.response import ResponseReader
from crawlkit.rules.warc.stored_http import protocol, stored_head, stored_request, target_uri


def test_true_header_is_stored_as_received():
    head = (
        b"HTTP/1.1 200 Okay \xc9\r\nSet-Cookie: a=\xe9\r\ncontent-LENGTH:  2 \r\nX-Empty:\r\n\r\n"
    )
    assert stored_head(head, 2, 200) == head


@pytest.mark.parametrize(
    "line",
    [
        b"Transfer-Encoding: chunked",
        b"transfer-encoding:gzip, chunked",
        b"Content-Length: 999",
        b"Content-Length: +2",
        b"Content-length : 3",
    ],
)
def test_untrue_lines_are_renamed(line):
    assert (
        stored_head(b"HTTP/1.1 200 OK\r\n" + line + b"\r\nA: b\r\n\r\n", 2, 200)
        == b"HTTP/1.1 200 OK\r\nX-Crawler-" + line + b"\r\nA: b\r\n\r\n"
    )


def test_bare_line_feeds_are_seen_too():
    assert b"\nX-Crawler-Transfer-Encoding: chunked\n" in stored_head(
        b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n", 2, 200
    )


def test_only_whole_names_at_the_start_of_a_line():
    head = (
        b"HTTP/1.1 200 OK\r\nX-Content-Length: 9\r\nA: Transfer-Encoding:"
        b" chunked\r\nContent-Length-X: 1\r\n\r\n"
    )
    assert stored_head(head, 2, 200) == head


def test_length_of_a_304_stays():
    head = b"HTTP/1.1 304 Not Modified\r\nContent-Length: 999\r\n\r\n"
    assert stored_head(head, 0, 304) == head


@pytest.mark.parametrize(
    "raw, alpn", [(b"HTTP/2 200\r\na: b\r\n\r\n", "h2"), (b"HTTP/3 200 \r\na: b\r\n\r\n", "h3")]
)
def test_later_protocols_are_written_as_1_1(raw, alpn):
    assert stored_head(raw, 0, 200).startswith(b"HTTP/1.1 200")
    assert protocol(raw[5:6].decode() + ".0") == alpn and protocol("1.1") is None


def test_stored_header_frames_the_stored_payload():
    raw = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length:"
        b" 4\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    )
    first, second = ResponseReader(), ResponseReader()
    first.feed(raw)
    second.feed(stored_head(first.header_bytes, len(first.body), 200) + first.body)
    second.eof()
    assert (second.body, second.truncated, second.notes) == (b"ok", None, [])


def test_credentials_are_not_stored():
    sent = (
        b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic x\r\nCOOKIE:"
        b" a=b\r\nProxy-Authorization: y\r\nX-Cookie: z\r\n\r\n"
    )
    assert stored_request(sent) == b"GET / HTTP/1.1\r\nHost: a\r\nX-Cookie: z\r\n\r\n"


@pytest.mark.parametrize(
    "url, target",
    [
        ("http://user:pw@site.example/p#f", "http://site.example/p"),
        ("http://site.example/@x?a=http://b@c/", "http://site.example/@x?a=http://b@c/"),
        ("http://site.example/", "http://site.example/"),
        ("dns:site.example", "dns:site.example"),
    ],
)
def test_target_uri(url, target):
    assert target_uri(url) == target
