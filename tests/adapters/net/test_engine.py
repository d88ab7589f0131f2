"""The engine over real sockets on loopback: framing, persistence, deadlines, limits, failures
(REQUIREMENTS E1, E2, E5).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time

import pytest
from crawlkit.adapters.net import connection as exchange
from crawlkit.adapters.net.dns import Lookup
from crawlkit.adapters.net.engine import Engine, request_headers
from crawlkit.adapters.net.requests_engine import RequestsEngine
from crawlkit.config import Agent, Fetch
from crawlkit.model import Answer, FetchRequest
from crawlkit.outcomes import Reason, Refused

from tests.rules.http.http_cases import CASES, ok
from tests.servers.raw_server import RawServer, raw_server
from tests.servers.tls_server import _server_context, tls_server, trusting_context

pytestmark = pytest.mark.waits

PAGE = ok("Content-Type: text/html", "Content-Length: 5", body=b"hello")


def config(*ports: int, **more) -> Fetch:
    return Fetch(
        **{
            "allow_private": ("127.0.0.0/8",),
            "ports": (80, 443, *ports),
            "timeout_s": 5.0,
            "connect_timeout_s": 5.0,
            **more,
        }
    )


def get(url: str, **headers: str) -> FetchRequest:
    return FetchRequest(url, [*request_headers(Agent(), url), *headers.items()])


def run(
    fetch: Fetch, *requests: FetchRequest, resolver=None, tls=None, pause: float = 0.0, **kw
) -> list[Answer]:
    async def all_of_them() -> list[Answer]:
        engine, answers = Engine(fetch, resolver, tls=tls), []
        try:
            for request in requests:
                answers.append(await asyncio.wait_for(engine.fetch(request, **kw), 20))
                await asyncio.sleep(pause)
        finally:
            await engine.close()
        assert not engine._exchanges
        return answers

    return asyncio.run(all_of_them())


def page(connection: socket.socket, request: bytes, n: int) -> None:
    connection.sendall(PAGE)


# -- answers


def test_every_case_of_the_table_over_sockets():
    def serve(connection: socket.socket, request: bytes, n: int) -> bool:
        connection.sendall(CASES[int(request.split(b" ")[1][1:])].raw)
        return False

    wrong = {}
    with raw_server(serve) as server:
        for at, case in enumerate(CASES):
            (answer,) = run(
                config(server.port),
                get(f"http://127.0.0.1:{server.port}/{at}"),
                max_body_bytes=case.limit,
            )
            if faults := case.wrong(
                answer.error, answer.status, answer.body, answer.truncated, answer.notes
            ):
                wrong[case.name] = faults
    assert wrong == {}


def test_an_answer_has_everything():
    with raw_server(PAGE) as server:
        (answer,) = run(config(server.port), get(f"http://127.0.0.1:{server.port}/a?b=c#d"))
        assert server.requests == [answer.request_bytes]
    assert (answer.status, answer.http_version, answer.body, answer.ip, answer.error) == (
        200,
        "1.1",
        b"hello",
        "127.0.0.1",
        None,
    )
    assert answer.header_bytes + answer.body == PAGE
    assert answer.request_bytes.startswith(
        b"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: Mozilla/5.0 (compatible;"
        b" crawlkit/" % server.port
    )
    assert b"Accept-Encoding: gzip, deflate, br, zstd\r\n" in answer.request_bytes
    assert answer.wall_end >= answer.wall_start and answer.mono_end >= answer.mono_start
    assert answer.connect_ms is not None and answer.first_byte_ms >= answer.connect_ms


def test_content_coding_is_never_decoded():
    with raw_server(ok("Content-Encoding: gzip", "Content-Length: 3", body=b"raw")) as server:
        (answer,) = run(config(server.port), get(f"http://127.0.0.1:{server.port}/"))
    assert answer.body == b"raw"


def test_credentials_of_a_url_are_neither_sent_nor_kept():
    with raw_server(PAGE) as server:
        url = f"http://user:secret@127.0.0.1:{server.port}/"
        (answer,) = run(config(server.port), get(url))
        (refused,) = run(config(), get(url))
        (invalid,) = run(config(), FetchRequest("http://user:secret@exa mple/", []))
        assert b"secret" not in server.requests[0] and b"Authorization" not in server.requests[0]
    assert refused.error is Reason.PORT_FORBIDDEN and invalid.error is Reason.URL_INVALID
    assert "secret" not in repr((answer, refused, invalid))


def test_header_values_cannot_smuggle():
    with raw_server(PAGE) as server:
        run(
            config(server.port),
            get(
                f"http://127.0.0.1:{server.port}/",
                **{"X-A": "1\r\nX-B: 2", "X-C\n": "3", "X-D": "4"},
            ),
        )
        assert (
            b"X-B" not in server.requests[0]
            and b"X-C" not in server.requests[0]
            and b"X-D: 4\r\n" in server.requests[0]
        )


def test_conditional_and_from_headers():
    headers = dict(
        request_headers(
            Agent(**{"from": "ops@site.example"}),
            "http://site.example:81/x",
            '"e"',
            "Fri, 01 Mar 2024 10:00:00 GMT",
        )
    )
    assert headers["Host"] == "site.example:81" and headers["From"] == "ops@site.example"
    assert (
        headers["If-None-Match"] == '"e"'
        and headers["If-Modified-Since"] == "Fri, 01 Mar 2024 10:00:00 GMT"
    )


# -- persistence


def test_one_connection_serves_the_turn():
    with raw_server(page) as server:
        answers = run(
            config(server.port), *[get(f"http://127.0.0.1:{server.port}/{n}") for n in range(5)]
        )
        assert [a.status for a in answers] == [200] * 5 and server.connections == 1
    assert [a.connect_ms is None for a in answers] == [False, True, True, True, True]


def test_no_reuse_when_the_server_says_close():
    with raw_server(
        lambda c, r, n: c.sendall(PAGE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    ) as server:
        run(config(server.port), *[get(f"http://127.0.0.1:{server.port}/")] * 3)
        assert server.connections == 3


@pytest.mark.parametrize("pause", [0.0, 0.1])
def test_a_connection_closed_while_idle_is_replaced(pause):
    with raw_server(PAGE) as server:
        answers = run(
            config(server.port), *[get(f"http://127.0.0.1:{server.port}/")] * 4, pause=pause
        )
        assert [a.body for a in answers] == [b"hello"] * 4
        assert server.connections == 4


def test_closed_at_the_second_request_before_any_byte_is_sent_again_once():
    def serve(connection, request, n):
        if n:
            return False
        connection.sendall(PAGE)

    with raw_server(serve) as server:
        answers = run(config(server.port), *[get(f"http://127.0.0.1:{server.port}/")] * 3)
        assert [a.error for a in answers] == [None] * 3
        assert len(server.requests) == 5  # the second and the third were sent twice


def test_a_fresh_connection_closed_before_any_byte_is_not_tried_again():
    with raw_server(lambda c, r, n: False) as server:
        (answer,) = run(config(server.port), get(f"http://127.0.0.1:{server.port}/"))
        assert (answer.error, answer.status, server.connections) == (Reason.DISCONNECTED, None, 1)


def test_half_an_answer_on_a_reused_connection_is_not_tried_again():
    def serve(connection, request, n):
        connection.sendall(PAGE if not n else b"HTTP/1.1 200 O")
        return not n

    with raw_server(serve) as server:
        answers = run(config(server.port), *[get(f"http://127.0.0.1:{server.port}/")] * 2)
        assert [a.error for a in answers] == [None, Reason.DISCONNECTED] and len(
            server.requests
        ) == 2


def test_bytes_that_nobody_asked_for_end_the_connection():
    def serve(connection, request, n):
        connection.sendall(PAGE)
        time.sleep(0.05)
        connection.sendall(b"HTTP/1.1 408 Request Timeout\r\n\r\n")

    with raw_server(serve) as server:
        answers = run(
            config(server.port), *[get(f"http://127.0.0.1:{server.port}/")] * 2, pause=0.15
        )
        assert [a.status for a in answers] == [200, 200] and server.connections == 2


def test_idle_connections_are_bounded():
    async def many():
        with raw_server(page) as server:
            engine = Engine(config(connect_to={"*.test": f"127.0.0.1:{server.port}"}, in_flight=5))
            answers = await asyncio.gather(
                *(engine.fetch(get(f"http://h{n}.test/")) for n in range(50))
            )
            idle = len(engine._idle)
            await engine.close()
            return answers, idle

    answers, idle = asyncio.run(many())
    assert {a.status for a in answers} == {200} and idle <= 5


# -- deadlines


@pytest.mark.parametrize(
    "sent, error, truncated",
    [
        (b"", Reason.TIMEOUT, None),
        (b"HTTP/1.1 200 OK\r\nX: ", Reason.READ_STALLED, None),
        (ok("Content-Length: 9", body=b"half"), None, "time"),
        (ok("Content-Length: 9"), None, "time"),
        (ok("Transfer-Encoding: chunked", body=b"5\r\nha"), None, "time"),
        (ok(body=b"half"), None, "time"),
    ],
)
def test_silence(sent, error, truncated):
    def serve(connection, request, n):
        connection.sendall(sent)
        time.sleep(9)
        return False

    with raw_server(serve) as server:
        started = time.monotonic()
        (answer,) = run(
            config(server.port), get(f"http://127.0.0.1:{server.port}/"), deadline_s=0.3
        )
        assert (answer.error, answer.truncated) == (error, truncated)
        assert 0.25 < time.monotonic() - started < 8


@pytest.mark.parametrize("head", [b"", ok()])
def test_a_drip_does_not_move_the_deadline(head):
    def serve(connection, request, n):
        connection.sendall(head or b"HTTP/1.1 200 OK\r\nX: ")
        for _ in range(600):
            connection.sendall(b"a")
            time.sleep(0.02)
        return False

    with raw_server(serve) as server:
        started = time.monotonic()
        (answer,) = run(
            config(server.port), get(f"http://127.0.0.1:{server.port}/"), deadline_s=0.3
        )
        assert (answer.error is Reason.READ_STALLED) if not head else answer.truncated == "time"
        assert time.monotonic() - started < 8


def test_a_slow_body_is_cut_before_the_deadline(monkeypatch):
    monkeypatch.setattr(exchange, "RATE_WINDOW_S", 0.2)

    def serve(connection, request, n):
        connection.sendall(ok(body=b"start"))
        for _ in range(60):
            connection.sendall(b"a")
            time.sleep(0.05)

    with raw_server(serve) as server:
        (answer,) = run(
            config(server.port, min_bytes_per_s=1000), get(f"http://127.0.0.1:{server.port}/")
        )
        assert (
            answer.truncated == "time"
            and "slow_body" in answer.notes
            and answer.body.startswith(b"start")
        )
        assert answer.mono_end - answer.mono_start < 2


@pytest.mark.parametrize("body_bytes", [5, 3_000_000])
def test_a_starved_loop_loses_no_page(body_bytes):
    """The loop's thread is blocked across the deadline while the server has long answered: the page
    is read, not given up.
    """
    body = b"x" * body_bytes

    def serve(connection, request, n):
        time.sleep(0.05)
        connection.sendall(ok(f"Content-Length: {body_bytes}", body=body))

    async def starve():
        engine = Engine(config(server.port))
        fetches = [
            asyncio.ensure_future(
                engine.fetch(get(f"http://127.0.0.1:{server.port}/{n}"), deadline_s=0.4)
            )
            for n in range(3)
        ]
        await asyncio.sleep(0.02)
        for _ in range(12):  # one turn of the loop, one piece of 256 KiB, after each block
            time.sleep(0.1)  # noqa: ASYNC251 (that is the point)
            await asyncio.sleep(0)
        answers = await asyncio.gather(*fetches)
        await engine.close()
        return answers

    with raw_server(serve) as server:
        for answer in asyncio.run(starve()):
            assert (answer.error, answer.truncated, len(answer.body)) == (None, None, body_bytes)


def test_a_starved_loop_still_ends_silence():
    async def starve():
        engine = Engine(config(server.port))
        fetch = asyncio.ensure_future(
            engine.fetch(get(f"http://127.0.0.1:{server.port}/"), deadline_s=0.3)
        )
        await asyncio.sleep(0.02)
        time.sleep(0.8)  # noqa: ASYNC251
        return await asyncio.wait_for(fetch, 3)

    with raw_server(lambda c, r, n: time.sleep(3)) as server:
        assert asyncio.run(starve()).error is Reason.TIMEOUT


def test_tls_handshake_has_the_connect_deadline():
    silent = socket.create_server(("127.0.0.1", 0))
    port = silent.getsockname()[1]
    (answer,) = run(config(port, connect_timeout_s=0.3), get(f"https://127.0.0.1:{port}/"))
    assert answer.error is Reason.CONNECT_TIMEOUT and answer.mono_end - answer.mono_start < 2
    silent.close()


# -- limits


def test_an_endless_body_is_cut_and_the_connection_dropped():
    dropped = threading.Event()

    def serve(connection, request, n):
        connection.sendall(ok("Content-Type: text/html"))
        try:
            while True:
                connection.sendall(b"x" * 65536)
        except OSError:
            dropped.set()
            return False

    with raw_server(serve) as server:
        (answer,) = run(
            config(server.port, max_body_bytes=300_000), get(f"http://127.0.0.1:{server.port}/")
        )
        assert (len(answer.body), answer.truncated) == (300_000, "length")
        assert dropped.wait(5)


def test_bodies_beyond_the_budget_wait_their_turn_and_a_silent_one_makes_way():
    """Budget 1 MiB: one that stalls after 1.5 MiB holds up none of those that come after it."""
    big = b"x" * 2_000_000

    def serve(connection, request, n):
        if b"Host: stalls" in request:
            connection.sendall(ok("Content-Length: 2000000", body=big[:1_500_000]))
            time.sleep(4)
        else:
            time.sleep(0.2)
            connection.sendall(ok("Content-Length: 2000000", body=big))
        return False

    async def all_of_them(server):
        engine = Engine(
            config(connect_to={"*.test": f"127.0.0.1:{server.port}"}, body_memory_bytes=1 << 20)
        )
        answers = await asyncio.gather(
            *(
                engine.fetch(get(f"http://{host}.test/"), deadline_s=2.5)
                for host in ("stalls", *(f"h{n}" for n in range(6)))
            )
        )
        held = engine.budget.used
        await engine.close()
        return answers, held

    with raw_server(serve) as server:
        (stalled, *others), held = asyncio.run(all_of_them(server))
    assert (len(stalled.body), stalled.truncated) == (1_500_000, "time")
    assert [(len(a.body), a.truncated) for a in others] == [(2_000_000, None)] * 6
    assert max(a.mono_end - a.mono_start for a in others) < 2.4 and held == 0


@pytest.mark.parametrize(
    "status, kind, allowed, refused",
    [
        (200, "image/png", None, True),
        (200, "Application/Octet-Stream", None, True),
        (200, "TEXT/HTML; charset=x", None, False),
        (200, None, None, False),
        (200, "image/png", (), False),
        (200, "image/png", ("image/",), False),
        (404, "image/png", None, False),
        (301, "image/png", None, False),
        (
            200,
            "image/png\r\nContent-Type: text/html",
            None,
            False,
        ),  # the last valid one counts, as where the body is read
        (200, "text/html\r\nContent-Type: image/png", None, True),
    ],
)
def test_content_type_decides_before_the_body(status, kind, allowed, refused):
    def serve(connection, request, n):
        connection.sendall(
            b"HTTP/1.1 %d X\r\n" % status
            + (f"Content-Type: {kind}\r\n" if kind else "").encode()
            + b"Content-Length: 8\r\n\r\n"
        )
        time.sleep(0.1)
        connection.sendall(b"the body")

    with raw_server(serve) as server:
        (answer,) = run(
            config(server.port), get(f"http://127.0.0.1:{server.port}/"), content_types=allowed
        )
    assert (answer.error is Reason.CONTENT_TYPE) is refused
    assert (
        answer.header_list("content-type") == (kind and kind.replace("\r\nContent-Type:", ","))
        and answer.header_bytes
    )
    assert answer.body == (b"" if refused else b"the body") and (answer.status is None) is refused


# -- what is refused, what fails


class Names:
    def __init__(self, *ips: str) -> None:
        self.ips = ips

    async def resolve(self, name: str) -> Lookup:
        return Lookup(self.ips, 60.0)


def test_nothing_is_sent_to_a_forbidden_address():
    with raw_server(page) as server:
        port = server.port
        for fetch, url, names, reason in [
            (Fetch(ports=(port,)), f"http://127.0.0.1:{port}/", None, Reason.ADDRESS_FORBIDDEN),
            (Fetch(ports=(port,)), f"http://localhost:{port}/", None, Reason.ADDRESS_FORBIDDEN),
            (
                config(port),
                f"http://site.example:{port}/",
                Names("127.0.0.1", "10.0.0.1"),
                Reason.ADDRESS_FORBIDDEN,
            ),
            (config(), f"http://127.0.0.1:{port}/", None, Reason.PORT_FORBIDDEN),
            (config(port), f"ftp://127.0.0.1:{port}/", None, Reason.URL_SCHEME),
        ]:
            request = FetchRequest(url, [])
            (answer,) = run(fetch, request, resolver=names)
            assert (answer.error, answer.status) == (reason, None)
        assert server.connections == 0


def test_refused_connection_and_the_next_address():
    with raw_server(PAGE) as server:
        url = f"http://site.example:{server.port}/"
        (answer,) = run(
            config(server.port), get(url), resolver=Names("127.0.0.2", "127.0.0.3", "127.0.0.1")
        )
        assert (answer.status, answer.ip) == (200, "127.0.0.1")
        (answer,) = run(config(server.port), get(url), resolver=Names("127.0.0.2"))
        assert (answer.error, answer.ip) == (Reason.CONNECT_REFUSED, None)


def test_names_that_do_not_resolve():
    class Nothing:
        async def resolve(self, name: str) -> Lookup:
            raise Refused(Reason.DNS_NXDOMAIN, "no such name")

    (answer,) = run(config(), get("http://missing.example/"), resolver=Nothing())
    assert answer.error is Reason.DNS_NXDOMAIN


def test_last_known_address_is_noted():
    class Stale:
        async def resolve(self, name: str) -> Lookup:
            return Lookup(("127.0.0.1",), 60.0, stale=True)

    with raw_server(PAGE) as server:
        (answer,) = run(
            config(server.port), get(f"http://site.example:{server.port}/"), resolver=Stale()
        )
        assert answer.status == 200 and answer.notes == ["dns_stale"]


@pytest.mark.parametrize("reset", [True, False])
def test_reset_inside_the_body_keeps_what_came(reset):
    def serve(connection, request, n):
        connection.sendall(ok("Content-Length: 100", body=b"half"))
        time.sleep(0.1)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()
        return False

    with raw_server(serve) as server:
        (answer,) = run(config(server.port), get(f"http://127.0.0.1:{server.port}/"))
        assert (answer.status, answer.body, answer.truncated) == (200, b"half", "disconnect")


@pytest.mark.parametrize(
    "fault, reason",
    [
        (None, None),
        ("expired", Reason.TLS_CERT_EXPIRED),
        ("self_signed", Reason.TLS_CERT_INVALID),
        ("untrusted", Reason.TLS_CERT_INVALID),
        ("not_yet_valid", Reason.TLS_CERT_INVALID),
        ("wrong_name", Reason.TLS_NAME_MISMATCH),
        ("no_tls", Reason.TLS_FAIL),
        ("no_san", Reason.TLS_NAME_MISMATCH),
        ("missing_intermediate", Reason.TLS_CERT_INVALID),
        ("old_tls_version", Reason.TLS_FAIL),
    ],
)
def test_tls_failures_are_named(fault, reason):
    with tls_server(fault, "site.example") as port:
        fetch = config(connect_to={"site.example": f"127.0.0.1:{port}"})
        (answer,) = run(fetch, get("https://site.example/"), tls=trusting_context())
        assert (answer.error, answer.body) == (reason, b"" if reason else b"hello")


def cut_off_server(raw: bytes, alert: bool):
    """A TLS server that ends after `raw`: with its closing alert or without."""
    context, listener = (
        _server_context(None, "site.example"),
        socket.create_server(("127.0.0.1", 0)),
    )

    def serve() -> None:
        client, _ = listener.accept()
        stream = context.wrap_socket(client, server_side=True)
        stream.recv(65536)
        stream.sendall(raw)
        if alert:
            with contextlib.suppress(OSError):
                stream.unwrap()
        else:
            socket.socket(fileno=stream.detach()).close()
        listener.close()

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


@pytest.mark.parametrize(
    "raw, alert, truncated",
    [
        (ok(body=b"half"), True, None),
        (ok(body=b"half"), False, "disconnect"),
        (ok("Content-Length: 4", body=b"half"), False, None),
        (ok("Content-Length: 9", body=b"half"), False, "disconnect"),
    ],
)
def test_a_body_that_only_the_close_ends_needs_tls_closing_alert(raw, alert, truncated):
    """RFC 9112 9.8: without it the end may be an attacker's."""
    fetch = config(connect_to={"site.example": f"127.0.0.1:{cut_off_server(raw, alert)}"})
    (answer,) = run(fetch, get("https://site.example/"), tls=trusting_context())
    assert (answer.error, answer.body, answer.truncated) == (None, b"half", truncated)


