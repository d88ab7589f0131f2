"""A server on loopback that sends exactly the bytes it is told, in threads, so that a busy client
loop does not slow it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


class RawServer:
    """Calls `serve(connection, request_bytes, n)` for each request (n counts the requests of a
    connection). `serve` returning False ends the connection.
    """

    def __init__(
        self, serve: Callable[[socket.socket, bytes, int], bool | None], address: str = "127.0.0.1"
    ) -> None:
        self._serve = serve
        self._listener = socket.create_server((address, 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        self.requests: list[bytes] = []
        self.connections = 0
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._open.add(connection)
                threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        connection.settimeout(10)
        with contextlib.suppress(OSError), connection:
            n, data = 0, b""
            while True:
                while b"\r\n\r\n" not in data:
                    got = connection.recv(65536)
                    if not got:
                        return
                    data += got
                request, _, data = data.partition(b"\r\n\r\n")
                self.requests.append(request + b"\r\n\r\n")
                if self._serve(connection, request + b"\r\n\r\n", n) is False:
                    connection.shutdown(socket.SHUT_WR)
                    return
                n += 1

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def raw_server(
    serve: Callable[[socket.socket, bytes, int], bool | None] | bytes, address: str = "127.0.0.1"
) -> Iterator[RawServer]:
    """A running server; bytes: the answer to every request, then the close."""

    def fixed(connection: socket.socket, request: bytes, n: int) -> bool:
        connection.sendall(serve)
        return False

    server = RawServer(fixed if isinstance(serve, bytes) else serve, address)
    try:
        yield server
    finally:
        server.close()
