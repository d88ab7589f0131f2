"""Servers that flood, drip, bomb and stall, in a process of their own: `python -m
tests.servers.floodweb WEB BYTES` prints its port.
"""

from __future__ import annotations

import contextlib
import gzip
import select
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cache

import brotli
from backports import zstd

from tests.rules.http.http_cases import chunked, ok
from tests.servers.raw_server import raw_server

MIB = 1 << 20
NO_ROBOTS = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
PAGE = ok("Content-Type: text/html", "Content-Length: 5", body=b"hello")
Serve = Callable[[socket.socket], None]
Expected = tuple[Serve, tuple[str, str | None], str | None]  # server, outcome and reason, truncated


@cache
def bomb(coding: str, size: int) -> bytes:
    """`size` zero bytes in a coding."""
    piece = bytes(MIB)
    if coding == "gzip":
        stream = zlib.compressobj(1, wbits=31)
    elif coding == "zstd":
        stream = zstd.ZstdCompressor(level=1)
    else:
        stream = brotli.Compressor(quality=1)
    push = stream.process if coding == "br" else stream.compress
    parts = [push(piece) for _ in range(size // MIB)]
    return b"".join([*parts, stream.finish() if coding == "br" else stream.flush()])


# -- servers: each writes to its socket until it is done or the client leaves


def endless(head: bytes, piece: bytes, pause_s: float = 0.0) -> Serve:
    def serve(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(piece)
            time.sleep(pause_s)

    return serve


def fixed(raw: bytes) -> Serve:
    return lambda connection: connection.sendall(raw)


def packed(coding: str, payload: bytes, status: int = 200) -> Serve:
    return fixed(
        ok(
            f"Content-Encoding: {coding}",
            "Content-Type: text/html",
            f"Content-Length: {len(payload)}",
            body=payload,
        ).replace(b"200 OK", b"%d X" % status)
    )


def floods(size: int) -> dict[str, Expected]:
    """name -> (server, outcome and reason, truncated)."""
    fetched, empty_gzip, empty_zstd = (
        ("fetched", None),
        gzip.compress(b"", mtime=0),
        zstd.compress(b""),
    )
    return {
        "endless fields": (
            endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
            ("failed", "headers_too_large"),
            None,
        ),
        "endless line": (
            endless(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 8192),
            ("failed", "headers_too_large"),
            None,
        ),
        "endless status line": (
            endless(b"HTTP/1.1 200 ", b"y" * 8192),
            ("failed", "headers_too_large"),
            None,
        ),
        "endless folds": (
            endless(b"HTTP/1.1 200 OK\r\nX: y\r\n", b" z\r\n" * 1000),
            ("failed", "headers_too_large"),
            None,
        ),
        "interim answers": (
            endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
            ("failed", "too_many_interim"),
            None,
        ),
        "interim answers with fields": (
            endless(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 100),
            ("failed", "too_many_interim"),
            None,
        ),
        "blank lines": (endless(b"", b"\r\n" * 4096), ("failed", "http_malformed"), None),
        "endless size": (endless(chunked(b""), b"0" * 8192), ("failed", "http_malformed"), None),
        "endless extension": (
            endless(chunked(b"1;"), b"a" * 8192),
            ("failed", "http_malformed"),
            None,
        ),
        "tiny chunks": (endless(chunked(b""), b"1\r\nx\r\n" * 1000), fetched, "length"),
        "endless trailers": (
            endless(chunked(b"1\r\nx\r\n0\r\n"), b"T: y\r\n" * 1000),
            fetched,
            None,
        ),
        "endless body": (endless(ok("Content-Type: text/html"), b"x" * 65536), fetched, "length"),
        "endless chunks": (
            endless(chunked(b""), b"10000\r\n" + b"x" * 65536 + b"\r\n"),
            fetched,
            "length",
        ),
        "endless length": (
            endless(ok("Content-Length: 99999999999"), b"x" * 65536),
            fetched,
            "length",
        ),
        "endless redirect": (
            endless(b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", b"x" * 65536),
            ("redirected", None),
            "length",
        ),
        "endless error page": (
            endless(b"HTTP/1.1 500 No\r\n\r\n", b"x" * 65536),
            ("http_error", "http_5xx"),
            "length",
        ),
        "surplus without end": (endless(ok("Content-Length: 1"), b"x" * 65536), fetched, None),
        "dripping head": (
            endless(b"HTTP/1.1 200 OK\r\nX: ", b"y", 0.05),
            ("failed", "read_stalled"),
            None,
        ),
        "dripping body": (endless(ok("Content-Type: text/html"), b"y", 0.05), fetched, "time"),
        "dripping chunks": (endless(chunked(b""), b"1\r\nx\r\n", 0.05), fetched, "time"),
        "dripping trailers": (
            endless(chunked(b"1\r\nx\r\n0\r\n"), b"T: y\r\n", 0.05),
            fetched,
            "time",
        ),
        "dripping interim answers": (
            endless(b"", b"HTTP/1.1 102 X\r\n\r\n", 0.4),
            ("failed", "read_stalled"),
            None,
        ),
        "gzip bomb": (packed("gzip", bomb("gzip", size)), fetched, None),
        "br bomb": (packed("br", bomb("br", size)), fetched, None),
        "zstd bomb": (packed("zstd", bomb("zstd", size)), fetched, None),
        "bomb as an error page": (
            packed("gzip", bomb("gzip", size), 403),
            ("http_error", "http_403"),
            None,
        ),
        "bomb of a challenge": (
            packed("zstd", bomb("zstd", size), 503),
            ("http_error", "http_5xx"),
            None,
        ),
        "empty members": (packed("gzip", empty_gzip * 100_000), fetched, None),
        "empty members of an error": (
            packed("gzip", empty_gzip * 100_000, 404),
            ("http_error", "http_404"),
            None,
        ),
        "empty frames": (packed("zstd", empty_zstd * 100_000), fetched, None),
        "many cookies": (
            fixed(ok(*["Set-Cookie: " + "a" * 600] * 90, "Content-Length: 1", body=b"x")),
            fetched,
            None,
        ),
    }


def bodies(size: int) -> dict[str, Expected]:
    """Forty that send without end."""
    return {
        f"body {n}": (
            endless(ok("Content-Type: text/html"), b"x" * 65536),
            ("fetched", None),
            "length",
        )
        for n in range(40)
    }


def stalls(size: int) -> dict[str, Expected]:
    """One for each moment at which a server can fall silent."""

    def after(raw: bytes) -> Serve:
        def serve(connection: socket.socket) -> None:
            connection.sendall(raw)
            while connection.recv(65536):  # until the client leaves
                pass

        return serve

    found = {
        "before any byte": after(b""),
        "in the status line": after(b"HTTP/1.1 2"),
        "in the head": after(b"HTTP/1.1 200 OK\r\nX: y\r\n"),
        "after an interim answer": after(b"HTTP/1.1 100 Continue\r\n\r\n"),
        "before the body": after(ok("Content-Length: 9")),
        "in the body": after(ok("Content-Length: 9", body=b"half")),
        "before the close": after(ok(body=b"half")),
        "in a chunk size": after(chunked(b"2\r\nok\r\n1")),
        "in a chunk": after(chunked(b"9\r\nhalf")),
        "in the trailer": after(chunked(b"1\r\nx\r\n0\r\nT:")),
    }
    return {name: (serve, ("", None), None) for name, serve in found.items()}


WEBS = {"floods": floods, "bodies": bodies, "stalls": stalls}


class Web:
    """h{n}.test: honest; f{n}.test: server n on its page; r{n}.test: on its robots.txt;
    s{n}p{m}.test: server n, many times.
    """

    def __init__(self, servers: list[Serve]) -> None:
        self._servers = servers

    def __call__(self, connection: socket.socket, request: bytes, n: int) -> bool:
        path = request.split(b" ", 2)[1]
        host = request.partition(b"\r\nHost: ")[2].partition(b".test")[0].decode()
        if host[0] == "h" or (path == b"/robots.txt") is not (host[0] == "r"):
            connection.sendall(NO_ROBOTS if path == b"/robots.txt" else PAGE)
            return path != b"/robots.txt"
        self._servers[int(host[1:].partition("p")[0])](connection)
        return False


@contextlib.contextmanager
def floodweb(web: str, size: int = 0) -> Iterator[int]:
    """The port of a running web."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.servers.floodweb", web, str(size)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
    ) as process:
        try:
            ready, _, _ = select.select([process.stdout], [], [], 120)
            assert ready, "the servers did not start"
            yield int(process.stdout.readline())
        finally:
            process.kill()


if __name__ == "__main__":
    with raw_server(
        Web([serve for serve, *_ in WEBS[sys.argv[1]](int(sys.argv[2])).values()])
    ) as running:
        print(running.port, flush=True)
        sys.stdin.read()  # until the test ends
