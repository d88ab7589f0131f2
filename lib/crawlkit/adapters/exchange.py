"""One request under way: the clocks that bound it, and the connection that carries it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from ssl import SSLError

from crawlkit.outcomes import Reason
from crawlkit.rules.http1 import ResponseReader

RATE_WINDOW_S = 10.0


class Exchange:
    """One request under way: its clocks (effective seconds, see Engine) and what to do when they run out."""

    __slots__ = ("deadline", "connect_deadline", "cancel", "connection", "reader", "expired", "grace", "window_at", "window_bytes")

    def __init__(self, deadline: float) -> None:
        self.deadline = self.connect_deadline = deadline
        self.cancel: Callable[[], object] | None = None  # ends the connecting task
        self.connection: Connection | None = None
        self.reader: ResponseReader | None = None
        self.expired: Reason | None = None
        self.grace: int | None = None  # bytes seen when the deadline passed
        self.window_at: float | None = None
        self.window_bytes = 0

    def connecting_until(self, connect_deadline: float) -> None:
        """A connection is being opened, until then at the latest."""
        self.connect_deadline = min(connect_deadline, self.deadline)
        self.reader = self.connection = self.grace = None

    def reading(self, connection: Connection, reader: ResponseReader) -> None:
        """The request is about to be sent."""
        self.connection, self.reader = connection, reader
        self.grace = self.window_at = None

    def check(self, now: float, min_rate: int) -> None:
        """Gives up what has run out of time at `now`, or whose body comes slower than `min_rate` bytes a second."""
        seen = self.reader.received if self.reader else 0
        if now >= (self.deadline if self.reader else self.connect_deadline):
            if self.grace is None:  # one more turn of the loop: what has arrived meanwhile still counts
                self.grace = seen
            elif not (self.reader and self.reader.done):
                self._expire(seen)
        elif min_rate and self.reader and self.reader.head_done:
            if self.window_at is None:
                self.window_at, self.window_bytes = now, seen
            elif now - self.window_at >= RATE_WINDOW_S:
                if seen - self.window_bytes < min_rate * RATE_WINDOW_S:
                    self.reader.notes.append("slow_body")
                    return self._expire(seen)
                self.window_at, self.window_bytes = now, seen

    def _expire(self, seen: int) -> None:
        if self.reader is None:
            self.expired = Reason.CONNECT_TIMEOUT if self.connect_deadline < self.deadline else Reason.TIMEOUT
            if self.cancel:
                self.cancel()
        elif self.reader.head_done:
            self.reader.cut("time")
            self.connection.finish()
        else:
            self.expired = Reason.READ_STALLED if seen else Reason.TIMEOUT
            self.connection.finish()


class Connection(asyncio.BufferedProtocol):
    """One transport; reads into the engine's one buffer and feeds the reader of the exchange under way."""

    __slots__ = ("_buffer", "transport", "ip", "named", "reader", "refuses", "waiter", "first_byte", "idle_since", "lost", "used", "notes")

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self.transport: asyncio.Transport | None = None
        self.ip: str | None = None  # None: a proxy's to know
        self.named = False  # its address came from the resolver
        self.reader: ResponseReader | None = None
        self.refuses: Callable[[ResponseReader], bool] | None = None
        self.waiter: asyncio.Future[None] | None = None
        self.first_byte: float | None = None
        self.idle_since = 0.0
        self.lost: BaseException | None | bool = False
        self.used = False
        self.notes: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        reader = self.reader
        if reader is None:  # bytes that nobody asked for
            self.abort()
            return
        if self.first_byte is None:
            self.first_byte = time.monotonic()
        reader.feed(bytes(self._buffer[:nbytes]))
        if self.refuses is not None and reader.head_done:
            if self.refuses(reader):
                self.finish()
            self.refuses = None
        if reader.done:
            self.finish()

    def eof_received(self) -> bool:
        self._end(self._closed_well())
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc or True
        self._end(False)

    def _end(self, clean: bool) -> None:
        if self.reader is not None:
            self.reader.eof(clean)
            self.finish()

    def _closed_well(self) -> bool:
        """Did TLS's closing alert come before the end of the stream? Without TLS there is none."""
        tls = self.transport.get_extra_info("ssl_object")
        try:
            return tls is None or tls.read(1) == b""
        except SSLError:
            return False

    def exchange(self, data: bytes, reader: ResponseReader, refuses: Callable[[ResponseReader], bool] | None) -> asyncio.Future[None]:
        """Sends a request; the future is done when the reader is, or when the engine gives up."""
        self.reader, self.refuses, self.first_byte = reader, refuses, None
        self.waiter = asyncio.get_running_loop().create_future()
        if self.lost:
            self.connection_lost(None)
        else:
            self.transport.write(data)
        return self.waiter

    def finish(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    @property
    def open(self) -> bool:
        return not self.lost and not self.transport.is_closing()
