"""Probes of topic dns-ssrf: the engine with its guard and cache; only names and the wire are
stand-ins.
"""

from __future__ import annotations

import asyncio
import pathlib

from crawlkit.adapters.net.address_guard import Admitted, Place, parse_place
from crawlkit.adapters.net.connection import Connection
from crawlkit.adapters.net.dns import Lookup, Resolver
from crawlkit.adapters.net.engine import Engine, request_headers
from crawlkit.config import Agent, Fetch
from crawlkit.model import FetchRequest
from crawlkit.outcomes import Reason, Refused

_PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_REFUSALS = {
    Reason.ADDRESS_FORBIDDEN,
    Reason.PORT_FORBIDDEN,
    Reason.URL_INVALID,
    Reason.URL_SCHEME,
    Reason.URL_HOST_EMPTY,
}


class _Wire(asyncio.Transport):
    """Answers every request with an empty page."""

    def __init__(self, connection: Connection, page: bytes) -> None:
        super().__init__()
        self._connection, self._page, self._closed = connection, page, False

    def write(self, data: bytes) -> None:
        self._connection.get_buffer(-1)[: len(self._page)] = self._page
        self._connection.buffer_updated(len(self._page))

    def is_closing(self) -> bool:
        return self._closed

    def abort(self) -> None:
        self._closed = True


class _Engine(Engine):
    """Notes the addresses that the engine would connect to."""

    def __init__(self, fetch: Fetch, resolver: Resolver) -> None:
        super().__init__(fetch, resolver)
        self.connections: list[str] = []
        self._dialer.dial = self._noted

    async def _noted(self, place: Place, admitted: Admitted, ip: str) -> Connection:
        self.connections.append(ip)
        connection = Connection(memoryview(bytearray(4096)), self.budget)
        connection.ip = ip
        connection.connection_made(_Wire(connection, _PAGE))
        return connection


def answer(given: dict, case_dir: pathlib.Path) -> dict:
    return asyncio.run(_answer(given))


async def _answer(given: dict) -> dict:
    lookups = 0
    dns = {name.rstrip("."): tuple(ips) for name, ips in (given.get("dns") or {}).items()}
    turns = {
        name.rstrip("."): list(answers)
        for name, answers in (given.get("dns_sequence") or {}).items()
    }

    async def query(name: str) -> Lookup:
        nonlocal lookups
        lookups += 1
        ips = (
            tuple(turns[name].pop(0) if len(turns[name]) > 1 else turns[name][0])
            if turns.get(name)
            else dns.get(name, ())
        )
        return Lookup(ips, 60.0) if ips else Lookup(error=Reason.DNS_NXDOMAIN, ttl_s=60.0)

    proxy = (given.get("config") or {}).get("proxy")
    engine = _Engine(
        Fetch(
            proxy={"*": proxy} if proxy else {},
            allow_private=tuple(given.get("allow") or ()),
            deny=tuple(given.get("deny") or ()),
        ),
        Resolver(query, hosts={}),
    )
    url, error, refused_hop, redirects = given["url"], None, None, given.get("redirects") or {}
    for _ in range(Fetch().max_redirects + 1):
        got = await engine.fetch(FetchRequest(url, _headers(url)))
        error = got.error
        if error in _REFUSALS:
            refused_hop = url
        if error or url not in redirects:
            break
        url = redirects[url]
    await engine.close()
    return {
        "refused": error in _REFUSALS,
        "error": error is not None,
        "reason": error,
        "host": _host(given["url"]),
        "connections": engine.connections,
        "connect_to": engine.connections[-1] if engine.connections else None,
        "refused_hop": refused_hop,
        "recorded": error is not None,
        "lookups": lookups,
    }


def _headers(url: str) -> list[tuple[str, str]]:
    try:
        return request_headers(Agent(), url)
    except Refused:
        return []


def _host(url: str) -> str | None:
    try:
        host = parse_place(url).host
    except Refused:
        return None
    return f"[{host}]" if ":" in host else host
