"""A table of what servers send and what a client must make of it (RFC 9110, RFC 9112): for the
reader, and over real sockets for the engine.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass

from crawlkit.outcomes import Reason

BAD, EARLY, BIG, INTERIM = (
    Reason.HTTP_MALFORMED,
    Reason.DISCONNECTED,
    Reason.HEADERS_TOO_LARGE,
    Reason.TOO_MANY_INTERIM,
)
GZIPPED = gzip.compress(b"ok" * 99, mtime=0)


@dataclass(frozen=True)
class Case:
    """`raw` up to the close. `error`, or status and body.

    `note`: one that must be there; None: there must be none; "*": free.
    """

    name: str
    raw: bytes
    status: int | None = 200
    body: bytes = b""
    truncated: str | None = None
    note: str | None = None
    error: Reason | None = None
    limit: int = 1 << 20

    def wrong(self, error, status, body, truncated, notes) -> list[str]:
        if self.error:
            return [] if error == self.error else [f"error {error}, wanted {self.error}"]
        found = {"error": error, "status": status, "body": body, "truncated": truncated}
        want = {
            "error": None,
            "status": self.status,
            "body": self.body,
            "truncated": self.truncated,
        }
        wrong = [f"{k} {found[k]!r}, wanted {want[k]!r}" for k in want if found[k] != want[k]]
        fits = self.note == "*" or (not notes if self.note is None else self.note in notes)
        return wrong if fits else [*wrong, f"notes {notes}, wanted {self.note}"]


def ok(*fields: str, body: bytes = b"") -> bytes:
    return (
        "".join(["HTTP/1.1 200 OK\r\n", *(f + "\r\n" for f in fields), "\r\n"]).encode("latin-1")
        + body
    )


def chunked(body: bytes, *fields: str) -> bytes:
    return ok("Transfer-Encoding: chunked", *fields, body=body)


CASES = [
    # 9112 4: status line
    Case("plain", ok("Content-Length: 2", body=b"ok"), body=b"ok"),
    Case("no reason, no space", b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", body=b"ok"),
    Case("no reason, space", b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", body=b"ok"),
    Case("two spaces before the code", b"HTTP/1.1  200 OK\r\n\r\n", note="status_line_odd"),
    Case("tab before the code", b"HTTP/1.1\t200 OK\r\n\r\n", note="status_line_odd"),
    Case(
        "colon after the code",
        b"HTTP/1.1 404: Not Found\r\nContent-Length: 2\r\n\r\nno",
        status=404,
        body=b"no",
        note="status_line_odd",
    ),
    Case("two digits", b"HTTP/1.1 20 OK\r\n\r\n", error=BAD),
    Case("four digits", b"HTTP/1.1 2000 OK\r\n\r\n", error=BAD),
    Case("letters", b"HTTP/1.1 abc OK\r\n\r\n", error=BAD),
    Case("below 100", b"HTTP/1.1 099 Hm\r\n\r\n", error=BAD),
    Case(
        "status 999",
        b"HTTP/1.1 999 Request denied\r\nContent-Length: 0\r\n\r\n",
        status=999,
        note="status_out_of_range",
    ),
    Case("lower-case protocol", b"http/1.1 200 OK\r\n\r\n", error=BAD),
    Case("icy", b"ICY 200 OK\r\n\r\nx", error=BAD),
    Case("http/0.9 page", b"<html>hello</html>", error=BAD),
    Case("http/0.9 status line", b"HTTP/0.9 200 OK\r\n\r\nx", body=b"x", note="http_version"),
    Case("http/1.0", b"HTTP/1.0 200 OK\r\n\r\nto the end", body=b"to the end"),
    Case(
        "http/1.2",
        b"HTTP/1.2 200 OK\r\nContent-Length: 1\r\n\r\nx",
        body=b"x",
        note="status_line_odd",
    ),
    Case("http/5.6", b"HTTP/5.6 200 OK\r\n\r\n", error=BAD),
    Case(
        "no minor version",
        b"HTTP/1 200 OK\r\nContent-Length: 1\r\n\r\nx",
        body=b"x",
        note="status_line_odd",
    ),
    Case("version 1.01", b"HTTP/1.01 200 OK\r\n\r\n", error=BAD),
    Case("tls alert", b"\x15\x03\x01\x00\x02\x02\x46", error=BAD),
    Case("ssh banner", b"SSH-2.0-OpenSSH_9.6\r\n", error=BAD),
    Case("http/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", error=BAD),
    Case(
        "reason with high bytes",
        b"HTTP/1.1 200 \xc3\x89\xff\r\nContent-Length: 1\r\n\r\nx",
        body=b"x",
    ),
    Case(
        "blank lines first",
        b"\r\n\r\n" + ok("Content-Length: 1", body=b"x"),
        body=b"x",
        note="leading_blank_line",
    ),
    # 9112 2.2: line ends
    Case("bare LF", b"HTTP/1.1 200 OK\nContent-Length: 1\n\nx", body=b"x", note="bare_lf"),
    Case(
        "mixed line ends", b"HTTP/1.1 200 OK\r\nContent-Length: 1\n\r\nx", body=b"x", note="bare_lf"
    ),
    Case(
        "bare CR in a value",
        b"HTTP/1.1 200 OK\r\nX: a\rContent-Length: 9\r\nContent-Length: 1\r\n\r\nx",
        body=b"x",
        note="bare_cr",
    ),
    Case("only CR", b"HTTP/1.1 200 OK\rContent-Length: 1\r\rx", error=EARLY),
    # 9112 5: fields
    Case("empty value", ok("X-A:", "Content-Length: 1", body=b"x"), body=b"x"),
    Case("white space round values", ok("Content-Length: \t 1 \t", body=b"x"), body=b"x"),
    Case(
        "space before the colon",
        ok("Content-Length : 1", body=b"xy"),
        body=b"x",
        note="space_before_colon",
    ),
    Case(
        "no colon",
        ok("nonsense", "Content-Length: 1", body=b"x"),
        body=b"x",
        note="bad_header_line",
    ),
    Case(
        "empty name", ok(": v", "Content-Length: 1", body=b"x"), body=b"x", note="bad_header_line"
    ),
    Case(
        "name that is no token",
        ok("X(Y): v", "Content-Length: 1", body=b"x"),
        body=b"x",
        note="bad_header_line",
    ),
    Case(
        "space inside a name",
        ok("en-US Content-Length: 9", "Content-Length: 1", body=b"x"),
        body=b"x",
        note="bad_header_line",
    ),
    Case(
        "folded value",
        ok("X: a", "  b", "Content-Length: 1", body=b"x"),
        body=b"x",
        note="obs_fold",
    ),
    Case(
        "fold after the status line",
        ok(" Content-Length: 9", "Content-Length: 1", body=b"x"),
        body=b"x",
        note="bad_header_line",
    ),
    Case(
        "fold of a bad line",
        ok("bad", " Content-Length: 9", "Content-Length: 1", body=b"x"),
        body=b"x",
        note="bad_header_line",
    ),
    Case(
        "NUL in a value",
        b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 1\r\n\r\nx",
        body=b"x",
        note="control_in_header",
    ),
    Case(
        "high bytes in a value",
        b"HTTP/1.1 200 OK\r\nX: \xe9\r\nContent-Length: 1\r\n\r\nx",
        body=b"x",
    ),
    Case("bad cookie", ok("Set-Cookie: =;;; x", "Content-Length: 1", body=b"x"), body=b"x"),
    # 9112 6.3: length
    Case("no length", ok(body=b"to the end"), body=b"to the end"),
    Case(
        "surplus after the length",
        ok("Content-Length: 2", body=b"okEXTRA"),
        body=b"ok",
        note="surplus_bytes",
    ),
    Case(
        "short of the length",
        ok("Content-Length: 9", body=b"short"),
        body=b"short",
        truncated="disconnect",
    ),
    Case("nothing of the length", ok("Content-Length: 9"), body=b"", truncated="disconnect"),
    Case(
        "equal lengths twice", ok("Content-Length: 2", "Content-Length: 2", body=b"ok"), body=b"ok"
    ),
    Case("equal lengths in a list", ok("Content-Length: 2, 2", body=b"ok"), body=b"ok"),
    Case(
        "different lengths",
        ok("Content-Length: 2", "Content-Length: 3", body=b"okay"),
        body=b"okay",
        note="content_length_invalid",
    ),
    Case(
        "negative length",
        ok("Content-Length: -1", body=b"ok"),
        body=b"ok",
        note="content_length_invalid",
    ),
    Case(
        "signed length",
        ok("Content-Length: +2", body=b"okay"),
        body=b"okay",
        note="content_length_invalid",
    ),
    Case(
        "length with a unit",
        ok("Content-Length: 2b", body=b"okay"),
        body=b"okay",
        note="content_length_invalid",
    ),
    Case(
        "underscore in the length",
        ok("Content-Length: 1_0", body=b"okay"),
        body=b"okay",
        note="content_length_invalid",
    ),
    Case(
        "no ASCII digit",
        ok("Content-Length: \xb2", body=b"okay"),
        body=b"okay",
        note="content_length_invalid",
    ),
    Case(
        "empty length",
        ok("Content-Length:", body=b"okay"),
        body=b"okay",
        note="content_length_invalid",
    ),
    Case("leading zeros", ok("Content-Length: 0002", body=b"ok"), body=b"ok"),
    Case(
        "length beyond 64 bits",
        ok("Content-Length: 99999999999999999999", body=b"ok"),
        body=b"ok",
        truncated="disconnect",
    ),
    Case(
        "length over the limit",
        ok("Content-Length: 9", body=b"123456789"),
        body=b"1234",
        truncated="length",
        limit=4,
    ),
    Case("close over the limit", ok(body=b"123456789"), body=b"1234", truncated="length", limit=4),
    Case(
        "chunk over the limit",
        chunked(b"9\r\n123456789\r\n0\r\n\r\n"),
        body=b"1234",
        truncated="length",
        limit=4,
    ),
    # 9110 15.2, 9112 6.3: interim answers, answers without a body
    Case(
        "100 first",
        b"HTTP/1.1 100 Continue\r\n\r\n" + ok("Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    Case(
        "103 with fields",
        b"HTTP/1.1 103 Early Hints\r\nContent-Length: 7\r\n\r\n"
        + ok("Content-Length: 1", body=b"x"),
        body=b"x",
    ),
    Case("interim answers only", b"HTTP/1.1 100 Continue\r\n\r\n" * 3, error=EARLY),
    Case("endless interim answers", b"HTTP/1.1 102 Processing\r\n\r\n" * 40, error=INTERIM),
    Case(
        "101 that nobody asked for",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
        error=BAD,
    ),
    Case(
        "204 with a length",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
        status=204,
        note="surplus_bytes",
    ),
    Case(
        "304 with a length", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", status=304
    ),
    Case(
        "304 chunked",
        b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
        status=304,
    ),
    Case(
        "205 with a body",
        b"HTTP/1.1 205 Reset\r\nContent-Length: 2\r\n\r\nok",
        status=205,
        body=b"ok",
    ),
    # 9112 6.1, 7.1: chunks
    Case("chunks", chunked(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), body=b"abcde"),
    Case("chunk data with line ends", chunked(b"4\r\n\r\n\r\n\r\n0\r\n\r\n"), body=b"\r\n\r\n"),
    Case(
        "upper and lower hex",
        chunked(b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n"),
        body=b"01234567890123456789",
    ),
    Case("extension", chunked(b'2;a=b;c="d;e"\r\nok\r\n0;z\r\n\r\n'), body=b"ok"),
    Case(
        "extension without a name",
        chunked(b"2;\r\nok\r\n0\r\n\r\n"),
        body=b"ok",
        note="chunk_extension_odd",
    ),
    Case(
        "space after the size",
        chunked(b"2  \r\nok\r\n0 \r\n\r\n"),
        body=b"ok",
        note="chunk_size_space",
    ),
    Case("trailer", chunked(b"2\r\nok\r\n0\r\nX: 1\r\nContent-Length: 9\r\n\r\n"), body=b"ok"),
    Case("trailer cut", chunked(b"2\r\nok\r\n0\r\nX: 1\r\n"), body=b"ok", note="trailer_cut"),
    Case("LF chunks", chunked(b"2\nok\n0\n\n"), body=b"ok", note="bare_lf"),
    Case("no last chunk", chunked(b"2\r\nok\r\n"), body=b"ok", truncated="disconnect"),
    Case("cut in a chunk", chunked(b"9\r\nok"), body=b"ok", truncated="disconnect"),
    Case("cut in a size", chunked(b"2\r\nok\r\n1"), body=b"ok", truncated="disconnect"),
    Case(
        "chunk longer than its size",
        chunked(b"2\r\nokay\r\n0\r\n\r\n"),
        body=b"ok",
        truncated="disconnect",
        note="chunk_malformed",
    ),
    Case("size is no number", chunked(b"zz\r\nok\r\n0\r\n\r\n"), error=BAD),
    Case("size with 0x", chunked(b"0x2\r\nok\r\n0\r\n\r\n"), error=BAD),
    Case("size with a sign", chunked(b"-2\r\nok\r\n0\r\n\r\n"), error=BAD),
    Case("size empty", chunked(b"\r\nok\r\n0\r\n\r\n"), error=BAD),
    Case("size beyond 60 bits", chunked(b"FFFFFFFFFFFFFFFF\r\nok\r\n0\r\n\r\n"), error=BAD),
    Case(
        "bad size later",
        chunked(b"2\r\nok\r\nzz\r\n"),
        body=b"ok",
        truncated="disconnect",
        note="chunk_malformed",
    ),
    Case("bare CR in a size line", chunked(b"2;a\rb\r\nok\r\n0\r\n\r\n"), error=BAD),
    Case("no chunks at all", chunked(b"<html>hello</html>"), error=BAD),
    Case("no chunks, begins like a size", chunked(b"bad page"), error=BAD),
    Case(
        "chunk longer than its size, to the close",
        chunked(b"2\r\nokX"),
        body=b"ok",
        truncated="disconnect",
        note="chunk_malformed",
    ),
    Case("cut in a size line", chunked(b"2\r\nok\r\n2;a=b"), body=b"ok", truncated="disconnect"),
    Case("cut after a chunk's CR", chunked(b"2\r\nok\r"), body=b"ok", truncated="disconnect"),
    Case(
        "surplus after chunks",
        chunked(b"2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
        body=b"ok",
        note="surplus_bytes",
    ),
    Case("empty chunked body", chunked(b"0\r\n\r\n")),
    Case(
        "chunked, any case",
        ok("transfer-encoding: CHUNKED", body=b"2\r\nok\r\n0\r\n\r\n"),
        body=b"ok",
    ),
    Case(
        "chunked and a length",
        chunked(b"2\r\nok\r\n0\r\n\r\n", "Content-Length: 4"),
        body=b"ok",
        note="te_and_cl",
    ),
    Case(
        "chunked in HTTP/1.0",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        body=b"ok",
        note="te_in_http10",
    ),
    Case(
        "identity",
        ok("Transfer-Encoding: identity", "Content-Length: 2", body=b"okEXTRA"),
        body=b"ok",
        note="surplus_bytes",
    ),
    Case(
        "gzip, chunked",
        ok("Transfer-Encoding: gzip, chunked", body=b"2\r\nok\r\n0\r\n\r\n"),
        body=b"ok",
        note="te_not_chunked",
    ),
    Case(
        "gzip inside chunks",
        ok(
            "Transfer-Encoding: gzip, chunked",
            body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(GZIPPED), GZIPPED),
        ),
        body=b"ok" * 99,
        note="te_not_chunked",
    ),
    Case(
        "gzip, said in two lines",
        ok(
            "Transfer-Encoding: gzip",
            "Transfer-Encoding: chunked",
            body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(GZIPPED), GZIPPED),
        ),
        body=b"ok" * 99,
        note="te_not_chunked",
    ),
    Case(
        "deflate to the close",
        ok("Transfer-Encoding: deflate", body=zlib.compress(b"ok")),
        body=b"ok",
        note="te_not_chunked",
    ),
    Case(
        "gzip cut in a chunk",
        ok("Transfer-Encoding: gzip, chunked", body=b"%x\r\n%b" % (len(GZIPPED), GZIPPED[:-8])),
        body=b"ok" * 99,
        truncated="disconnect",
        note="te_damaged",
    ),
    Case(
        "compress inside chunks",
        ok("Transfer-Encoding: compress, chunked", body=b"2\r\nok\r\n0\r\n\r\n"),
        body=b"ok",
        note="te_not_chunked",
    ),
    Case(
        "chunked not last",
        ok("Transfer-Encoding: chunked, gzip", body=b"whatever"),
        body=b"whatever",
        note="te_not_chunked",
    ),
    Case(
        "unknown coding",
        ok("Transfer-Encoding: xchunked", body=b"2\r\nok\r\n0\r\n\r\n"),
        body=b"2\r\nok\r\n0\r\n\r\n",
        note="te_not_chunked",
    ),
    # 9112 8: incomplete heads
    Case("nothing", b"", error=EARLY),
    Case("half a protocol", b"HTT", error=EARLY),
    Case("half a head", b"HTTP/1.1 200 OK\r\nContent-Le", error=EARLY),
    Case("head without its end", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", error=EARLY),
    # bounds
    Case("long line", ok("X: " + "a" * 10_000), error=BIG),
    Case("long status line", b"HTTP/1.1 200 " + b"a" * 10_000 + b"\r\n\r\n", error=BIG),
    Case("many fields", ok(*(f"X-{n}: 1" for n in range(3000))), error=BIG),
    Case("endless head", b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 50_000, error=BIG),
]
