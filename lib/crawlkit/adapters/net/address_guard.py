"""The one gate to the network: which URL may be fetched, and at which address.

Role: every connection is admitted here first and goes to exactly the addresses that are returned,
never to a name, so that no second look-up can change what was checked.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Protocol

import ada_url

from crawlkit.adapters.net.dns import Lookup
from crawlkit.adapters.net.proxy import Proxy, parse_proxy
from crawlkit.config import Fetch, of_host
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.url.ip_ranges import address_refusal

_DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_ADDRESSES = 64
DIRECT = Proxy("", "", 0)  # a host that is excepted from a proxy of `*`


class Resolves(Protocol):
    """The seam to name resolution (dns.Resolver)."""

    async def resolve(self, name: str) -> Lookup:
        """Addresses of a host name. Raises Refused (DNS_NXDOMAIN, DNS_FAIL)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a URL leads, by the WHATWG URL Standard: nothing in it is a guess of ours."""

    url: str  # without credentials and fragment
    scheme: str
    host: str  # lower case, ASCII, no final dot; an IPv6 address without brackets
    port: int
    host_header: str  # with the port if it is not the default
    target: str  # path and query


@dataclass(frozen=True, slots=True)
class Admitted:
    """Checked addresses, in the order to try, and the port to connect to."""

    addresses: tuple[str, ...]
    port: int
    stale: bool = False  # the last known addresses: no resolver answers
    proxy: Proxy | None = None  # it connects to `host` and `port`; there are no addresses then
    host: str = ""
    named: bool = False  # a look-up gave the addresses


@functools.lru_cache(maxsize=1024)
def parse_place(url: str) -> Place:
    """Parses a URL. Raises Refused (URL_INVALID, URL_SCHEME, URL_HOST_EMPTY)."""
    try:
        href = ada_url.URL(url).href
    except ValueError:
        raise Refused(
            Reason.URL_INVALID
        ) from None  # the URL may hold credentials: not in the message
    scheme, sep, rest = href.partition("://")
    if scheme not in _DEFAULT_PORTS or not sep:
        raise Refused(Reason.URL_SCHEME, scheme.partition(":")[0][:40])
    authority, _, path = rest.partition("/")  # a serialised http URL always has a path
    name, port = _split_port(authority.rpartition("@")[2])
    name = name.removesuffix(".")
    if not name or name.endswith("."):
        raise Refused(Reason.URL_HOST_EMPTY)
    host_header = name if port is None else f"{name}:{port}"
    target = "/" + path.partition("#")[0]
    return Place(
        f"{scheme}://{host_header}{target}",
        scheme,
        name.strip("[]"),
        _DEFAULT_PORTS[scheme] if port is None else port,
        host_header,
        target,
    )


def _split_port(text: str) -> tuple[str, int | None]:
    """`host:port`, `host`, `[address]:port`, `[address]`."""
    host, _, port = text.rpartition(":") if text.rfind(":") > text.rfind("]") else (text, "", "")
    return host, int(port) if port else None


class Guard:
    """Applies config.Fetch (ports, allow_private, deny, connect_to) to URLs.

    `resolver` turns names into addresses.
    """

    def __init__(self, fetch: Fetch, resolver: Resolves) -> None:
        self._resolver = resolver
        self._ports = frozenset(fetch.ports)
        allow = [ip_network(net) for net in fetch.allow_private]
        deny = [ip_network(net) for net in fetch.deny]
        self._refusal = functools.lru_cache(1024)(lambda ip: address_refusal(ip, allow, deny))
        self._connect_to = {
            pattern.lower(): _split_port(to) for pattern, to in fetch.connect_to.items()
        }
        self._proxies = {
            pattern.lower(): parse_proxy(setting) or DIRECT
            for pattern, setting in fetch.proxy.items()
        }

    def parse(self, url: str) -> Place:
        """The place of a URL whose port is allowed. Raises Refused (URL_..., PORT_FORBIDDEN)."""
        place = parse_place(url)
        if place.port not in self._ports:
            raise Refused(Reason.PORT_FORBIDDEN, str(place.port))
        return place

    def proxy_of(self, host: str) -> Proxy | None:
        """The proxy through which a host is fetched."""
        found = of_host(self._proxies, host) if self._proxies else None
        return None if found is DIRECT else found

    async def admit(self, place: Place) -> Admitted:
        """The addresses to connect to, every one checked.

        Behind a proxy they are checked as far as they can be known here. Raises Refused
        (ADDRESS_FORBIDDEN, DNS_NXDOMAIN, DNS_FAIL).
        """
        mapped = of_host(self._connect_to, place.host) if self._connect_to else None
        port = place.port
        stale = False
        named = False
        proxy = self.proxy_of(place.host)
        addresses: tuple[str, ...]
        if mapped is not None:
            addresses, port = (mapped[0].strip("[]"),), mapped[1] or port
        elif _is_address(place.host):
            addresses = (place.host,)
        elif proxy is not None:
            hidden = (
                proxy.remote_dns and place.host.rpartition(".")[2] != "localhost"
            ) or place.host.endswith(".onion")
            addresses = () if hidden else await self._visible_addresses(place.host)
        elif place.host == "onion" or place.host.endswith(".onion"):
            # RFC 7686 2: never sent to a name server
            raise Refused(Reason.DNS_NXDOMAIN, ".onion is reached through a proxy only")
        else:
            found = await self._resolver.resolve(place.host)
            addresses = found.addresses[:MAX_ADDRESSES]
            stale = found.stale
            named = True
        for ip in addresses:
            if why := self._refusal(ip):
                raise Refused(Reason.ADDRESS_FORBIDDEN, f"{ip}: {why}")
        if proxy is not None:
            return Admitted((), port, False, proxy, addresses[0] if mapped else place.host)
        return Admitted(
            tuple(sorted(addresses, key=lambda ip: ":" in ip)) if len(addresses) > 1 else addresses,
            port,
            stale,
            named=named,
        )

    async def _visible_addresses(self, host: str) -> tuple[str, ...]:
        """The addresses of a name as seen from here; none if that is unknown: the proxy decides."""
        try:
            return (await self._resolver.resolve(host)).addresses[:MAX_ADDRESSES]
        except Refused:
            return ()


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
