"""Egress through proxies (docs/rules/fetching.md).

HTTP (RFC 9110 9.3.6 CONNECT, RFC 9112 3.2.2 absolute form) and SOCKS 5 (RFC 1928, 1929). The proxy
resolves the name; so there is no address of the server to connect to or to record. Its credentials
are in no message.
"""

from __future__ import annotations

import asyncio
import base64
import socket
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from crawlkit.adapters.net.secret_source import secret
from crawlkit.config import ConfigError
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.http.head import HEAD_END, parse_head

MAX_REPLY_BYTES = 8 * 1024
_SOCKS_FAILURES = (
    "",
    "general failure",
    "not allowed by its rules",
    "network unreachable",
    "host unreachable",
    "connection refused",
    "TTL expired",
    "command not supported",
    "address type not supported",
)


@dataclass(frozen=True, slots=True)
class Proxy:
    """One proxy. `user`, `password`: decoded; empty if there are none."""

    scheme: str  # http, socks5
    host: str
    port: int
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    remote_dns: bool = False  # socks5h: no name is looked up here, not even to check it

    @property
    def authorization(self) -> list[tuple[str, str]]:
        """Proxy-Authorization of HTTP (RFC 7617), if there are credentials."""
        if not self.user:
            return []
        return [
            (
                "Proxy-Authorization",
                "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode(),
            )
        ]


def parse_proxy(setting: str) -> Proxy | None:
    """The proxy of a value of fetch.proxy; None for an empty one. Raises ConfigError."""
    text = secret(setting)
    if not text:
        return None
    try:
        parts = urlsplit(text)
        scheme = parts.scheme.replace("socks5h", "socks5")
        host = parts.hostname
        port = parts.port
    except ValueError:
        scheme, host, port = "", None, None
    if scheme not in ("http", "socks5") or not host or not port:
        raise ConfigError("fetch.proxy: a value is not http://host:port or socks5://host:port")
    return Proxy(
        scheme,
        host,
        port,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        parts.scheme == "socks5h",
    )


async def tunnel(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Makes a connected, non-blocking socket lead on to host:port.

    Raises Refused (PROXY_FAIL), OSError.
    """
    try:
        await (_socks5 if proxy.scheme == "socks5" else _connect)(sock, proxy, host, port)
    except EOFError:
        raise Refused(Reason.PROXY_FAIL, "the proxy closed the connection") from None


async def _connect(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    fields = [("Host", authority), *proxy.authorization]
    await loop.sock_sendall(
        sock,
        (
            f"CONNECT {authority} HTTP/1.1\r\n"
            + "".join(f"{n}: {v}\r\n" for n, v in fields)
            + "\r\n"
        ).encode("latin-1"),
    )
    reply = b""
    while not (end := HEAD_END.search(reply)):
        got = await loop.sock_recv(sock, MAX_REPLY_BYTES)
        reply += got
        if not got:
            raise EOFError
        if len(reply) > MAX_REPLY_BYTES:
            raise Refused(Reason.PROXY_FAIL, f"answer to CONNECT over {MAX_REPLY_BYTES} bytes")
    try:
        status = parse_head(reply[: end.end()]).status
    except Refused as refusal:
        raise Refused(Reason.PROXY_FAIL, f"answer to CONNECT: {refusal.detail}") from None
    # the server speaks second: bytes before we do are not its own
    if status // 100 != 2 or end.end() != len(reply):
        raise Refused(
            Reason.PROXY_FAIL,
            (
                f"CONNECT answered {status}"
                if status // 100 != 2
                else "bytes after the answer to CONNECT"
            ),
        )


async def _socks5(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, b"\x05\x02\x00\x02" if proxy.user else b"\x05\x01\x00")
    version, method = await _read(sock, 2)
    if version != 5 or method not in ((0, 2) if proxy.user else (0,)):
        raise Refused(
            Reason.PROXY_FAIL,
            "SOCKS: no method of authentication agreed" if version == 5 else "no SOCKS 5 proxy",
        )
    if method == 2:
        user, password = proxy.user.encode()[:255], proxy.password.encode()[:255]
        await loop.sock_sendall(sock, b"\x01%c%b%c%b" % (len(user), user, len(password), password))
        if (await _read(sock, 2))[1] != 0:
            raise Refused(Reason.PROXY_FAIL, "SOCKS: credentials refused")
    await loop.sock_sendall(sock, b"\x05\x01\x00" + _socks_address(host) + port.to_bytes(2, "big"))
    _, code, _, kind = await _read(sock, 4)
    if code != 0:
        raise Refused(
            Reason.PROXY_FAIL,
            f"SOCKS: {_SOCKS_FAILURES[code] if code < len(_SOCKS_FAILURES) else code}",
        )
    if kind not in (1, 3, 4):
        raise Refused(Reason.PROXY_FAIL, "SOCKS: unknown type of address")
    await _read(sock, {1: 4, 4: 16}.get(kind) or (await _read(sock, 1))[0])
    await _read(sock, 2)


def _socks_address(host: str) -> bytes:
    try:
        ip = ip_address(host)
    except ValueError:
        name = host.encode("ascii", "replace")[:255]
        return b"\x03%c%b" % (len(name), name)
    return (b"\x01" if ip.version == 4 else b"\x04") + ip.packed


async def _read(sock: socket.socket, n: int) -> bytes:
    """Exactly n bytes: what follows is the server's."""
    data = b""
    while len(data) < n:
        got = await asyncio.get_running_loop().sock_recv(sock, n - len(data))
        if not got:
            raise EOFError
        data += got
    return data
