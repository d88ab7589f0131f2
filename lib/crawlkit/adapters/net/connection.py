"""One request under way: the clocks that bound it, and the connection that carries it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from ssl import SSLError
from typing import cast

from crawlkit.outcomes import Reason
from crawlkit.rules.http.response import ResponseReader

RATE_WINDOW_S = 10.0
SMALL_BYTES = 64 * 1024  # a body that is no longer than this waits for nobody


class Exchange:
    """One request under way: its clocks, and what to do when they run out.

    Times are effective seconds, see Engine.
    """

    __slots__ = (
        "deadline",
        "connect_deadline",
        "cancel",
        "connection",
        "reader",
        "expired",
        "grace",
        "window_at",
        "window_bytes",
        "patience",
    )

    def __init__(self, now: float, seconds: float) -> None:
        self.deadline = self.connect_deadline = now + seconds
        self.patience = seconds  # how long our own waiting may still move the deadline
        self.cancel: Callable[[], object] | None = None  # ends the connecting
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

    def postpone(self, seconds: float) -> bool:
        """Take time in which we did not read, for want of memory, off the server's account.

        Returns False once that exceeds one deadline.
        """
        if seconds > self.patience:
            return False
        self.patience -= seconds
        self.deadline += seconds
        self.window_at = None
        return True

    def check(self, now: float, min_rate: int) -> None:
        """Give up what has run out of time at `now`, or whose body is too slow.

        min_rate: bytes a second.
        """
        seen = self.reader.received if self.reader else 0
        if now >= (self.deadline if self.reader else self.connect_deadline):
            # one more turn of the loop: what has arrived meanwhile still counts
            if self.grace is None:
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
            self.expired = (
                Reason.CONNECT_TIMEOUT if self.connect_deadline < self.deadline else Reason.TIMEOUT
            )
            if self.cancel:
                cancel, self.cancel = self.cancel, None  # once: the task would not survive two
                cancel()
            return
        assert self.connection is not None
        if self.reader.head_done:
            self.reader.cut("time")
        else:
            self.expired = Reason.READ_STALLED if seen else Reason.TIMEOUT
        self.connection.finish()


class Budget:
    """Bytes of bodies in memory: being read, or waiting to be stored.

    Over `limit` connections stop reading; they go on one after the other as what is finished gets
    stored.
    """

    __slots__ = ("limit", "used", "_parked", "_waiting", "_leader", "_led")

    def __init__(self, limit: float = math.inf) -> None:
        self.limit = limit
        self.used = 0
        self._parked = 0  # bytes of those that wait
        self._waiting: dict[Connection, None] = {}  # in order
        self._leader: Connection | None = None  # the one that reads on
        self._led = -1  # what it held at the last tick

    def take(self, n: int, reading: Connection | None = None) -> None:
        """`n` more bytes are held; the connection that reads them may have to wait."""
        self.used += n
        if (
            reading is not None
            and self.used > self.limit
            and reading.held > SMALL_BYTES
            and reading is not self._leader
        ):
            self._park(reading)
            self._go_on()

    def give(self, n: int, reading: Connection | None = None) -> None:
        """`n` bytes are held no more; `reading`: the connection that read them."""
        self.used -= n
        if reading is not None and self._leader is reading:
            self._leader = None
        if reading in self._waiting:
            del self._waiting[reading]
            self._parked -= reading.held
        self._go_on()

    def tick(self) -> None:
        """Let another connection read on, if there is room or the leader has brought nothing.

        To be called now and then.
        """
        held = -1 if self._leader is None else self._leader.held
        if self._waiting and held >= 0 and held == self._led:
            assert self._leader is not None
            self._park(self._leader)
            self._leader, held = None, -1
            self._go_on()
        elif self._waiting and self.used < 0.75 * self.limit:
            self._resume()
        self._led = held

    def waits(self, connection: Connection | None) -> bool:
        """Whether a connection is parked for want of memory."""
        return connection in self._waiting

    def _park(self, connection: Connection) -> None:
        connection.transport.pause_reading()
        self._waiting[connection] = None
        self._parked += connection.held

    def _go_on(self) -> None:
        if self._waiting and self._leader is None and self.used - self._parked <= self.limit:
            self._leader = self._resume()

    def _resume(self) -> Connection:
        """The one that has waited longest reads on."""
        connection = next(iter(self._waiting))
        del self._waiting[connection]
        self._parked -= connection.held
        connection.transport.resume_reading()
        return connection


class Connection(asyncio.BufferedProtocol):
    """One transport: it reads into the engine's buffer and feeds the reader under way."""

    __slots__ = (
        "_buffer",
        "_budget",
        "held",
        "transport",
        "ip",
        "named",
        "reader",
        "refuses",
        "waiter",
        "first_byte",
        "idle_since",
        "lost",
        "used",
        "notes",
    )

    def __init__(self, buffer: memoryview, budget: Budget) -> None:
        self._buffer, self._budget = buffer, budget
        self.held = 0  # bytes taken from the budget
        self.transport: asyncio.Transport = None  # type: ignore[assignment] # until it is made
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
        """Keep the transport (asyncio.BaseProtocol)."""
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The engine's buffer, whatever the hint (asyncio.BufferedProtocol)."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Feed the reader with what has come (asyncio.BufferedProtocol)."""
        reader = self.reader
        if reader is None:  # unsolicited bytes
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
            if not reader.keep_alive:  # at once: TLS would answer the server's goodbye first
                self.abort()
            self.finish()
        elif reader.body_bytes != self.held:
            taken, self.held = reader.body_bytes - self.held, reader.body_bytes
            self._budget.take(taken, self)

    def let_go(self) -> None:
        """The exchange is over: its bytes are no longer this connection's."""
        if self.held:
            self._budget.give(self.held, self)
            self.held = 0

    def eof_received(self) -> bool:
        """End the exchange; the transport closes itself (asyncio.BufferedProtocol)."""
        self._end(self._closed_well())
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange and mark the connection as lost (asyncio.BaseProtocol)."""
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

    def exchange(
        self, data: bytes, reader: ResponseReader, refuses: Callable[[ResponseReader], bool] | None
    ) -> asyncio.Future[None]:
        """Sends a request; the future is done when the reader is, or when the engine gives up."""
        self.reader = reader
        self.refuses = refuses
        self.first_byte = None
        self.waiter = asyncio.get_running_loop().create_future()
        if self.lost:
            self.connection_lost(None)
        else:
            self.transport.write(data)
        return self.waiter

    def finish(self) -> None:
        """Wake the one that waits for the exchange."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def abort(self) -> None:
        """Close at once, without a goodbye."""
        if self.transport is not None:
            self.transport.abort()

    @property
    def open(self) -> bool:
        """Whether a request can still be sent."""
        return not self.lost and not self.transport.is_closing()