def test_unverified_hosts_are_flagged():
    with tls_server("self_signed", "site.example") as port:
        fetch = config(
            connect_to={"site.example": f"127.0.0.1:{port}"}, unverified_tls_hosts=("site.example",)
        )
        (answer,) = run(fetch, get("https://site.example/"), tls=trusting_context())
        assert (answer.body, answer.notes) == (b"hello", ["tls_unverified"])


# -- cookies


@pytest.mark.parametrize("engine", [Engine, RequestsEngine])
def test_cookies_only_for_the_hosts_named(engine):
    def serve(connection, request, n):
        connection.sendall(ok("Set-Cookie: id=secret; Path=/", "Content-Length: 0"))

    async def visit(server):
        to = {"*.example": f"127.0.0.1:{server.port}"}
        e = engine(config(connect_to=to, cookie_hosts=("a.example",)))
        answers = [
            await e.fetch(get(f"http://{host}/"))
            for host in ("a.example", "a.example", "b.example", "b.example")
        ]
        await e.close()
        return answers

    with raw_server(serve) as server:
        answers = asyncio.run(visit(server))
        assert [b"Cookie: id=secret\r\n" in r for r in server.requests] == [
            False,
            True,
            False,
            False,
        ]
    assert ["session" in a.notes for a in answers] == [True, True, False, False]


