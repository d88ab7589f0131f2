"""An HTTP/1.1 server for webs of many hosts on one machine.

Each host is on an address of its own in 127.0.0.0/8, all on one port. It serves the sample site and
the tests' synthetic web; a crawl of the public web does not use it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import cast

MAX_HEADER_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Request:
    """A request as received.

    `host` is the Host header in lower case without port; header names are lower case.
    """

    method: str
    target: str
    host: str
    address: str  # local address it came to
    headers: dict[str, str]


@dataclass(slots=True)
class Reply:
    """What to answer.

    With `raw` set, those bytes are sent instead and the connection ends by `ending`.
    """

    status: int = 200
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    delay_s: float = 0.0  # before the first byte
    framing: str = "length"  # length, chunked or close
    raw: bytes | None = None
    ending: str = (
        "close"  # of raw: close, reset (RST) or stall (nothing more until the client leaves)
    )


Handler = Callable[[Request], Reply]


@dataclass(slots=True)
class Exchange:
    """One request and what became of it; times are `time.monotonic()` seconds of this machine.

    `start`: arrival of the request's first byte. `end`: just before the write that empties the
    buffer, so never later than the client's last byte; of an aborted exchange the moment when the
    lost connection was seen.
    `in_flight`: requests of this host in progress at the start, this one included.
    """

    request: Request
    reply: Reply
    start: float
    end: float
    in_flight: int
    connection: int
    aborted: bool


class WebServer:
    """Serves `handler` on several loopback addresses and one port.

    It is bound at once (OSError), and serves in a thread from `start` on, or by `run`.
    """

    def __init__(
        self,
        addresses: Iterable[str],
        handler: Handler,
        port: int = 0,
        on_exchange: Callable[[Exchange], None] | None = None,
    ) -> None:
        self.addresses = sorted(set(addresses))
        self.handler = handler
        self.on_exchange = on_exchange
        self.in_flight: Counter[str] = Counter()
        self.connections = 0
        self._sockets = _bind(self.addresses, port)
        self.port: int = self._sockets[0].getsockname()[1]
        self._open: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self.run, name="web", daemon=True)

    def start(self) -> WebServer:
        """Serve in a thread; returns once the sockets listen."""
        self._thread.start()
        self._ready.wait(10)
        return self

    def run(self) -> None:
        """Serve in the calling thread until `stop`."""
        asyncio.set_event_loop(self._loop)
        listening = self._loop.create_task(self._listen())
        try:
            self._loop.run_forever()
        finally:
            listening.cancel()
            for conn in list(self._open):
                conn.transport.abort()
            self._loop.run_until_complete(asyncio.sleep(0))
            for sock in self._sockets:
                sock.close()
            self._loop.close()

    async def _listen(self) -> None:
        for sock in self._sockets:
            await self._loop.create_server(lambda: _Connection(self), sock=sock, backlog=1024)
        self._ready.set()

    def stop(self) -> None:
        """Close all connections and end the thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread.is_alive():
            self._thread.join(10)

    def __enter__(self) -> WebServer:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()


