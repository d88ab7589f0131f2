"""A proxy before an S3 server that fails a seeded share of calls in the ways that real stores fail.

It also checks and sets conditional puts of one key one after the other (moto does so without a
lock).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

ALWAYS = ("500", "503", "reset", "timeout", "lost")
CONDITIONAL = ("409", "412")  # only for calls that carry a condition
_CODES = {
    "500": (500, "InternalError"),
    "503": (503, "SlowDown"),
    "409": (409, "ConditionalRequestConflict"),
    "412": (412, "PreconditionFailed"),
}


class FaultProxy:
    """`with FaultProxy(endpoint, share=0.05, seed=1) as proxy: ... proxy.url`.

    `down` closes every connection unanswered. `only`: calls without it in their path are let
    through. `counts`: faults by kind, and `calls`. `timeout_s`: how long a call that times out is
    held.
    """

    def __init__(
        self,
        endpoint: str,
        share: float = 0.05,
        seed: int = 0,
        timeout_s: float = 3.0,
        kinds: tuple[str, ...] = ALWAYS + CONDITIONAL,
    ) -> None:
        self.share, self.kinds, self.timeout_s, self.down, self.only = (
            share,
            kinds,
            timeout_s,
            False,
            "",
        )
        self.counts: Counter[str] = Counter()
        self._chance, self._lock = random.Random(seed), threading.Lock()
        self._keys: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._target = urlsplit(endpoint).netloc
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else each body waits 40 ms for the head's ACK
            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = lambda self: proxy._handle(self)  # noqa: E731

            def log_message(self, *_: object) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None: ...  # clients that were killed

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> FaultProxy:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _fault(self, conditional: bool) -> str | None:
        with self._lock:
            self.counts["calls"] += 1
            if self._chance.random() >= self.share:
                return None
            kinds = [k for k in self.kinds if conditional or k not in CONDITIONAL]
            kind = self._chance.choice(kinds)
            self.counts[kind] += 1
            return kind

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        assert request.headers.get("Transfer-Encoding") is None, "chunked requests are not expected"
        if self.down:
            return self._reset(request)
        conditional = "If-None-Match" in request.headers or (
            "If-Match" in request.headers and request.command != "GET"
        )
        kind = self._fault(conditional) if self.only in request.path else None
        if kind in _CODES:
            status, code = _CODES[kind]
            text = (
                b""
                if request.command == "HEAD"
                else (
                    f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>made"
                    " up</Message></Error>".encode()
                )
            )
            return self._answer(request, status, [("Content-Type", "application/xml")], text)
        if kind == "reset":
            return self._reset(request)
        if kind == "timeout":
            time.sleep(self.timeout_s)
            return self._reset(request)
        with self._keys[request.path.partition("?")[0]] if conditional else threading.Lock():
            status, headers, text = self._forward(request, body)
        if kind == "lost":
            return self._reset(request)
        self._answer(request, status, headers, text)

    def _forward(
        self, request: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection(self._target, timeout=30)
        upstream.putrequest(
            request.command, request.path, skip_host=True, skip_accept_encoding=True
        )
        for name, value in request.headers.items():
            if name.lower() not in ("connection", "expect"):
                upstream.putheader(name, value)
        upstream.endheaders(body)
        answer = upstream.getresponse()
        text = answer.read()
        upstream.close()
        headers = [
            (n, v)
            for n, v in answer.getheaders()
            if n.lower() not in ("connection", "transfer-encoding", "date", "server")
        ]
        return answer.status, headers, text

    def _answer(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        headers: list[tuple[str, str]],
        body: bytes,
    ) -> None:
        request.send_response(status)
        length = None
        for name, value in headers:
            if name.lower() == "content-length":
                length = value
            else:
                request.send_header(name, value)
        request.send_header(
            "Content-Length", length if request.command == "HEAD" and length else str(len(body))
        )
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)

    def _reset(self, request: BaseHTTPRequestHandler) -> None:
        request.close_connection = True
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.connection.close()


@contextlib.contextmanager
def apart(
    endpoint: str, share: float = 0.0, seed: int = 0, told: Counter[str] | None = None
) -> Iterator[str]:
    """The address of a proxy in a process of its own: delta-rs keeps a process's other threads
    waiting in some calls. `told` gets its counts at the end.
    """
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.fault_proxy", endpoint, str(share), str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
    )
    try:
        yield process.stdout.readline().strip()
        counts, _ = process.communicate("")
        if told is not None:
            told.update(json.loads(counts))
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


if __name__ == "__main__":
    with FaultProxy(sys.argv[1], share=float(sys.argv[2]), seed=int(sys.argv[3])) as own:
        print(own.url, flush=True)
        sys.stdin.read()  # until its end
        print(json.dumps(own.counts), flush=True)