# -- ending


def test_cancelling_a_fetch_leaves_nothing_behind():
    async def cancel():
        engine = Engine(config(server.port))
        fetch = asyncio.ensure_future(engine.fetch(get(f"http://127.0.0.1:{server.port}/")))
        await asyncio.sleep(0.05)
        fetch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetch
        assert not engine._exchanges and not engine._idle
        await engine.close()

    with raw_server(lambda c, r, n: time.sleep(1)) as server:
        asyncio.run(cancel())


def test_closing_the_engine_ends_requests_under_way():
    async def close():
        engine = Engine(config(server.port))
        fetch = asyncio.ensure_future(engine.fetch(get(f"http://127.0.0.1:{server.port}/")))
        await asyncio.sleep(0.05)
        await engine.close()
        return await asyncio.wait_for(fetch, 2)

    with raw_server(lambda c, r, n: time.sleep(1)) as server:
        assert asyncio.run(close()).error is Reason.DISCONNECTED


def test_many_hosts_at_once():
    async def many(server: RawServer):
        engine = Engine(config(connect_to={"*.test": f"127.0.0.1:{server.port}"}))
        started = time.monotonic()
        answers = await asyncio.gather(
            *(engine.fetch(get(f"http://h{n}.test/")) for n in range(150))
        )
        await engine.close()
        return answers, time.monotonic() - started

    def serve(connection, request, n):
        time.sleep(0.2)
        connection.sendall(PAGE)

    with raw_server(serve) as server:
        answers, seconds = asyncio.run(many(server))
        assert {a.status for a in answers} == {
            200
        } and seconds < 15  # one after another they would take 30
        assert sorted(r.split(b"\r\n")[1] for r in server.requests) == sorted(
            b"Host: h%d.test" % n for n in range(150)
        )
