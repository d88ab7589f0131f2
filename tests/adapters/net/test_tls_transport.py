"""TLS connections of the engine beside what a server can do to them, in both versions of the
protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from crawlkit.adapters.net.engine import Engine
from crawlkit.adapters.net.tls_transport import TlsTransport
from crawlkit.model import Answer
from crawlkit.outcomes import Reason

from tests.adapters.net.test_engine import config, get, run
from tests.rules.http.http_cases import ok
from tests.servers.tls_server import _server_context, serving, tls_server, trusting_context

pytestmark = pytest.mark.waits

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
URL = "https://site.example/"
Serve = Callable[[socket.socket, ssl.SSLContext], None]


@contextlib.contextmanager
def server(serve: Serve, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Iterator[int]:
    """One thread that gives each connection, still without TLS, to `serve`; yields its port."""
    context = _server_context(None, "site.example")
    context.maximum_version = version
    with serving(lambda client: serve(client, context), 10) as port:
        yield port


def fetched(port: int, n: int = 1, **more) -> list[Answer]:
    return run(
        config(connect_to={"site.example": f"127.0.0.1:{port}"}, **more),
        *[get(URL)] * n,
        tls=trusting_context(),
    )


@contextlib.contextmanager
def nothing_left_open() -> Iterator[None]:
    """The server's own end may close a moment later."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    for _ in range(100):
        if len(os.listdir("/proc/self/fd")) <= before:
            return
        time.sleep(0.02)
    raise AssertionError("a socket stays open")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_kept_connection_carries_several_answers(version):
    body = bytes(range(256)) * 4096  # 1 MiB: many records, more than one buffer
    shaken = []

    def serve(client: socket.socket, context: ssl.SSLContext) -> None:
        with context.wrap_socket(client, server_side=True) as stream:
            shaken.append(stream.version())
            while stream.recv(65536):
                stream.sendall(ok(f"Content-Length: {len(body)}", body=body))

    with server(serve, version) as port:
        answers = fetched(port, 3)
    assert [(a.error, a.body == body) for a in answers] == [(None, True)] * 3
    assert shaken == [version.name.replace("_", ".")]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_closing_alert_is_answered(version):
    """RFC 8446 6.1: the server that waits for it is not kept waiting."""
    ended = threading.Event()

    def serve(client: socket.socket, context: ssl.SSLContext) -> None:
        with context.wrap_socket(client, server_side=True) as stream:
            stream.recv(65536)
            stream.sendall(ok(body=b"whole"))
            stream.unwrap()
            ended.set()

    with server(serve, version) as port:
        (answer,) = fetched(port)
        assert (answer.body, answer.truncated) == (b"whole", None) and ended.wait(5)


@pytest.mark.parametrize("version", VERSIONS)
def test_records_that_no_key_made_end_the_body(version):
    def serve(client: socket.socket, context: ssl.SSLContext) -> None:
        stream = context.wrap_socket(client, server_side=True)
        stream.recv(65536)
        stream.sendall(ok("Content-Length: 9", body=b"half"))
        with socket.socket(fileno=stream.detach()) as raw:
            raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
            raw.recv(65536)

    with server(serve, version) as port:
        (answer,) = fetched(port)
    assert (answer.error, answer.body, answer.truncated) == (None, b"half", "disconnect")


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x28"]
)
def test_a_handshake_that_the_server_ends_is_named(said):
    """It closes; it speaks no TLS; its alert says handshake failure. Nothing stays open."""

    def serve(client: socket.socket, context: ssl.SSLContext) -> None:
        client.recv(65536)
        client.sendall(said)

    with server(serve) as port, nothing_left_open():
        answers = fetched(port, 5)
    assert {a.error for a in answers} == {Reason.TLS_FAIL if said else Reason.CONNECT_FAIL}
    assert {a.error_detail for a in answers} == (
        {"ConnectionResetError"} if not said else {answers[0].error_detail}
    )


def test_the_server_learns_why_its_certificate_is_refused():
    told = []

    def serve(client: socket.socket, context: ssl.SSLContext) -> None:
        try:
            context.wrap_socket(client, server_side=True).recv(1)
        except ssl.SSLError as err:
            told.append(err.reason)

    with server(serve, ssl.TLSVersion.TLSv1_2) as port:
        (answer,) = run(
            config(connect_to={"site.example": f"127.0.0.1:{port}"}),
            get(URL),
            tls=ssl.create_default_context(),
        )
    assert answer.error is Reason.TLS_CERT_INVALID
    assert told == ["TLSV1_ALERT_UNKNOWN_CA"]


