"""DNS over HTTPS (RFC 8484): one server, queried by POST over connections that are kept."""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit

import dns.exception
import dns.message

from crawlkit.adapters.net.tls import default_context
from crawlkit.rules.http.response import ResponseReader

MAX_MESSAGE_BYTES = 65_535
MAX_IDLE = 4
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HttpsServer:
    """One server, at https://host[:port]/path.

    It is the operator's choice, so no address is refused.
    """

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 443
        self._tls = tls
        self.name = self._host
        fields = (
            f"POST {parts.path or '/dns-query'} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Accept: application/dns-message",
            "Content-Type: application/dns-message",
        )
        self._head = "\r\n".join(fields)
        self._idle: list[Stream] = []

    async def __call__(self, query: dns.message.Message, timeout_s: float) -> dns.message.Message:
        """The reply.

        Raises OSError (TimeoutError among them), EOFError, ValueError, DNSException.
        """
        query.id = 0  # RFC 8484 4.1
        wire = query.to_wire()
        request = f"{self._head}\r\nContent-Length: {len(wire)}\r\n\r\n".encode("ascii") + wire
        async with asyncio.timeout(timeout_s):
            while True:
                kept = self._idle.pop() if self._idle else None
                stream = kept or await asyncio.open_connection(
                    self._host, self._port, ssl=self._tls or default_context()
                )
                reader = await self._exchange(stream, request)
                if reader.received or not kept:
                    break  # else it was closed while idle
        kind = (reader.header("content-type") or "").partition(";")[0].strip().lower()
        if (
            reader.error
            or reader.truncated
            or reader.status != 200
            or kind != "application/dns-message"
        ):
            raise ValueError(f"HTTP {reader.status} {reader.error or kind}")
        reply = dns.message.from_wire(reader.body)
        if not query.is_response(reply):
            raise dns.exception.FormError
        return reply

    async def close(self) -> None:
        """Close the connections that are kept."""
        while self._idle:
            self._idle.pop()[1].close()

    async def _exchange(self, stream: Stream, request: bytes) -> ResponseReader:
        """One request and its answer; the connection is kept if it may be."""
        reader = ResponseReader("POST", MAX_MESSAGE_BYTES)
        keep = False
        try:
            stream[1].write(request)
            while not reader.done:
                data = await stream[0].read(65_536)
                reader.feed(data) if data else reader.eof()
            keep = reader.keep_alive and len(self._idle) < MAX_IDLE
        except ConnectionError:
            reader.eof(False)
        finally:
            if keep:
                self._idle.append(stream)
            else:
                stream[1].close()
        return reader
