"""What servers do, by the rule of RFC 9110 and RFC 9112 that it tests, and what must be recorded of
it: outcome row and WARC record.

The byte table of tests/rules/http/http_cases.py comes first; what needs an outcome, a redirect, a
clock or a reset is added here.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass, field

from tests.rules.http.http_cases import CASES, chunked, ok

LIMIT = 20_000  # fetch.max_body_bytes of the run
DEADLINE_S = 1.5


@dataclass(frozen=True)
class Served:
    """`raw` is sent, then `ending`: close, reset, stall (nothing more) or drip (a byte now and
    then).

    `outcome` and `reason` of the row. With a status there is a WARC record of `body`, cut as
    `truncated` says; without one there is none. `note`: part of the row's detail. `target`:
    redirect_to.
    """

    name: str
    section: str  # of RFC 9110 unless "9112 " stands before it
    raw: bytes
    outcome: str = "fetched"
    reason: str | None = None
    status: int | None = 200
    body: bytes = b""
    truncated: str | None = None
    note: str | None = None
    target: str | None = None
    ending: str = "close"
    pieces: int = 1  # sent in so many writes, a moment apart
    absent: tuple[bytes, ...] = field(default=())  # must not stand in the stored record


def outcome_of(status: int) -> tuple[str, str | None]:
    if 200 <= status < 300:
        return "fetched", None
    if status in (403, 404, 410, 429):
        return "http_error", f"http_{status}"
    return "http_error", f"http_{min(status // 100, 5)}xx"


def _of_table() -> list[Served]:
    served = []
    for case in CASES:
        if case.limit < 1024:  # at the run's own limit below
            continue
        if case.error:
            served.append(Served(case.name, "9112", case.raw, "failed", str(case.error), None))
        else:
            served.append(
                Served(
                    case.name,
                    "9112",
                    case.raw,
                    *outcome_of(case.status),
                    case.status,
                    case.body,
                    case.truncated,
                    None if case.note == "*" else case.note,
                )
            )
    return served


def answer(status: int, *fields: str, body: bytes = b"", phrase: str = "X") -> bytes:
    return (
        "".join([f"HTTP/1.1 {status} {phrase}\r\n", *(f + "\r\n" for f in fields), "\r\n"]).encode(
            "latin-1"
        )
        + body
    )


def plain_status(status: int, section: str, *fields: str, **kw: object) -> Served:
    outcome, reason = outcome_of(status)
    return Served(
        f"status {status}" + (f" {fields[0]}" if fields else ""),
        section,
        answer(status, *fields, "Content-Length: 2", body=b"ok"),
        outcome,
        reason,
        status,
        b"ok",
        **kw,
    )


def hop(
    name: str,
    location: str,
    target: str | None,
    reason: str | None = None,
    status: int = 302,
    section: str = "10.2.2",
    extra: tuple[str, ...] = (),
) -> Served:
    raw = answer(
        status,
        *([f"Location: {location}"] if location is not None else []),
        *extra,
        "Content-Length: 0",
    )
    return Served(
        name, section, raw, "redirected" if target else "http_error", reason, status, target=target
    )


BODY = b"hello, world"
GZ = gzip.compress(BODY, mtime=0)
LONG = b"0123456789" * 3000

ADDED = [
    # 9112 2 to 5: bytes in odd pieces, white space, sizes at the bound
    Served(
        "a byte at a time",
        "9112 2.1",
        ok("Content-Length: 5", body=b"hello"),
        body=b"hello",
        pieces=100,
    ),
    Served(
        "chunks a byte at a time",
        "9112 7.1",
        chunked(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
        body=b"abcde",
        pieces=100,
    ),
    Served(
        "white space before the first field",
        "9112 2.2",
        ok(" X: 1", "Content-Length: 1", body=b"x"),
        body=b"x",
        note="bad_header_line",
    ),
    Served(
        "line of 8 KiB",
        "9112 2.3",
        ok("X: " + "a" * 8180, "Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    Served(
        "a hundred fields", "5.4", ok(*["X: 1"] * 99, "Content-Length: 1", body=b"x"), body=b"x"
    ),
    Served(
        "a hundred and one fields",
        "5.4",
        ok(*["X: 1"] * 100, "Content-Length: 1", body=b"x"),
        "failed",
        "headers_too_large",
        None,
    ),
    Served("status line alone", "9112 4", b"HTTP/1.1 200 OK\r\n\r\n"),
    Served(
        "reason of spaces", "9112 4", b"HTTP/1.1 200    \r\nContent-Length: 1\r\n\r\nx", body=b"x"
    ),
    Served(
        "reason with a tab", "9112 4", b"HTTP/1.1 200 A\tB\r\nContent-Length: 1\r\n\r\nx", body=b"x"
    ),
    Served(
        "reason with NUL",
        "9112 4",
        b"HTTP/1.1 200 A\0B\r\nContent-Length: 1\r\n\r\nx",
        body=b"x",
        note="control_in_header",
    ),
    Served(
        "unicode digits in the code",
        "9112 4",
        "HTTP/1.1 ２００ OK\r\n\r\n".encode(),
        "failed",
        "http_malformed",
        None,
    ),
    Served(
        "two status lines",
        "9112 4",
        b"HTTP/1.1 200 OK\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx",
        body=b"x",
        note="bad_header_line",
    ),
    Served(
        "a request for an answer",
        "9112 2.1",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "failed",
        "http_malformed",
        None,
    ),
    Served(
        "smtp banner", "9112 2.1", b"220 mail.example ESMTP\r\n", "failed", "http_malformed", None
    ),
    Served(
        "json without a head", "9112 2.1", b'{"a": 1}\r\n\r\n', "failed", "http_malformed", None
    ),
    # 9110 5: fields
    Served(
        "names in any case",
        "5.1",
        ok("CONTENT-LENGTH: 1", "cOnTeNt-TyPe: text/html", body=b"xy"),
        body=b"x",
        note="surplus_bytes",
    ),
    Served(
        "unknown fields", "5.1", ok("X-Unheard-Of: yes", "Content-Length: 1", body=b"x"), body=b"x"
    ),
    Served(
        "empty list members",
        "5.6.1",
        ok("Transfer-Encoding: , chunked ,", body=b"1\r\nx\r\n0\r\n\r\n"),
        body=b"x",
    ),
    Served(
        "chunked over two lines",
        "5.3",
        ok("Transfer-Encoding: chunked", "Transfer-Encoding: ", body=b"1\r\nx\r\n0\r\n\r\n"),
        body=b"x",
    ),
    Served(
        "chunked twice",
        "9112 6.1",
        ok("Transfer-Encoding: chunked, chunked", body=b"1\r\nx\r\n0\r\n\r\n"),
        body=b"x",
        note="te_not_chunked",
    ),
    Served(
        "quoted string in a value",
        "5.6.4",
        ok('X: "a\\"b, c"', "Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    Served(
        "obs-text in a value",
        "5.5",
        ok("X: caf\xe9 \xff", "Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    Served(
        "DEL in a value",
        "5.5",
        ok("X: a\x7fb", "Content-Length: 1", body=b"x"),
        body=b"x",
        note="control_in_header",
    ),
    Served(
        "vertical tab in a value",
        "5.5",
        ok("Content-Length: 1\x0b", body=b"x"),
        body=b"x",
        note="*",
    ),
    Served(
        "date in asctime form",
        "5.6.7",
        ok("Last-Modified: Sun Nov  6 08:49:37 1994", "Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    # 9110 6, 8: content
    Served("length and nothing", "8.6", ok("Content-Length: 0")),
    Served("no Content-Type", "8.3", ok("Content-Length: 1", body=b"x"), body=b"x"),
    Served(
        "Content-Type of nonsense",
        "8.3",
        ok("Content-Type: ;;;", "Content-Length: 1", body=b"x"),
        "refused",
        "content_type",
        None,
    ),
    # the last type that is one: Fetch Standard, "extract a MIME type"
    Served(
        "Content-Type twice, the last of a page",
        "8.3",
        ok("Content-Type: image/png", "Content-Type: text/html", "Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    Served(
        "Content-Type twice, the last of an image",
        "8.3",
        ok("Content-Type: text/html", "Content-Type: image/png", "Content-Length: 1", body=b"x"),
        "refused",
        "content_type",
        None,
        note="text/html, image/png",
    ),
    Served(
        "video",
        "8.3",
        ok("Content-Type: video/mp4", "Content-Length: 9999999"),
        "refused",
        "content_type",
        None,
    ),
    Served(
        "video with an error status",
        "8.3",
        answer(404, "Content-Type: video/mp4", "Content-Length: 1", body=b"x"),
        "http_error",
        "http_404",
        404,
        b"x",
    ),
    Served(
        "gzip is stored as sent",
        "8.4",
        ok("Content-Encoding: gzip", f"Content-Length: {len(GZ)}", body=GZ),
        body=GZ,
    ),
    Served(
        "gzip that is none",
        "8.4",
        ok("Content-Encoding: gzip", "Content-Length: 5", body=b"plain"),
        body=b"plain",
    ),
    Served(
        "deflate without its wrapper",
        "8.4.1.2",
        ok("Content-Encoding: deflate", body=zlib.compress(BODY)[2:-4]),
        body=zlib.compress(BODY)[2:-4],
    ),
    Served(
        "unknown content coding",
        "8.4",
        ok("Content-Encoding: zoo", "Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    Served(
        "gzip in chunks",
        "8.4",
        chunked(b"%x\r\n%s\r\n0\r\n\r\n" % (len(GZ), GZ), "Content-Encoding: gzip"),
        body=GZ,
    ),
    Served(
        "gzip cut short",
        "8.4",
        ok("Content-Encoding: gzip", f"Content-Length: {len(GZ)}", body=GZ[:-5]),
        body=GZ[:-5],
        truncated="disconnect",
    ),
    Served(
        "Content-Range without a range",
        "14.4",
        ok("Content-Range: bytes 0-0/9", "Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    Served(
        "multipart ranges nobody asked for",
        "15.3.7",
        answer(
            206, "Content-Type: multipart/byteranges; boundary=B", "Content-Length: 1", body=b"x"
        ),
        "refused",
        "content_type",
        None,
    ),
    Served(
        "Content-Location names another",
        "8.7",
        ok("Content-Location: http://127.0.0.1/", "Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    Served(
        "two entity tags",
        "8.8.3",
        ok('ETag: "a"', 'ETag: "b"', "Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    # 9112 6, 7 at the run's limit
    Served(
        "length over the limit",
        "9112 6.3",
        ok(f"Content-Length: {len(LONG)}", body=LONG),
        body=LONG[:LIMIT],
        truncated="length",
    ),
    Served(
        "close over the limit", "9112 6.3", ok(body=LONG), body=LONG[:LIMIT], truncated="length"
    ),
    Served(
        "chunks over the limit",
        "9112 7.1",
        chunked(b"%x\r\n%s\r\n0\r\n\r\n" % (len(LONG), LONG)),
        body=LONG[:LIMIT],
        truncated="length",
    ),
    Served(
        "exactly the limit by length",
        "9112 6.3",
        ok(f"Content-Length: {LIMIT}", body=LONG[:LIMIT]),
        body=LONG[:LIMIT],
    ),
    Served("exactly the limit by close", "9112 6.3", ok(body=LONG[:LIMIT]), body=LONG[:LIMIT]),
    Served(
        "exactly the limit in chunks",
        "9112 7.1",
        chunked(b"%x\r\n%s\r\n0\r\n\r\n" % (LIMIT, LONG[:LIMIT])),
        body=LONG[:LIMIT],
    ),
    Served(
        "endless tiny chunks",
        "9112 7.1",
        chunked(b"1\r\nx\r\n" * 40_000),
        body=b"x" * 16_644,
        truncated="length",
        note="chunk_too_many",
    ),
    Served(
        "endless extension",
        "9112 7.1.1",
        chunked(b"1;" + b"e" * 50_000 + b"\r\nx\r\n0\r\n\r\n"),
        "failed",
        "http_malformed",
        None,
    ),
    Served(
        "endless size of zeros",
        "9112 7.1",
        chunked(b"0" * 50_000),
        "failed",
        "http_malformed",
        None,
    ),
    Served(
        "endless trailers",
        "9112 7.1.2",
        chunked(b"1\r\nx\r\n0\r\n" + b"T: 1\r\n" * 20_000),
        body=b"x",
        note="trailer_too_long",
    ),
    Served(
        "trailer does not count as a field",
        "6.5.1",
        chunked(b"1\r\nx\r\n0\r\nContent-Type: video/mp4\r\nLocation: /other\r\n\r\n"),
        body=b"x",
    ),
    Served(
        "trailer that was announced",
        "6.6.2",
        chunked(b"1\r\nx\r\n0\r\nDigest: y\r\n\r\n", "Trailer: Digest"),
        body=b"x",
    ),
    Served(
        "trailer without a colon",
        "9112 7.1.2",
        chunked(b"1\r\nx\r\n0\r\nnonsense\r\n\r\n"),
        body=b"x",
    ),
    Served("chunk data by LF only", "9112 7.1", chunked(b"1\nx\n0\n\n"), body=b"x", note="bare_lf"),
    Served(
        "space before a size",
        "9112 7.1",
        chunked(b" 1\r\nx\r\n0\r\n\r\n"),
        "failed",
        "http_malformed",
        None,
    ),
    Served(
        "size with an underscore",
        "9112 7.1",
        chunked(b"1_0\r\nx\r\n0\r\n\r\n"),
        "failed",
        "http_malformed",
        None,
    ),
    Served(
        "quoted extension with a semicolon",
        "9112 7.1.1",
        chunked(b'1;a="x;y"\r\nx\r\n0\r\n\r\n'),
        body=b"x",
    ),
    Served(
        "compress coding",
        "9112 7.2",
        ok("Transfer-Encoding: compress", body=b"\x1f\x9dx"),
        body=b"\x1f\x9dx",
        note="te_not_chunked",
    ),
    # 9110 15.2: interim answers
    Served(
        "100 then the answer",
        "15.2.1",
        b"HTTP/1.1 100 Continue\r\n\r\n" + ok("Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    Served(
        "102 with a link",
        "15.2",
        b"HTTP/1.1 102 Processing\r\nLink: </a>\r\n\r\n" + ok("Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    Served(
        "unknown interim answer",
        "15.2",
        b"HTTP/1.1 199 Hm\r\n\r\n" + ok("Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    Served(
        "eight interim answers",
        "15.2",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 8 + ok("Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    Served(
        "nine interim answers",
        "15.2",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 9 + ok("Content-Length: 1", body=b"x"),
        "failed",
        "too_many_interim",
        None,
    ),
    Served(
        "interim answer with a length",
        "8.6",
        b"HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n"
        + ok("Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    Served(
        "101 that nobody asked for",
        "7.8",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x02hi",
        "failed",
        "http_malformed",
        None,
    ),
    # 9110 15.3 to 15.6: statuses
    *(plain_status(s, "15.3") for s in (201, 202, 203, 207, 208, 226, 299)),
    plain_status(206, "15.3.7", note="partial"),
    Served("204 and no body", "15.3.5", answer(204), status=204),
    Served(
        "204 chunked",
        "8.6",
        answer(204, "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        status=204,
        note="surplus_bytes",
    ),
    Served("205 without a length", "15.3.6", answer(205, "Content-Length: 0"), status=205),
    plain_status(201, "10.2.2", "Location: http://127.0.0.1/"),  # no redirect
    plain_status(200, "10.2.2", "Location: /elsewhere"),
    plain_status(300, "15.4.1"),
    plain_status(305, "15.4.6", "Location: http://proxy.example/"),
    plain_status(306, "15.4.7", "Location: /x"),
    plain_status(310, "15.4"),
    *(
        hop(f"redirect {s}", "/next", "http://{host}/next", status=s, section="15.4")
        for s in (301, 302, 303, 307, 308)
    ),
    Served(
        "304 to an unconditional request",
        "15.4.5",
        answer(304, 'ETag: "a"'),
        "http_error",
        "http_3xx",
        304,
    ),
    *(
        plain_status(s, "15.5")
        for s in (
            400,
            402,
            403,
            404,
            405,
            406,
            408,
            409,
            410,
            411,
            412,
            413,
            414,
            415,
            416,
            417,
            418,
            421,
            422,
            423,
            425,
            426,
            428,
            429,
            431,
            451,
            499,
        )
    ),
    plain_status(401, "11.6.1", 'WWW-Authenticate: Basic realm="x"'),
    plain_status(407, "11.7.1", "Proxy-Authenticate: Basic"),
    *(plain_status(s, "15.6") for s in (500, 501, 502, 503, 504, 505, 507, 511, 520, 599)),
    # 9110 10.2.2: Location
    hop("absolute", "http://other.example/a", "http://other.example/a"),
    hop("scheme-relative", "//other.example/a", "http://other.example/a"),
    hop("path-relative", "b?c=d", "http://{host}/b?c=d"),
    hop("query only", "?q=1", "http://{host}/?q=1"),
    hop("with a fragment", "/x#frag", "http://{host}/x"),
    hop("with credentials", "http://user:secret@other.example/", "http://other.example/"),
    hop("white space in it", "/a b", "http://{host}/a%20b"),
    hop("raw UTF-8 in it", "/caf\xc3\xa9", "http://{host}/caf%C3%A9"),
    hop("backslashes", "\\\\other.example\\a", "http://other.example/a"),
    hop("empty", "", None, "redirect_loop"),
    hop("to itself", "/", None, "redirect_loop"),
    hop("to itself with a fragment", "/#a", None, "redirect_loop"),
    hop("none at all", None, None, "redirect_invalid"),
    hop("nonsense", "http://[", None, "url_invalid"),
    hop("another scheme", "ftp://other.example/", None, "url_scheme"),
    hop("javascript", "javascript:alert(1)", None, "url_scheme"),
    hop("data", "data:text/html,x", None, "url_scheme"),
    hop("to loopback", "http://127.0.0.1/", None, "address_forbidden"),
    hop("to the metadata service", "http://169.254.169.254/", None, "address_forbidden"),
    hop("two of them", "/first", "http://{host}/first", extra=("Location: /second",)),
    Served(
        "redirect with an endless body",
        "15.4",
        answer(302, "Location: /next", body=LONG),
        "redirected",
        None,
        302,
        LONG[:LIMIT],
        "length",
        target="http://{host}/next",
    ),
    # 9112 8, 9: ends of connections
    Served("closed at once", "9112 9.5", b"", "failed", "disconnected", None),
    Served("reset at once", "9112 9.5", b"", "failed", "disconnected", None, ending="reset"),
    Served(
        "reset inside the head",
        "9112 8",
        b"HTTP/1.1 200 OK\r\nX:",
        "failed",
        "disconnected",
        None,
        ending="reset",
    ),
    Served(
        "reset inside a length",
        "9112 8",
        ok("Content-Length: 9", body=b"half"),
        body=b"half",
        truncated="disconnect",
        ending="reset",
    ),
    Served(
        "reset instead of the close",
        "9112 8",
        ok(body=b"half"),
        body=b"half",
        truncated="disconnect",
        ending="reset",
    ),
    Served(
        "reset inside a chunk",
        "9112 8",
        chunked(b"9\r\nhalf"),
        body=b"half",
        truncated="disconnect",
        ending="reset",
    ),
    Served(
        "reset after a whole answer",
        "9112 9.6",
        ok("Content-Length: 4", body=b"full"),
        body=b"full",
        ending="reset",
    ),
    Served(
        "reset inside the trailer",
        "9112 7.1.2",
        chunked(b"1\r\nx\r\n0\r\nT: 1"),
        body=b"x",
        ending="reset",
        note="trailer_cut",
    ),
    Served(
        "whole, and the connection stays",
        "9112 9.3",
        ok("Content-Length: 4", body=b"full"),
        body=b"full",
        ending="stall",
    ),
    Served(
        "whole chunks, and the connection stays",
        "9112 9.3",
        chunked(b"1\r\nx\r\n0\r\n\r\n"),
        body=b"x",
        ending="stall",
    ),
    Served("204, and the connection stays", "9112 9.3", answer(204), status=204, ending="stall"),
    Served(
        "keep-alive in HTTP/1.0",
        "9112 9.3",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
        body=b"x",
        ending="stall",
    ),
    Served(
        "close that never comes",
        "9112 9.6",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
        body=b"x",
        ending="stall",
    ),
    # the clocks
    Served("silence", "9112 9.5", b"", "failed", "timeout", None, ending="stall"),
    Served(
        "silence inside the status line",
        "9112 9.5",
        b"HTTP/1.1 2",
        "failed",
        "read_stalled",
        None,
        ending="stall",
    ),
    Served(
        "silence inside the head",
        "9112 9.5",
        b"HTTP/1.1 200 OK\r\nX: 1\r\n",
        "failed",
        "read_stalled",
        None,
        ending="stall",
    ),
    Served(
        "silence after an interim answer",
        "15.2",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        "failed",
        "read_stalled",
        None,
        ending="stall",
    ),
    Served(
        "silence inside a length",
        "9112 9.5",
        ok("Content-Length: 9", body=b"half"),
        body=b"half",
        truncated="time",
        ending="stall",
    ),
    Served(
        "silence before a body",
        "9112 9.5",
        ok("Content-Length: 9"),
        truncated="time",
        ending="stall",
    ),
    Served(
        "silence before the close",
        "9112 9.6",
        ok(body=b"half"),
        body=b"half",
        truncated="time",
        ending="stall",
    ),
    Served(
        "silence inside a chunk",
        "9112 7.1",
        chunked(b"9\r\nhalf"),
        body=b"half",
        truncated="time",
        ending="stall",
    ),
    Served(
        "silence inside a size",
        "9112 7.1",
        chunked(b"2\r\nok\r\n1"),
        body=b"ok",
        truncated="time",
        ending="stall",
    ),
    Served(
        "silence inside the trailer",
        "9112 7.1.2",
        chunked(b"1\r\nx\r\n0\r\nT: 1"),
        body=b"x",
        truncated="time",
        ending="stall",
    ),
    Served(
        "dripping head",
        "9112 9.5",
        b"HTTP/1.1 200 OK\r\nX: ",
        "failed",
        "read_stalled",
        None,
        ending="drip",
    ),
    Served(
        "dripping chunk line",
        "9112 7.1",
        chunked(b"2\r\nok\r\n1;"),
        body=b"ok",
        truncated="time",
        ending="drip",
    ),
    # secrets
    Served(
        "cookies of a server",
        "RFC 6265",
        ok("Set-Cookie: id=s3cr3t; HttpOnly", "Content-Length: 1", body=b"x"),
        body=b"x",
        absent=(b"s3cr3t",),
    ),
    Served(
        "folded cookie",
        "RFC 6265",
        ok("Set-Cookie: id=1;", " x=s3cr3t", "Content-Length: 1", body=b"x"),
        body=b"x",
        note="obs_fold",
        absent=(b"s3cr3t",),
    ),
]

SERVED = [*_of_table(), *ADDED]