def test_a_handshake_that_stalls_ends_at_its_deadline_and_harms_nobody():
    """The task that waited goes on, also when others connect meanwhile."""

    def serve(client: socket.socket, context: ssl.SSLContext) -> None:
        client.recv(65536)
        with contextlib.suppress(OSError):
            client.recv(1)

    def serve_at_once(client: socket.socket, context: ssl.SSLContext) -> None:
        with context.wrap_socket(client, server_side=True) as stream:
            stream.recv(65536)
            stream.sendall(ok("Content-Length: 5", body=b"hello"))

    with server(serve) as slow, server(serve_at_once) as quick:

        async def both() -> list[Answer]:
            engine = Engine(
                config(connect_to={"site.example": f"127.0.0.1:{slow}"}, connect_timeout_s=0.3),
                tls=trusting_context(),
            )
            other = Engine(
                config(connect_to={"site.example": f"127.0.0.1:{quick}"}), tls=trusting_context()
            )
            stalled = asyncio.create_task(engine.fetch(get(URL)))
            answers = [await other.fetch(get(URL)), await stalled]
            assert stalled.cancelling() == 0
            answers.append(await engine.fetch(get(URL)))  # in this task: it is not cancelled either
            assert asyncio.current_task().cancelling() == 0
            await asyncio.sleep(0.2)
            await engine.close()
            await other.close()
            return answers

        with nothing_left_open():
            answers = asyncio.run(both())
    assert [a.error for a in answers] == [None, Reason.CONNECT_TIMEOUT, Reason.CONNECT_TIMEOUT]


@pytest.mark.parametrize("after_s", [0.0, 0.1])
def test_who_cancels_a_fetch_that_connects_cancels_it(after_s):
    def serve(client: socket.socket, context: ssl.SSLContext) -> None:
        client.recv(65536)
        client.recv(1)

    async def cancelled(port: int) -> None:
        engine = Engine(
            config(connect_to={"site.example": f"127.0.0.1:{port}"}), tls=trusting_context()
        )
        task = asyncio.create_task(engine.fetch(get(URL)))
        await asyncio.sleep(after_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled() and not engine._exchanges
        await engine.close()

    with server(serve) as port, nothing_left_open():
        asyncio.run(cancelled(port))


def test_a_port_that_nobody_listens_on_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    (answer,) = fetched(port)
    assert answer.error is Reason.CONNECT_REFUSED


# -- the transport by itself


class Kept(asyncio.BufferedProtocol):
    """Keeps what comes; pauses the transport where `pause_at` bytes have come."""

    def __init__(self, pause_at: int = 0) -> None:
        self.got, self.pause_at, self.transport = bytearray(), pause_at, None
        self.buffer, self.lost, self.ended = (
            memoryview(bytearray(4096)),
            asyncio.get_running_loop().create_future(),
            False,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, n: int) -> None:
        self.got += self.buffer[:n]
        if self.pause_at and len(self.got) >= self.pause_at:
            self.transport.pause_reading()

    def eof_received(self) -> None:
        self.ended = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


async def connected(port: int, **more) -> Kept:
    protocol, sock = Kept(**more), socket.socket()
    sock.setblocking(False)
    await TlsTransport(sock, trusting_context(), "site.example", protocol).handshake(
        ("127.0.0.1", port)
    )
    return protocol


@pytest.mark.parametrize("version", VERSIONS)
def test_more_than_the_socket_takes_at_once_is_sent_in_order(version):
    data = os.urandom(1 << 20) * 8
    came = bytearray()

    def serve(client: socket.socket, context: ssl.SSLContext) -> None:
        with context.wrap_socket(client, server_side=True) as stream:
            while len(came) < len(data) + 4:
                came.extend(stream.recv(65536))
            stream.sendall(b"done")
            stream.unwrap()

    async def send(port: int) -> Kept:
        protocol = await connected(port)
        protocol.transport.write(data)
        assert protocol.transport._unsent  # the socket did not take all
        protocol.transport.write(b"last")
        await asyncio.wait_for(protocol.lost, 20)
        return protocol

    with server(serve, version) as port:
        protocol = asyncio.run(send(port))
    assert came == data + b"last" and protocol.got == b"done" and protocol.ended


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("pause_at", [1, 5_000, 300_000])
def test_a_paused_transport_gives_nothing_and_loses_nothing(version, pause_at):
    data = os.urandom(400_000)

    def serve(client: socket.socket, context: ssl.SSLContext) -> None:
        with context.wrap_socket(client, server_side=True) as stream:
            stream.recv(1)
            stream.sendall(data)
            stream.unwrap()

    async def read(port: int) -> Kept:
        protocol = await connected(port, pause_at=pause_at)
        protocol.transport.write(b"x")
        while not protocol.got:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        held = len(protocol.got)
        assert pause_at <= held < pause_at + 4096
        protocol.pause_at = 0
        protocol.transport.resume_reading()
        await asyncio.wait_for(protocol.lost, 20)
        return protocol

    with server(serve, version) as port:
        protocol = asyncio.run(read(port))
    assert protocol.got == data and protocol.ended and protocol.lost.result() is None


def test_the_first_message_waits_for_a_connection_that_is_slow():
    """A listener whose queue is full lets nobody in before it accepts; the SYN is then sent again
    after a second.
    """
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as listener,
        contextlib.ExitStack() as clients,
    ):
        address = listener.getsockname()
        clients.enter_context(socket.create_connection(address))

        def serve() -> None:
            clients.enter_context(listener.accept()[0])
            with _server_context(None, "site.example").wrap_socket(
                listener.accept()[0], server_side=True
            ) as stream:
                stream.sendall(stream.recv(1))

        async def use() -> Kept:
            shaking = asyncio.create_task(connected(address[1]))
            await asyncio.sleep(0.2)
            assert not shaking.done()
            server = asyncio.create_task(asyncio.to_thread(serve))
            protocol = await asyncio.wait_for(shaking, 10)
            protocol.transport.write(b"x")
            await asyncio.wait_for(protocol.lost, 10)
            await server
            return protocol

        assert asyncio.run(use()).got == b"x"


