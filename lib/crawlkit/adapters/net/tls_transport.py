"""TLS over a connected socket for a protocol with a buffer of its own.

Role: what asyncio's transport does in three layers, whose work takes as long as the handshake
itself. OpenSSL verifies as the context is set.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from ssl import MemoryBIO, SSLContext, SSLEOFError, SSLError, SSLWantReadError
from typing import Any, cast

from crawlkit.adapters.net.tls import chain_context, covers, name_mismatch, needs_own_check


class TlsTransport(asyncio.Transport):
    """Carries a protocol's bytes once `handshake` is done.

    A failure after it ends in `connection_lost`.

    The last message of the handshake may go out with the protocol's first bytes: it has to write
    first.

    Args:
        sock: non-blocking; the transport closes it.
        name: host for SNI and for the check of the certificate.
    """

    __slots__ = (
        "_loop",
        "_sock",
        "_fd",
        "_protocol",
        "_incoming",
        "_outgoing",
        "_tls",
        "_shaken",
        "_plain",
        "_unsent",
        "_writing",
        "_paused",
        "_ended",
        "_name",
    )

    def __init__(
        self,
        sock: socket.socket,
        context: SSLContext,
        name: str,
        protocol: asyncio.BufferedProtocol,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._fd = sock.fileno()
        self._protocol = protocol
        self._incoming, self._outgoing = MemoryBIO(), MemoryBIO()
        self._name = name if needs_own_check(name) and context.check_hostname else None
        if self._name is not None:
            context = chain_context(context)
        # bytes: Place.host is canonical, and the IDNA codec slow
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=name.encode("ascii")
        )
        # None: the handshake is done
        self._shaken: asyncio.Future[None] | None = self._loop.create_future()
        self._plain = self._unsent = b""  # what TLS, what the socket did not take yet
        self._writing = self._paused = self._ended = False

    async def handshake(self, address: tuple[str, int] | None = None) -> None:
        """Connect to `address` (None: the socket is connected) and agree on TLS.

        Then the protocol's connection_made is called. Raises OSError (SSLError); the transport is
        closed then.
        """
        shaken = self._shaken
        assert shaken is not None
        try:
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                if address is not None:
                    self._sock.connect(address)
            except BlockingIOError:
                pass
            self._loop.add_reader(self._fd, self._readable)
            # its first message waits for the connection as all that the socket does not take
            self._shake()
            await shaken
        except BaseException:
            shaken.cancel()
            self.abort()
            raise

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The TLS object or the socket, by name (asyncio.BaseTransport)."""
        return {"ssl_object": self._tls, "socket": self._sock}.get(name, default)

    def is_closing(self) -> bool:
        """Whether the connection has ended (asyncio.BaseTransport)."""
        return self._ended

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send; what the socket does not take waits (asyncio.WriteTransport)."""
        if not self._ended:
            self._plain += data
            self._encrypt()

    def pause_reading(self) -> None:
        """Read nothing until resume_reading (asyncio.ReadTransport)."""
        if not self._paused and not self._ended:
            self._paused = True
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        """Read on after pause_reading (asyncio.ReadTransport)."""
        if self._paused and not self._ended:
            self._paused = False
            self._loop.add_reader(self._fd, self._readable)
            self._loop.call_soon(self._decrypt)

    def abort(self) -> None:
        """Close at once (asyncio.WriteTransport)."""
        self._end(None)

    # -- the socket's side

    def _readable(self) -> None:
        buffer = cast(memoryview, self._protocol.get_buffer(-1))
        try:
            n = self._sock.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as failure:
            return self._end(failure)
        if n:
            self._incoming.write(buffer[:n])
        elif self._shaken is not None:
            return self._end(ConnectionResetError())
        else:
            self._loop.remove_reader(self._fd)
            self._incoming.write_eof()
        if self._shaken is None:
            self._decrypt()
        else:
            self._shake()

    def _send(self) -> None:
        """Hands on what is encrypted; what the socket does not take waits until it does."""
        data = self._unsent + self._outgoing.read()
        try:
            self._unsent = data[self._sock.send(data) :]
        except (BlockingIOError, InterruptedError):
            self._unsent = data
        except OSError as failure:
            return self._end(failure)
        if self._writing is not bool(self._unsent):
            self._writing = not self._writing
            if self._writing:
                self._loop.add_writer(self._fd, self._send)
            else:
                self._loop.remove_writer(self._fd)

    # -- TLS's side

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
        except SSLWantReadError:
            return self._send()
        except OSError as failure:
            with contextlib.suppress(OSError):
                self._sock.send(self._outgoing.read())  # the alert: why
            return self._end(failure)
        if self._name is not None and not covers(self._tls.getpeercert(), self._name):
            return self._end(name_mismatch(self._name))
        shaken, self._shaken = self._shaken, None
        assert shaken is not None
        self._protocol.connection_made(self)
        if not shaken.done():
            shaken.set_result(None)
        if self._incoming.pending:
            self._decrypt()

    def _encrypt(self) -> None:
        try:
            while self._plain:
                self._plain = self._plain[self._tls.write(self._plain) :]
        except SSLWantReadError:  # a renegotiation: goes on when its answer is read
            pass
        except SSLError as failure:
            return self._end(failure)
        self._send()

    def _decrypt(self) -> None:
        """Gives the protocol what has come, a buffer as full as can be at a time."""
        later = False
        while not later and self._has_more() and not self._paused and not self._ended:
            buffer = cast(memoryview, self._protocol.get_buffer(-1))
            n = 0
            over = False
            failure = None
            try:
                while n < len(buffer) and not over and self._has_more():
                    got = self._tls.read(len(buffer) - n, buffer[n:])
                    n, over = n + got, not got  # type: ignore[operator]
            except SSLWantReadError:
                later = True
            except SSLEOFError:
                over = True
            except SSLError as err:
                failure = err
            if n:
                self._protocol.buffer_updated(n)
            if self._paused or self._ended:
                return
            if failure is not None:
                return self._end(failure)
            if over:
                return self._goodbye()
        if not self._ended and (self._plain or self._outgoing.pending):
            self._encrypt()

    def _has_more(self) -> bool:
        """May a read give anything but "later"? An end of the stream counts."""
        return bool(self._incoming.pending or self._incoming.eof or self._tls.pending())

    def _goodbye(self) -> None:
        """The other side has ended; its closing alert is answered, the lack of one is the
        protocol's to judge.
        """
        self._protocol.eof_received()
        with contextlib.suppress(OSError):
            self._tls.unwrap()
        if not self._ended:
            self._send()
        self._end(None)

    def _end(self, failure: OSError | None) -> None:
        if self._ended:
            return
        self._ended = True
        self._loop.remove_reader(self._fd)
        if self._writing:
            self._loop.remove_writer(self._fd)
        self._sock.close()
        if self._shaken is None:
            self._loop.call_soon(self._lost, failure)
        elif not self._shaken.done():
            self._shaken.set_exception(failure or ConnectionAbortedError())

    def _lost(self, failure: OSError | None) -> None:
        protocol, self._protocol = self._protocol, None  # type: ignore[assignment]
        protocol.connection_lost(failure)
