"""Real proxies on loopback: HTTP (CONNECT and absolute form) and SOCKS 5, with or without
credentials, in threads.
"""

from __future__ import annotations

import base64
import contextlib
import re
import socket
import threading
from collections.abc import Iterator, Mapping


class Proxy:
    """`names`: host -> (address, port) that this proxy knows.

    `asked`: (host, port) of each request or tunnel; `heads`: what an HTTP client sent.
    """

    def __init__(
        self,
        kind: str,
        names: Mapping[str, tuple[str, int]],
        credentials: tuple[str, str] | None = None,
    ) -> None:
        self._serve = self._http if kind == "http" else self._socks
        self._names, self._credentials = names, credentials
        self.asked: list[tuple[str, int]] = []
        self.heads: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.settimeout(10)
                threading.Thread(target=self._run, args=(client,), daemon=True).start()

    def _run(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), client:
            self._serve(client)

    def _dial(self, host: str, port: int) -> socket.socket | None:
        self.asked.append((host, port))
        if host not in self._names:
            return None
        return socket.create_connection(self._names[host], 5)

    def _http(self, client: socket.socket) -> None:
        while True:
            head = b""
            while b"\r\n\r\n" not in head:
                data = client.recv(65536)
                if not data:
                    return
                head += data
            self.heads.append(head)
            wanted = (
                base64.b64encode(":".join(self._credentials).encode()) if self._credentials else b""
            )
            if self._credentials and b"Proxy-Authorization: Basic " + wanted + b"\r\n" not in head:
                client.sendall(
                    b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
                )
                continue
            method, target, _ = head.split(b" ", 2)
            if method == b"CONNECT":
                host, _, port = target.decode().rpartition(":")
                server = self._dial(host.strip("[]"), int(port))
                client.sendall(
                    b"HTTP/1.1 200 Connection established\r\nX-Via: test\r\n\r\n"
                    if server
                    else b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
                )
                if server:
                    return _pump(client, server)
                continue
            found = re.match(rb"http://([^/:]+)(?::(\d+))?(/.*)", target)
            server = self._dial(found[1].decode(), int(found[2] or 80))
            if server is None:
                client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                continue
            with server:
                lines = [
                    line
                    for line in head.split(b"\r\n")[1:-2]
                    if not line.lower().startswith(b"proxy-")
                ]
                server.sendall(
                    b"\r\n".join(
                        [
                            method + b" " + found[3] + b" HTTP/1.1",
                            *lines,
                            b"Connection: close",
                            b"",
                            b"",
                        ]
                    )
                )
                while data := server.recv(65536):
                    client.sendall(data)
            return

    def _socks(self, client: socket.socket) -> None:
        _, n = _exactly(client, 2)
        offered = _exactly(client, n)
        method = 2 if self._credentials else 0
        if method not in offered:
            return client.sendall(b"\x05\xff")
        client.sendall(bytes((5, method)))
        if self._credentials:
            user = _exactly(client, _exactly(client, 2)[1])
            password = _exactly(client, _exactly(client, 1)[0])
            good = (user.decode(), password.decode()) == self._credentials
            client.sendall(b"\x01\x00" if good else b"\x01\x01")
            if not good:
                return None
        _, _, _, kind = _exactly(client, 4)
        if kind == 3:
            host = _exactly(client, _exactly(client, 1)[0]).decode()
        else:
            packed = _exactly(client, 4 if kind == 1 else 16)
            host = socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, packed)
        server = self._dial(host, int.from_bytes(_exactly(client, 2), "big"))
        client.sendall((b"\x05\x00" if server else b"\x05\x04") + b"\x00\x03\x04name\x00\x50")
        if server:
            _pump(client, server)
        return None


def _exactly(sock: socket.socket, n: int) -> bytes:
    data = b""
    while len(data) < n:
        got = sock.recv(n - len(data))
        if not got:
            raise EOFError
        data += got
    return data


def _pump(a: socket.socket, b: socket.socket) -> None:
    def one_way(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (a, b):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    back = threading.Thread(target=one_way, args=(b, a), daemon=True)
    back.start()
    one_way(a, b)
    back.join(5)


@contextlib.contextmanager
def proxy(
    kind: str, names: Mapping[str, tuple[str, int]], credentials: tuple[str, str] | None = None
) -> Iterator[Proxy]:
    running = Proxy(kind, names, credentials)
    try:
        yield running
    finally:
        running.close()