def test_after_abort_nothing_happens():
    def serve(client: socket.socket, context: ssl.SSLContext) -> None:
        context.wrap_socket(client, server_side=True).recv(1)

    async def use(port: int) -> None:
        protocol = await connected(port)
        transport = protocol.transport
        transport.abort()
        for call in (
            transport.abort,
            partial(transport.write, b"x"),
            transport.pause_reading,
            transport.resume_reading,
        ):
            call()
        assert transport.is_closing() and not protocol.lost.done()
        assert await asyncio.wait_for(protocol.lost, 5) is None

    with server(serve) as port:
        asyncio.run(use(port))


def test_an_address_that_cannot_be_asked_leaves_nothing_behind():
    complaints = []

    async def ask() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: complaints.append(context["message"])
        )
        sock = socket.socket()
        sock.setblocking(False)
        with pytest.raises(OSError):
            await TlsTransport(sock, trusting_context(), "site.example", Kept()).handshake(
                ("255.255.255.255", 443)
            )
        assert sock.fileno() == -1
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(ask())
    assert complaints == []


def ask_tls(host: str, port: int) -> Answer:
    """The answer of a server with some certificate, asked for a host."""
    where = config(connect_to={host: f"127.0.0.1:{port}"})
    return run(where, get(f"https://{host}/"), tls=trusting_context())[0]


@pytest.mark.parametrize(
    "certificate, host, error",
    [
        ("*.site.example", "my_shop.site.example", None),
        ("*.site.example", "myshop.site.example", None),
        ("my_shop.site.example", "my_shop.site.example", None),
        ("*.site.example", "_a.my_shop.site.example", "tls_name_mismatch"),
        ("*.other.example", "my_shop.site.example", "tls_name_mismatch"),
        ("*.example", "my_shop.site.example", "tls_name_mismatch"),
    ],
)
def test_a_wildcard_stands_for_a_whole_label(certificate, host, error):
    with tls_server(None, certificate) as port:
        answer = ask_tls(host, port)
    assert answer.error == error


def test_a_host_with_an_underscore_needs_a_trusted_certificate():
    with tls_server("self_signed", "*.site.example") as port:
        assert ask_tls("my_shop.site.example", port).error == "tls_cert_invalid"
