"""Names to addresses: a cache with the records' own lifetimes over name servers.

Nothing here raises for what a server answers: `Resolver.resolve` raises Refused (DNS_NXDOMAIN,
DNS_FAIL) only.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from ssl import SSLContext
from typing import cast

import dns.asyncquery
import dns.exception
import dns.message
import dns.name
import dns.rcode
import dns.resolver

from crawlkit.adapters.net.dns_over_https import HttpsServer
from crawlkit.outcomes import Reason, Refused

MAX_TTL_S = 86_400.0
SIGN_BIT = 2.0**31  # a lifetime with the top bit set is zero (RFC 2181 8)
MAX_NEGATIVE_S = 3600.0  # RFC 2308 5 recommends one to three hours at most
FAIL_S = 30.0  # RFC 2308 7.1: at most five minutes
MAX_STALE_S = 86_400.0
REFRESH_SHARE = 0.1  # a hot name is queried again within the last tenth of its lifetime
REFRESH_MIN_HITS = 3
QUERY_MS = (3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000)  # queries are counted by their time
MAX_QUESTIONS = 50  # at once: a slot queries all its hosts ahead of their first requests
_SYSTEM_TTL_S = 60.0


@dataclass(frozen=True, slots=True)
class Lookup:
    """An answer of a resolver: addresses, or `error`.

    The error is DNS_NXDOMAIN (no such name, no address) or DNS_FAIL.
    """

    addresses: tuple[str, ...] = ()
    ttl_s: float = 0.0
    error: Reason | None = None
    detail: str = ""
    stale: bool = False


Query = Callable[[str], Awaitable[Lookup]]


@dataclass(slots=True)
class _Entry:
    lookup: Lookup
    asked: float
    expires: float
    true_until: float  # end of the lifetime that a server gave: stale after that
    hits: int = 0


class Resolver:
    """Cache in front of `query`.

    One question at a time for a name; a hot name is refreshed before it expires; when all servers
    fail, the last known addresses serve on for a day.

    Args:
        query: queries the servers; default NameServers() or, with none configured, the system.
        clock: seconds, monotonic.
        hosts: names that never go to a server (default: the system's hosts file).
    """

    def __init__(
        self,
        query: Query | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        hosts: Mapping[str, tuple[str, ...]] | None = None,
        max_entries: int = 200_000,
    ) -> None:
        self._query = query or system_query
        self._clock = clock
        self._hosts = read_hosts() if hosts is None else hosts
        self._max = max_entries
        self._entries: dict[str, _Entry] = {}
        self._asking: dict[str, asyncio.Task[Lookup]] = {}
        self._turns = asyncio.Semaphore(MAX_QUESTIONS)
        self.counts: Counter[str] = Counter()  # lookups, hits, queries, ...

    async def resolve(self, name: str) -> Lookup:
        """Addresses of a host name (lower case, ASCII). Raises Refused (DNS_NXDOMAIN, DNS_FAIL)."""
        name = name.removesuffix(".")
        if (fixed := self._local_answer(name)) is not None:
            return fixed
        self.counts["lookups"] += 1
        entry, now = self._entries.get(name), self._clock()
        if entry is not None and now < entry.expires:
            self.counts["hits"] += 1
            entry.hits += 1
            if entry.hits > REFRESH_MIN_HITS and now > entry.expires - REFRESH_SHARE * (
                entry.expires - entry.asked
            ):
                self.counts["refreshed"] += name not in self._asking
                self._ask(name)
            lookup = entry.lookup
        else:
            lookup = await asyncio.shield(self._ask(name))
        if lookup.error:
            raise Refused(lookup.error, lookup.detail)
        return lookup

    def remember(self, name: str, addresses: Sequence[str]) -> None:
        """Addresses that served before this task: good for a day, and only if all servers fail."""
        if addresses and name not in self._entries:
            now = self._clock()
            self._entries[name] = _Entry(Lookup(tuple(addresses), 0.0), now, now, now)

    def count_reuse(self) -> None:
        """A request went over a connection that stood: its address needed no server."""
        self.counts["lookups"] += 1
        self.counts["hits"] += 1

    async def close(self) -> None:
        """Ends connections to the servers."""
        if isinstance(self._query, NameServers):
            await self._query.close()

    def _local_answer(self, name: str) -> Lookup | None:
        # RFC 6761 6.3: never sent to a server
        if name == "localhost" or name.endswith(".localhost"):
            return Lookup(("127.0.0.1", "::1"), _SYSTEM_TTL_S)
        addresses = self._hosts.get(name)
        return Lookup(addresses, _SYSTEM_TTL_S) if addresses else None

    def _ask(self, name: str) -> asyncio.Task[Lookup]:
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = asyncio.get_running_loop().create_task(self._renew(name))
            task.add_done_callback(lambda _: self._asking.pop(name, None))
        return task

    async def _renew(self, name: str) -> Lookup:
        self.counts["queries"] += 1
        async with self._turns:
            asked = self._clock()
            lookup = await self._query(name)
            took_ms = (self._clock() - asked) * 1000
            bound = next((b for b in QUERY_MS if took_ms <= b), QUERY_MS[-1])
            self.counts[f"ms_le_{bound}"] += 1
        old = self._entries.pop(name, None)
        true_until = asked + (
            min(lookup.ttl_s, MAX_NEGATIVE_S if lookup.error else MAX_TTL_S)
            if lookup.ttl_s < SIGN_BIT
            else 0.0
        )
        expires = true_until
        if lookup.error is Reason.DNS_FAIL:
            self.counts["failures"] += 1
            expires = asked + FAIL_S
            if old is not None and old.lookup.addresses and asked < old.true_until + MAX_STALE_S:
                self.counts["stale"] += 1
                lookup = replace(old.lookup, stale=asked >= old.true_until)
                true_until = old.true_until
        if expires > asked:
            self._entries[name] = _Entry(lookup, asked, expires, true_until)
            if len(self._entries) > self._max:
                del self._entries[next(iter(self._entries))]
        return lookup


class _UdpServer:
    """A server queried by UDP, and by TCP if the reply does not fit (RFC 1035 4.2, RFC 7766)."""

    def __init__(self, setting: str) -> None:
        self.name, self._port = _address_port(setting)

    async def __call__(self, query: dns.message.Message, timeout_s: float) -> dns.message.Message:
        return (
            await dns.asyncquery.udp_with_fallback(
                query, self.name, timeout=timeout_s, port=self._port, ignore_unexpected=True
            )
        )[0]


class NameServers:
    """Queries name servers (RFC 1035) in turn: the first that is not backing off.

    One that fails waits 1, 2, 4 ... 60 s. `servers`: address, address:port, or https://host/path
    (RFC 8484, verified by `tls`).
    """

    def __init__(
        self,
        servers: Sequence[str],
        *,
        timeout_s: float = 3.0,
        clock: Callable[[], float] = time.monotonic,
        tls: SSLContext | None = None,
    ) -> None:
        self._servers = [
            HttpsServer(s, tls) if s.startswith("https://") else _UdpServer(s) for s in servers
        ]
        self._timeout_s = timeout_s
        self._clock = clock
        self._failures = [0] * len(servers)
        self._retry_at = [0.0] * len(servers)

    async def __call__(self, name: str) -> Lookup:
        try:
            question = dns.name.from_text(name)
        except (dns.exception.DNSException, UnicodeError, ValueError):
            return Lookup(error=Reason.DNS_NXDOMAIN, detail="not a host name", ttl_s=MAX_NEGATIVE_S)
        four = await self._ask(question, "A")
        if four.addresses or four.detail == "no such name" or four.error is Reason.DNS_FAIL:
            return four
        six = await self._ask(question, "AAAA")
        # without an answer to this one it is not known that there is no address
        if six.addresses or six.error is Reason.DNS_FAIL:
            return six
        return replace(four, ttl_s=min(four.ttl_s, six.ttl_s))

    async def _ask(self, name: dns.name.Name, kind: str) -> Lookup:
        now, detail = self._clock(), "no name server"
        for at in sorted(
            range(len(self._servers)), key=lambda i: (max(self._retry_at[i] - now, 0.0), i)
        ):
            server = self._servers[at]
            query = dns.message.make_query(name, kind, use_edns=0, payload=1232)
            try:
                reply = await server(query, self._timeout_s)
                if reply.rcode() in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
                    self._failures[at], self._retry_at[at] = 0, 0.0
                    return _read(cast(dns.message.QueryMessage, reply))
                detail = f"{server.name}: {dns.rcode.to_text(reply.rcode())}"
            except (dns.exception.DNSException, OSError, EOFError, ValueError) as err:
                detail = f"{server.name}: {type(err).__name__}"
            self._failures[at] += 1
            self._retry_at[at] = self._clock() + min(60.0, 2.0 ** (self._failures[at] - 1))
        return Lookup(error=Reason.DNS_FAIL, detail=detail)

    async def close(self) -> None:
        """Close the connections to the servers."""
        for server in self._servers:
            if isinstance(server, HttpsServer):
                await server.close()


def _read(reply: dns.message.QueryMessage) -> Lookup:
    """Follows the aliases of a reply; the lifetime is the smallest on the way (RFC 2308 5 for
    negative answers).
    """
    chain = reply.resolve_chaining()
    if chain.answer is None:
        nxdomain = reply.rcode() == dns.rcode.NXDOMAIN
        ttl = chain.minimum_ttl if chain.minimum_ttl < 2**31 - 1 else FAIL_S
        return Lookup(
            error=Reason.DNS_NXDOMAIN,
            detail="no such name" if nxdomain else "no address",
            ttl_s=float(ttl),
        )
    return Lookup(tuple(rdata.to_text() for rdata in chain.answer), float(chain.minimum_ttl))


async def system_query(name: str) -> Lookup:
    """Query the system's own resolver, in a thread; it returns no lifetimes."""
    try:
        rows = await asyncio.get_running_loop().getaddrinfo(name, 0, type=socket.SOCK_STREAM)
    except socket.gaierror as err:
        missing = err.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
        return Lookup(
            error=Reason.DNS_NXDOMAIN if missing else Reason.DNS_FAIL,
            detail=str(err.strerror),
            ttl_s=_SYSTEM_TTL_S,
        )
    except (UnicodeError, OSError) as err:
        return Lookup(error=Reason.DNS_NXDOMAIN, detail=type(err).__name__, ttl_s=_SYSTEM_TTL_S)
    return Lookup(tuple(dict.fromkeys(str(row[4][0]) for row in rows)), _SYSTEM_TTL_S)


def make_resolver(servers: Sequence[str] = ()) -> Resolver:
    """A resolver over these name servers (config.Fetch.resolvers).

    Without any, over the system's name servers, else the system's library.
    """
    if not servers:
        try:
            servers = [str(s) for s in dns.resolver.Resolver().nameservers]
        except dns.exception.DNSException:
            servers = []
    return Resolver(NameServers(servers) if servers else system_query)


def read_hosts(path: Path = Path("/etc/hosts")) -> dict[str, tuple[str, ...]]:
    """Names of a hosts file, lower case; the first MiB counts."""
    try:
        with path.open("rb") as file:
            text = file.read(1 << 20).decode("utf-8", "replace")
    except OSError:
        return {}
    names: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        address, *aliases = line.partition("#")[0].split() or [""]
        for name in aliases:
            names[name.lower()] = (*names.get(name.lower(), ()), address)
    return names


def _address_port(text: str) -> tuple[str, int]:
    if text.startswith("["):
        address, _, port = text[1:].partition("]")
        return address, int(port.lstrip(":") or 53)
    if text.count(":") == 1:
        address, _, port = text.partition(":")
        return address, int(port)
    return text, 53