def _bind(addresses: list[str], port: int) -> list[socket.socket]:
    """One listening socket an address, all on one port; port 0 picks a port that is free on all of
    them.
    """
    for attempt in range(20):
        socks: list[socket.socket] = []
        chosen = port
        try:
            for address in addresses:
                sock = socket.socket()
                socks.append(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((address, chosen))
                chosen = sock.getsockname()[1]
            for sock in socks:
                sock.listen(1024)
                sock.setblocking(False)
            return socks
        except OSError:
            for sock in socks:
                sock.close()
            if port or attempt == 19:
                raise
    raise AssertionError


class _Connection(asyncio.Protocol):
    """One connection: requests in order, keep-alive, one answered at a time."""

    def __init__(self, server: WebServer) -> None:
        self.server = server
        self.buffer = bytearray()
        self.arrived: float | None = None
        self.now: tuple[Request, Reply, float, int] | None = (
            None  # in progress: request, reply, start, in flight
        )
        self.sent = self.paused = self.closing = False
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count and register the connection (asyncio.BaseProtocol)."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=0)
        self.address = transport.get_extra_info("sockname")[0]
        self.server.connections += 1
        self.number = self.server.connections
        self.server._open.add(self)

    def data_received(self, data: bytes) -> None:
        """Read on, and answer what is complete (asyncio.Protocol)."""
        if self.arrived is None:
            self.arrived = time.monotonic()
        self.buffer += data
        self._advance()

    def _advance(self) -> None:
        if self.now or self.closing:
            return
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self.buffer) > MAX_HEADER_BYTES:
                self.transport.abort()
            return
        head = bytes(self.buffer[:end]).decode("latin-1")
        del self.buffer[: end + 4]
        start = self.arrived or time.monotonic()
        self.arrived = time.monotonic() if self.buffer else None
        request = _parse(head, self.address)
        server = self.server
        server.in_flight[request.host] += 1
        reply = server.handler(request)
        self.now = (request, reply, start, server.in_flight[request.host])
        self.sent = False
        if reply.delay_s:
            self.timer = asyncio.get_running_loop().call_later(reply.delay_s, self._send)
        else:
            self._send()

    def _send(self) -> None:
        assert self.now is not None
        request, reply, _, _ = self.now
        data = _bytes(request, reply)
        self.sent = True
        end = time.monotonic()
        if data:
            self.transport.write(data)
        if not self.paused and not (reply.raw is not None and reply.ending == "stall"):
            self._finish(end)

    def pause_writing(self) -> None:
        """The client does not read: its exchange is not over (asyncio.BaseProtocol)."""
        self.paused = True

    def resume_writing(self) -> None:
        """The client has read what was sent (asyncio.BaseProtocol)."""
        self.paused = False
        if (
            self.now
            and self.sent
            and not (self.now[1].raw is not None and self.now[1].ending == "stall")
        ):
            self._finish(time.monotonic())

    def _finish(self, end: float, aborted: bool = False) -> None:
        assert self.now is not None
        request, reply, start, in_flight = self.now
        self.now = None
        self.server.in_flight[request.host] -= 1
        if self.server.on_exchange:
            self.server.on_exchange(
                Exchange(request, reply, start, end, in_flight, self.number, aborted)
            )
        if aborted:
            return
        if reply.raw is not None and reply.ending == "reset":
            self.closing = True
            self.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            self.transport.abort()
        elif (
            reply.raw is not None
            or reply.framing == "close"
            or request.headers.get("connection", "").lower() == "close"
        ):
            self.closing = True
            self.transport.close()
        elif self.buffer:
            asyncio.get_running_loop().call_soon(self._advance)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange as aborted, if one is under way (asyncio.BaseProtocol)."""
        self.closing = True
        self.server._open.discard(self)
        if self.timer:
            self.timer.cancel()
        if self.now:
            self._finish(time.monotonic(), aborted=True)


def _parse(head: str, address: str) -> Request:
    first, *lines = head.split("\r\n")
    method, _, rest = first.partition(" ")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Request(
        method,
        rest.rpartition(" ")[0],
        headers.get("host", "").partition(":")[0].lower(),
        address,
        headers,
    )


def _bytes(request: Request, reply: Reply) -> bytes:
    if reply.raw is not None:
        return reply.raw
    phrase = (
        HTTPStatus(reply.status).phrase if reply.status in HTTPStatus._value2member_map_ else ""
    )
    bodiless = reply.status in (204, 304)
    head = [
        f"HTTP/1.1 {reply.status} {phrase}",
        f"Date: {formatdate(usegmt=True)}",
        *(f"{k}: {v}" for k, v in reply.headers),
    ]
    body = reply.body
    if reply.framing == "chunked" and not bodiless:
        head.append("Transfer-Encoding: chunked")
        parts = [body[i : i + 4000] for i in range(0, len(body), 4000)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in parts) + b"0\r\n\r\n"
    elif reply.framing == "close":
        head.append("Connection: close")
    elif not bodiless:
        head.append(f"Content-Length: {len(body)}")
    raw = "\r\n".join(head).encode("latin-1") + b"\r\n\r\n"
    return raw if bodiless or request.method == "HEAD" else raw + body
