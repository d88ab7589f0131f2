"""New connections: to checked addresses one after the other, or through a proxy, with TLS where the URL says so."""

from __future__ import annotations

import asyncio
import socket
from asyncio import sslproto
from collections.abc import Callable
from ipaddress import ip_address
from ssl import SSLContext, SSLError

from crawlkit.adapters.exchange import Connection
from crawlkit.adapters.guard import Admitted, Guard, Place, Resolves
from crawlkit.adapters.proxy import Proxy, tunnel
from crawlkit.adapters.tls import connect_reason, default_context, unverified_context
from crawlkit.config import Fetch
from crawlkit.outcomes import Reason, Refused

MAX_TRIES = 3  # addresses of one host
# asyncio makes each TLS connection a buffer of 256 KiB: hundreds of them are more memory than all else, and clearing it is
# a tenth of the time that a new connection takes. A TLS record has 16 KiB at most (RFC 8446 5.1).
sslproto.SSLProtocol.max_size = 32 * 1024


class Dialer:
    """`tls`: context that verifies (default: the process's own). `make`: a connection's protocol."""

    def __init__(self, fetch: Fetch, guard: Guard, resolver: Resolves, tls: SSLContext | None, make: Callable[[], Connection]) -> None:
        self.resolver = resolver
        self._guard, self._tls, self._make = guard, tls, make
        self._unverified = frozenset(h.lower() for h in fetch.unverified_tls_hosts)

    async def open(self, place: Place, left_s: Callable[[], float]) -> Connection:
        """A connection that may carry the request; the caller cancels it when no time is left (`left_s`). Raises Refused."""
        admitted = await self._guard.admit(place)
        if admitted.proxy is not None:
            return await self._through(admitted.proxy, place, admitted)
        failure: OSError | None = None
        addresses = admitted.addresses[:MAX_TRIES]
        for left, ip in zip(range(len(addresses), 0, -1), addresses):
            try:
                async with asyncio.timeout(left_s() / left if left > 1 else None):
                    return await self.dial(place, admitted, ip)
            except OSError as err:
                failure = err
                if isinstance(err, SSLError):  # the other addresses hold the same certificate
                    break
        raise connect_reason(failure)

    async def _through(self, proxy: Proxy, place: Place, admitted: Admitted) -> Connection:
        """The operator's proxy may stand anywhere: its address is not checked."""
        try:
            address = str(ip_address(proxy.host))
        except ValueError:
            address = (await self.resolver.resolve(proxy.host)).addresses[0]
        try:
            return await self.dial(place, admitted, address)
        except SSLError as err:
            raise connect_reason(err) from None
        except OSError as err:
            raise Refused(Reason.PROXY_FAIL, connect_reason(err).reason) from None

    async def dial(self, place: Place, admitted: Admitted, ip: str) -> Connection:
        """One connection to exactly this address. Raises OSError, Refused (PROXY_FAIL)."""
        loop = asyncio.get_running_loop()
        sock = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            proxy = admitted.proxy
            await loop.sock_connect(sock, (ip, proxy.port if proxy else admitted.port))
            if proxy is not None and (proxy.scheme != "http" or place.scheme == "https"):
                await tunnel(sock, proxy, admitted.host, admitted.port)
            tls, name = None, None
            if place.scheme == "https":
                verified = place.host not in self._unverified
                tls, name = (self._tls or default_context()) if verified else unverified_context(), place.host
            _, connection = await loop.create_connection(self._make, sock=sock, ssl=tls, server_hostname=name)
        except BaseException:
            sock.close()
            raise
        connection.ip, connection.named = None if proxy else ip, admitted.named
        if tls is not None and place.host in self._unverified:
            connection.notes.append("tls_unverified")
        if admitted.stale:
            connection.notes.append("dns_stale")
        return connection
