"""The fetch engine: HTTP/1.1 over checked addresses, one a slot process (docs/rules/fetching.md).

`Engine.fetch` never raises for anything that the other side does. A deadline counts only time in
which our thread could listen: a ticker measures how late the loop runs, and that stall is taken off
every clock.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from ssl import SSLContext

from crawlkit.adapters.net.address_guard import Guard, Place, Resolves, parse_place
from crawlkit.adapters.net.connect import Dialer
from crawlkit.adapters.net.connection import Budget, Connection, Exchange
from crawlkit.adapters.net.dns import Resolver, make_resolver
from crawlkit.adapters.net.site_logins import Session
from crawlkit.config import Agent, Fetch
from crawlkit.model import Answer, FetchRequest, header_list
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.http.conditional import conditional_headers
from crawlkit.rules.http.content_types import sole_type
from crawlkit.rules.http.response import ResponseReader

TICK_S = 0.05
IDLE_S = 15.0
READ_BYTES = 32 * 1024
ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.5"
_BREAK = re.compile(r"[\r\n\0]")
ACCEPT_ENCODING = "gzip, deflate, br, zstd"


def request_headers(
    agent: Agent,
    url: str,
    etag: str | None = None,
    last_modified: str | None = None,
    *,
    accept: str = ACCEPT,
) -> list[tuple[str, str]]:
    """Header fields of a request in the order sent (RFC 9110 7.2, 10.1.5, 13.1).

    Raises Refused for an unusable URL.
    """
    place = parse_place(url)
    headers = [
        ("Host", place.host_header),
        ("User-Agent", agent.user_agent_of(place.host)),
        ("Accept", accept),
        ("Accept-Encoding", ACCEPT_ENCODING),
    ]
    if agent.from_:
        headers.append(("From", agent.from_))
    return headers + conditional_headers(etag, last_modified)


def request_bytes(request: FetchRequest, target: str) -> bytes:
    """The request as sent (RFC 9112 3.2).

    A field with a line break or NUL is left out: it could smuggle others.
    """
    start = f"{request.method} {target} HTTP/1.1\r\n"
    lines = [f"{name}: {value}\r\n" for name, value in request.headers]
    sent = "".join((start, *lines, "\r\n"))
    has_break = not sent.count("\r") == sent.count("\n") == len(lines) + 2 or "\0" in sent
    if has_break:
        fields = zip(lines, request.headers, strict=True)
        kept = [line for line, field in fields if not _BREAK.search("".join(field))]
        sent = "".join((start, *kept, "\r\n"))
    return sent.encode("latin-1", "ignore") + request.body


def type_refused(content_type: str | None, allowed: Sequence[str]) -> bool:
    """Whether a Content-Type is outside the allowed prefixes.

    A missing one is not, nor is any if `allowed` is empty.
    """
    return bool(allowed and content_type and content_type.strip()) and not sole_type(
        content_type
    ).strip().lower().startswith(tuple(allowed))


def without_credentials(url: str) -> str:
    """The URL, or what was passed as one, without the user information (RFC 3986, 3.2.1)."""
    scheme, sep, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return (
        f"{scheme}{sep}{authority.rpartition('@')[2]}{slash}{path}"
        if sep
        else url.rpartition("@")[2]
    )


class Engine:
    """Sends requests; at most one connection a host stays open between them.

    Args:
        fetch: limits, deadlines, guard settings.
        resolver: names to addresses (default: adapters.dns.make_resolver).
        tls: context that verifies certificates (default: the system's trust store, loaded once a
            process).
        monotonic, wall: clocks, seconds.
    """

    def __init__(
        self,
        fetch: Fetch,
        resolver: Resolves | None = None,
        *,
        tls: SSLContext | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._fetch = fetch
        self.resolver = resolver or make_resolver(fetch.resolvers)
        self._guard = Guard(fetch, self.resolver)
        self._session = Session(fetch, wall)
        self._monotonic, self._wall = monotonic, wall
        self.budget = Budget(fetch.body_memory_bytes)
        buffer = memoryview(bytearray(READ_BYTES))
        self._dialer = Dialer(
            fetch, self._guard, self.resolver, tls, lambda: Connection(buffer, self.budget)
        )
        self._idle: dict[tuple[str, str, int], Connection] = {}
        self._exchanges: set[Exchange] = set()
        self._stall_s = 0.0  # time in which the loop could not listen
        self._tick_due = 0.0
        self._ticker: asyncio.TimerHandle | None = None

    async def fetch(
        self,
        request: FetchRequest,
        *,
        deadline_s: float | None = None,
        content_types: Sequence[str] | None = None,
        max_body_bytes: int | None = None,
    ) -> Answer:
        """Sends one request and reads its answer; redirects are the caller's.

        Args:
            deadline_s: total time, look-up and connection included (default
                config.Fetch.timeout_s).
            content_types: beginnings of the media types whose 2xx bodies are read; () any, None
                config.Fetch's.
            max_body_bytes: longer bodies are cut (default config.Fetch's).
        """
        answer = Answer(
            without_credentials(request.url), wall_start=self._wall(), mono_start=self._monotonic()
        )
        exchange: Exchange | None = None
        try:
            place = self._guard.parse(request.url)
            answer.url, answer.request_bytes = place.url, request_bytes(request, place.target)
            self._start_ticker()
            exchange = Exchange(self._effective(), deadline_s or self._fetch.timeout_s)
            self._exchanges.add(exchange)
            allowed = self._fetch.content_types if content_types is None else content_types
            await self._attempt(
                request,
                place,
                exchange,
                answer,
                allowed,
                max_body_bytes or self._fetch.max_body_bytes,
            )
            self._session.learn(answer, place)
        except Refused as refusal:
            answer.error, answer.error_detail = refusal.reason, refusal.detail
        finally:
            self._exchanges.discard(exchange)
            answer.wall_end, answer.mono_end = self._wall(), self._monotonic()
        return answer

    async def close(self) -> None:
        """Closes idle connections and stops the ticker; requests under way end as disconnected."""
        for connection in [
            *self._idle.values(),
            *(e.connection for e in self._exchanges if e.connection),
        ]:
            connection.abort()
        self._idle.clear()
        if isinstance(self.resolver, Resolver):
            await self.resolver.close()
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        await asyncio.sleep(0)

    # -- one request

    async def _attempt(
        self,
        request: FetchRequest,
        place: Place,
        exchange: Exchange,
        answer: Answer,
        allowed: Sequence[str],
        max_body: int,
    ) -> None:
        key = (place.scheme, place.host, place.port)
        wire, proxied = self._wire(request, place, answer)
        connection = self._idle.pop(key, None)
        if connection is None or not connection.open:
            connection = await self._connect(place, exchange, answer)
        elif isinstance(self.resolver, Resolver) and connection.named:
            self.resolver.count_reuse()
        while True:
            refused: list[str] = []

            def refuses(reader: ResponseReader, refused: list[str] = refused) -> bool:
                kind = header_list(reader.headers, "content-type")
                if (reader.status or 0) // 100 == 2 and type_refused(kind, allowed):
                    refused.append((kind or "")[:200])
                return bool(refused)

            reader = ResponseReader(request.method, max_body)
            exchange.reading(connection, reader)
            reused, connection.used = connection.used, True
            answer.ip = connection.ip
            try:
                await connection.exchange(wire, reader, refuses if allowed else None)
            finally:
                connection.reader = connection.waiter = None
                connection.let_go()
                if not (reader.done and reader.keep_alive and self._park(key, connection)):
                    connection.abort()
            if not (reused and reader.error is Reason.DISCONNECTED and not reader.received):
                break
            # closed while idle (RFC 9112 9.3.1): never processed, so sent again
            connection = await self._connect(place, exchange, answer)
        self._conclude(answer, reader, exchange, connection, refused)
        if proxied and answer.status == 407:
            answer.status = None
            answer.error = Reason.PROXY_FAIL
            answer.error_detail = "407: credentials refused"

    def _wire(self, request: FetchRequest, place: Place, answer: Answer) -> tuple[bytes, bool]:
        """What is sent, with a session's fields; to an HTTP proxy in absolute form (RFC 9112
        3.2.2), and True.
        """
        sent = self._session.attach(request, place)
        proxy = self._guard.proxy_of(place.host) if place.scheme == "http" else None
        if proxy is not None and proxy.scheme == "http":
            return (
                request_bytes(
                    replace(sent, headers=[*sent.headers, *proxy.authorization]), place.url
                ),
                True,
            )
        return answer.request_bytes if sent is request else request_bytes(sent, place.target), False

    def _conclude(
        self,
        answer: Answer,
        reader: ResponseReader,
        exchange: Exchange,
        connection: Connection,
        refused: list[str],
    ) -> None:
        reader.fill(answer)
        answer.notes += connection.notes
        if connection.first_byte is not None:
            answer.first_byte_ms = round((connection.first_byte - answer.mono_start) * 1000)
        if exchange.expired:
            answer.error, answer.error_detail = exchange.expired, f"{reader.received} bytes came"
        elif refused:
            answer.error, answer.error_detail = Reason.CONTENT_TYPE, refused[0]
            answer.headers, answer.header_bytes = reader.headers, reader.header_bytes
            answer.body, answer.truncated = b"", None
        if answer.error:
            answer.status = None

    def _park(self, key: tuple[str, str, int], connection: Connection) -> bool:
        if not connection.open or key in self._idle:
            return False
        if len(self._idle) >= self._fetch.in_flight:
            self._idle.pop(next(iter(self._idle))).abort()
        connection.idle_since = self._monotonic()
        self._idle[key] = connection
        return True

    # -- connecting

    async def _connect(self, place: Place, exchange: Exchange, answer: Answer) -> Connection:
        """A new connection to a checked address. Raises Refused."""
        exchange.connecting_until(self._effective() + self._fetch.connect_timeout_s)
        task = asyncio.current_task()
        assert task is not None
        exchange.cancel = task.cancel
        try:
            connection = await self._dialer.open(
                place, lambda: exchange.connect_deadline - self._effective()
            )
        except asyncio.CancelledError:
            if exchange.expired is None or task.uncancel():  # somebody else's
                raise
            raise Refused(exchange.expired, "before the connection stood") from None
        finally:
            exchange.cancel = None
        answer.connect_ms = round((self._monotonic() - answer.mono_start) * 1000)
        return connection

    # -- clocks

    def _effective(self) -> float:
        """Seconds on a clock that stops while our own thread is busy."""
        return self._monotonic() - self._stall_s

    def _start_ticker(self) -> None:
        if self._ticker is None:
            self._tick_due = self._monotonic() + TICK_S
            self._ticker = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        now = self._monotonic()
        self._stall_s += max(0.0, now - self._tick_due - TICK_S / 5)
        effective = now - self._stall_s
        self.budget.tick()
        for exchange in list(self._exchanges):
            if not (self.budget.waits(exchange.connection) and exchange.postpone(TICK_S)):
                exchange.check(effective, self._fetch.min_bytes_per_s)
        for key, connection in list(self._idle.items()):
            if not connection.open or now - connection.idle_since > IDLE_S:
                del self._idle[key]
                connection.abort()
        self._ticker = None
        if self._exchanges or self._idle:
            self._start_ticker()
