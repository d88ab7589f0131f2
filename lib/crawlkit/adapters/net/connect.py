"""New connections: to checked addresses in turn, or through a proxy; TLS for https."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from ipaddress import ip_address
from ssl import SSLContext, SSLError

from crawlkit.adapters.net.address_guard import Admitted, Guard, Place, Resolves
from crawlkit.adapters.net.connection import Connection
from crawlkit.adapters.net.proxy import Proxy, tunnel
from crawlkit.adapters.net.tls import connect_reason, default_context, unverified_context
from crawlkit.adapters.net.tls_transport import TlsTransport
from crawlkit.config import Fetch
from crawlkit.outcomes import Reason, Refused

MAX_TRIES = 3  # addresses of one host


class Dialer:
    """Opens connections.

    `tls`: context that verifies (default: the process's own). `make`: a connection's protocol.
    """

    def __init__(
        self,
        fetch: Fetch,
        guard: Guard,
        resolver: Resolves,
        tls: SSLContext | None,
        make: Callable[[], Connection],
    ) -> None:
        self.resolver = resolver
        self._guard = guard
        self._tls = tls
        self._make = make
        self._unverified = frozenset(h.lower() for h in fetch.unverified_tls_hosts)

    async def open(self, place: Place, left_s: Callable[[], float]) -> Connection:
        """A connection that may carry the request. Raises Refused.

        left_s: seconds that are left; the caller cancels the call when there are none.
        """
        admitted = await self._guard.admit(place)
        if admitted.proxy is not None:
            return await self._through(admitted.proxy, place, admitted)
        failure: OSError | None = None
        addresses = admitted.addresses[:MAX_TRIES]
        for left, ip in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                if left == 1:
                    return await self.dial(place, admitted, ip)
                async with asyncio.timeout(left_s() / left):
                    return await self.dial(place, admitted, ip)
            except OSError as err:
                failure = err
                if isinstance(err, SSLError):  # the other addresses hold the same certificate
                    break
        raise connect_reason(failure)

    async def _through(self, proxy: Proxy, place: Place, admitted: Admitted) -> Connection:
        """A connection through the operator's proxy; it may be anywhere, no address is refused."""
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
        """One connection to exactly this address.

        Raises OSError (SSLError), Refused (PROXY_FAIL).
        """
        loop = asyncio.get_running_loop()
        proxy = admitted.proxy
        secure = place.scheme == "https"
        address: tuple[str, int] | None = (ip, proxy.port if proxy else admitted.port)
        sock = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            if proxy is not None or not secure:
                await loop.sock_connect(sock, (ip, proxy.port if proxy else admitted.port))
                address = None
            if proxy is not None and (proxy.scheme != "http" or secure):
                await tunnel(sock, proxy, admitted.host, admitted.port)
            if secure:
                connection, verified = self._make(), place.host not in self._unverified
                context = (self._tls or default_context()) if verified else unverified_context()
                await TlsTransport(sock, context, place.host, connection).handshake(address)
                if not verified:
                    connection.notes.append("tls_unverified")
            else:
                _, connection = await loop.create_connection(self._make, sock=sock)
        except BaseException:
            sock.close()
            raise
        connection.ip, connection.named = None if proxy else ip, admitted.named
        if admitted.stale:
            connection.notes.append("dns_stale")
        return connection
