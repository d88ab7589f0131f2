"""Each guard, taken out in turn, is missed by a check: so no guard can go without a test that fails
(by patching; the product has no switch).
"""

from __future__ import annotations

import asyncio
import gzip
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import brotli
import pytest
from backports import zstd
from crawlkit.adapters.net import address_guard as guard, connection as exchange, engine as fetcher
from crawlkit.adapters.net.connect import Dialer
from crawlkit.adapters.net.dns import Lookup
from crawlkit.adapters.net.engine import Engine, request_headers
from crawlkit.adapters.store import flock, parts
from crawlkit.adapters.store.flock import FileLock, LockHeld
from crawlkit.adapters.store.lease import Lease, LeaseHeld, LeaseLost
from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.adapters.store.stop_list import ORDERS_KEY, read_orders
from crawlkit.adapters.warc import writer as warc
from crawlkit.config import Agent, Config, Fetch, Lease as LeaseConfig, Robots as RobotsConfig
from crawlkit.model import Answer, Capture, FetchRequest
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.http import content_coding, head as http1_head, redirects, response as http1
from crawlkit.rules.http.content_coding import decode_content
from crawlkit.rules.http.redirects import redirect
from crawlkit.rules.http.response import ResponseReader
from crawlkit.rules.politeness import host_state, pacer as pacing
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.rules.politeness.pacer import Pacer, Send
from crawlkit.rules.robots import fetching as robots_fetch
from crawlkit.rules.robots.fetching import RobotsFetch
from crawlkit.rules.warc import stored_http as warc_headers
from crawlkit.slot import inputs, recorder as slot_record, send
from crawlkit.slot.inputs import claim_attempt

from tests.rules.http.http_cases import chunked, ok
from tests.servers.raw_server import raw_server
from tests.servers.tls_server import tls_server, trusting_context

pytestmark = pytest.mark.waits

PAGE = ok("Content-Length: 5", body=b"hello")
LOCAL = {"allow_private": ("127.0.0.0/8",), "timeout_s": 5.0, "connect_timeout_s": 5.0}


def ask(
    url: str, fetch: Fetch, resolver: Any = None, tls: Any = None, headers: tuple = (), **kw: Any
) -> Answer:
    async def one() -> Answer:
        engine = Engine(fetch, resolver, tls=tls)
        try:
            return await asyncio.wait_for(
                engine.fetch(
                    FetchRequest(
                        url, [*request_headers(Agent(), "http://site.example/"), *headers]
                    ),
                    **kw,
                ),
                3,
            )
        finally:
            await engine.close()

    return asyncio.run(one())


def ask_raw(
    serve: Any,
    url: str = "http://127.0.0.1:{port}/",
    address: str = "127.0.0.1",
    resolver: Any = None,
    headers: tuple = (),
    deadline_s: float | None = None,
    max_body_bytes: int | None = None,
    **fetch: Any,
) -> tuple[Answer, Any]:
    with raw_server(serve, address) as server:
        settings = {**LOCAL, "ports": (80, server.port), **fetch}
        return (
            ask(
                url.format(port=server.port),
                Fetch(**settings),
                resolver,
                headers=headers,
                deadline_s=deadline_s,
                max_body_bytes=max_body_bytes,
            ),
            server,
        )


class Names:
    """Answers by turn; the last one stays."""

    def __init__(self, *turns: tuple[str, ...]) -> None:
        self.turns = list(turns)

    async def resolve(self, name: str) -> Lookup:
        return Lookup(self.turns.pop(0) if len(self.turns) > 1 else self.turns[0], 60.0)


def read(raw: bytes, limit: int = 10_000) -> ResponseReader:
    reader = ResponseReader("GET", limit)
    for at in range(0, len(raw), 4096):
        reader.feed(raw[at : at + 4096])
    reader.eof()
    return reader


# -- the checks: each passes on the product


def address_table(folder: Path) -> None:
    answer, server = ask_raw(PAGE, allow_private=())
    assert answer.error is Reason.ADDRESS_FORBIDDEN and server.connections == 0


def every_address_of_a_name(folder: Path) -> None:
    answer, server = ask_raw(
        PAGE, "http://site.example:{port}/", resolver=Names(("127.0.0.1", "10.0.0.1"))
    )
    assert answer.error is Reason.ADDRESS_FORBIDDEN and server.connections == 0


def address_pin(folder: Path) -> None:
    """The name points elsewhere after the check: the connection still goes to the address that was
    checked.
    """
    answer, server = ask_raw(
        PAGE, "http://site.example:{port}/", "127.0.0.3", Names(("127.0.0.2",), ("127.0.0.3",))
    )
    assert server.connections == 0 and answer.error is Reason.CONNECT_REFUSED


def port_list(folder: Path) -> None:
    answer, server = ask_raw(PAGE, ports=(80, 443))
    assert answer.error is Reason.PORT_FORBIDDEN and server.connections == 0


def deny_list(folder: Path) -> None:
    answer, server = ask_raw(PAGE, deny=("127.0.0.1/32",))
    assert answer.error is Reason.ADDRESS_FORBIDDEN and server.connections == 0


def certificate(folder: Path) -> None:
    with tls_server("self_signed", "site.example") as port:
        fetch = Fetch(**LOCAL, connect_to={"site.example": f"127.0.0.1:{port}"})
        assert (
            ask("https://site.example/", fetch, tls=trusting_context()).error
            is Reason.TLS_CERT_INVALID
        )


def header_smuggling(folder: Path) -> None:
    _, server = ask_raw(PAGE, headers=(("X-A", "1\r\nX-B: 2"),))
    assert b"X-B" not in server.requests[0]


def total_deadline(folder: Path) -> None:
    def serve(connection: socket.socket, request: bytes, n: int) -> bool:
        connection.sendall(ok("Content-Length: 100"))
        time.sleep(0.9)
        return False

    answer, _ = ask_raw(serve, deadline_s=0.15)
    assert answer.truncated == "time" and answer.mono_end - answer.mono_start < 0.6


def connect_deadline(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        answer = ask(
            f"https://127.0.0.1:{port}/",
            Fetch(**LOCAL | {"ports": (port,), "connect_timeout_s": 0.15, "timeout_s": 0.8}),
        )
    assert answer.error is Reason.CONNECT_TIMEOUT and answer.mono_end - answer.mono_start < 0.6


def minimum_rate(folder: Path) -> None:
    def serve(connection: socket.socket, request: bytes, n: int) -> bool:
        connection.sendall(ok())
        for _ in range(12):
            connection.sendall(b"a")
            time.sleep(0.05)
        return False

    answer, _ = ask_raw(serve, min_bytes_per_s=1000)
    assert answer.truncated == "time" and "slow_body" in answer.notes


def type_filter(folder: Path) -> None:
    answer, _ = ask_raw(ok("Content-Type: video/mp4", "Content-Length: 3", body=b"mp4"))
    assert answer.error is Reason.CONTENT_TYPE and answer.body == b""


def body_cap(folder: Path) -> None:
    reader = read(ok(body=b"x" * 50_000))
    assert (len(reader.body), reader.truncated) == (10_000, "length")


def length_cap(folder: Path) -> None:
    reader = read(ok("Content-Length: 50000", body=b"x" * 50_000))
    assert (len(reader.body), reader.truncated) == (10_000, "length")


def line_cap(folder: Path) -> None:
    assert read(ok("X: " + "a" * 9000)).error is Reason.HEADERS_TOO_LARGE


def field_cap(folder: Path) -> None:
    assert read(ok(*["X: 1"] * 101)).error is Reason.HEADERS_TOO_LARGE


def head_cap(folder: Path) -> None:
    assert read(ok(*["X: " + "a" * 8000] * 9)).error is Reason.HEADERS_TOO_LARGE


def interim_cap(folder: Path) -> None:
    assert read(b"HTTP/1.1 100 Continue\r\n\r\n" * 20 + PAGE).error is Reason.TOO_MANY_INTERIM


def blank_line_cap(folder: Path) -> None:
    assert read(b"\r\n" * 100 + PAGE).error is Reason.HTTP_MALFORMED


def chunk_line_cap(folder: Path) -> None:
    assert read(chunked(b"1;" + b"a" * 6000 + b"\r\nx\r\n0\r\n\r\n")).error is Reason.HTTP_MALFORMED


def chunk_count_cap(folder: Path) -> None:
    assert read(chunked(b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"), 1 << 20).truncated == "length"


def trailer_cap(folder: Path) -> None:
    assert "trailer_too_long" in read(chunked(b"0\r\n" + b"X: 1\r\n" * 15_000 + b"\r\n")).notes


def decoded_cap(folder: Path) -> None:
    decoded = decode_content(gzip.compress(bytes(1 << 20)), ["gzip"], 10_000)
    assert (len(decoded.body), decoded.truncated) == (10_000, "length")


def layer_cap(folder: Path) -> None:
    payload = b"x"
    for _ in range(8):
        payload = gzip.compress(payload)
    assert decode_content(payload, ["gzip"] * 8).raw_kept


def member_cap(folder: Path) -> None:
    assert decode_content(gzip.compress(b"", mtime=0) * 100_100, ["gzip"]).error


def window_cap(folder: Path) -> None:
    options = {
        zstd.CompressionParameter.window_log: 26,
        zstd.CompressionParameter.content_size_flag: 0,
        zstd.CompressionParameter.compression_level: 1,
    }
    stream = zstd.ZstdCompressor(options=options)
    assert decode_content(stream.compress(b"x" * 100_000) + stream.flush(), ["zstd"]).error


def brotli_cap(folder: Path) -> None:
    assert (
        len(decode_content(brotli.compress(bytes(1 << 20), quality=1), ["br"], 10_000).body)
        == 10_000
    )


def redirect_check(folder: Path) -> None:
    assert (
        redirect("http://site.example/", 302, "http://127.0.0.1/").reason
        is Reason.ADDRESS_FORBIDDEN
    )


def schemes(folder: Path) -> None:
    with pytest.raises(Refused):
        guard.parse_place("ftp://site.example/")


def robots_fail_closed(folder: Path) -> None:
    fetch = RobotsFetch("http://site.example/", RobotsConfig())
    fetch.receive(0.0, 503)
    assert fetch.verdict.match("crawlkit", "http://site.example/") is None


def robots_hop_refused(folder: Path) -> None:
    fetch = RobotsFetch("http://site.example/", RobotsConfig())
    fetch.receive(0.0, 302, [("Location", "http://169.254.169.254/")])
    assert (
        fetch.next_request() is None
        and fetch.verdict.match("crawlkit", "http://site.example/") is None
    )


def robots_cut_short(folder: Path) -> None:
    fetch = RobotsFetch("http://site.example/", RobotsConfig())
    fetch.receive(0.0, 200, (), b"User-agent: *\n", None, "disconnect")
    assert fetch.verdict.match("crawlkit", "http://site.example/") is None


def gap(folder: Path) -> None:
    assert sends_at(HostState("a.example", last_request_end=100.0), 100.5) is None


def retry_after(folder: Path) -> None:
    assert sends_at(HostState("a.example", retry_after_until=200.0), 150.0) is None


def one_in_flight(folder: Path) -> None:
    pacer = Pacer(Config(), 1e9)
    pacer.add_host("a.example", HostState("a.example"))
    pacer.set_address("a.example", None)
    for _ in range(2):
        pacer.push("a.example", Job())
    assert isinstance(pacer.next(0.0), Send) and pacer.next(1000.0) is None


def operators_bar(folder: Path) -> None:
    assert sends_at(HostState("a.example", barred=True), 0.0) is None


def lease_before_send(folder: Path) -> None:
    lease = Lease(LocalObjects(folder), "l.json", "me", LeaseConfig())
    sender = send.Sender(Config(), lease, NoNetwork(), None, None, None, None)
    with pytest.raises(LeaseLost):  # never acquired
        asyncio.run(sender.fetch("http://site.example/"))


def lease_before_write(folder: Path) -> None:
    objects, cfg = LocalObjects(folder / "o"), Config()
    lease = Lease(objects, "l.json", "me", cfg.lease)
    recorder = slot_record.Recorder(
        objects,
        LocalObjects(folder / "w"),
        folder / "s",
        cfg,
        slot_record.Attempt("r", 0, 1),
        {},
        lease.check,
    )
    recorder.add(
        Capture(
            "", "r", b"k" * 16, "http://site.example/", "page", "site.example", 0, 1, 0, "deferred"
        )
    )
    with pytest.raises(LeaseLost):
        recorder.flush()
        recorder.drain()
    recorder.close()
    assert objects.list("parts/") == []


def lease_is_exclusive(folder: Path) -> None:
    objects = LocalObjects(folder)
    with Lease(objects, "l.json", "a", LeaseConfig()) as first:
        first.acquire()
        second = Lease(objects, "l.json", "b", LeaseConfig())
        try:
            with pytest.raises(LeaseHeld):
                second.acquire()
        finally:
            second.release()


def compare_and_swap(folder: Path) -> None:
    objects = LocalObjects(folder)
    etag = objects.compare_and_swap("k", b"1", None)
    assert (
        objects.compare_and_swap("k", b"2", etag)
        and objects.compare_and_swap("k", b"3", etag) is None
        and objects.get("k")[0] == b"2"
    )


def conditional_put(folder: Path) -> None:
    objects = LocalObjects(folder)
    parts.write_part(objects, parts.part_key("r", 0, 1, 0), parts.encode_part([parts.Note("a")]))
    with pytest.raises(FileExistsError):
        parts.write_part(
            objects, parts.part_key("r", 0, 1, 0), parts.encode_part([parts.Note("b")])
        )


def conditional_put_of_files(folder: Path) -> None:
    objects, file = LocalObjects(folder / "o"), folder / "f"
    file.write_bytes(b"1")
    assert objects.put_file_if_absent("k", file) and not objects.put_file_if_absent("k", file)


def attempt_claim(folder: Path) -> None:
    objects = LocalObjects(folder)
    assert [claim_attempt(objects, "r", 0, h) for h in "ab"] == [1, 2]


def commit_lock(folder: Path) -> None:
    with FileLock(folder / "W", "the commit lock"), pytest.raises(LockHeld):
        FileLock(folder / "W", "the commit lock").acquire()


def commit_lock_check(folder: Path) -> None:
    with FileLock(folder / "W", "the commit lock") as lock:
        (folder / "W").unlink()
        with pytest.raises(LockHeld):
            lock.check()


def digest_check(folder: Path) -> None:
    writer = warc.WarcWriter(folder, ("c", "r", 0, 1), {}, roll_bytes=1 << 20, roll_s=60)
    writer.write(Answer("http://site.example/", 200, header_bytes=ok(), body=b"x" * 1000), "c-1")
    (open_file,) = folder.glob("*.open")
    writer._file.flush()
    data = bytearray(open_file.read_bytes())
    data[-20] ^= 0xFF
    open_file.write_bytes(data)
    with pytest.raises(Refused):
        writer.close()


def damaged_part(folder: Path) -> None:
    objects = LocalObjects(folder)
    parts.write_part(objects, parts.part_key("r", 0, 1, 0), parts.encode_part([parts.Note("a")]))
    key = parts.part_keys(objects, "parts/")[0]
    objects.put(key, objects.get(key)[0][:-9])
    with pytest.raises(parts.PartDamaged):
        parts.read_slot(objects, "r", 0)


def stop_list_unreadable(folder: Path) -> None:
    objects = LocalObjects(folder)
    objects.put(ORDERS_KEY, b"[broken")
    with pytest.raises(ValueError):
        read_orders(objects)


def credentials_of_requests(folder: Path) -> None:
    assert b"secret" not in warc.stored_request(
        b"GET / HTTP/1.1\r\nHost: a\r\nCookie: id=secret\r\nAuthorization: Basic secret\r\n\r\n"
    )


def credentials_of_urls(folder: Path) -> None:
    answer, server = ask_raw(PAGE, "http://user:secret@127.0.0.1:{port}/", ports=(80,))
    assert "secret" not in repr(answer)


class Job:
    is_page = True


class NoNetwork:
    budget = exchange.Budget()

    async def fetch(self, request: FetchRequest, **limits: Any) -> Answer:
        return Answer(request.url, 200)


def sends_at(state: HostState, now: float) -> Send | None:
    pacer = Pacer(Config(), 1e9)
    pacer.add_host(state.host, state)
    pacer.set_address(state.host, None)
    pacer.push(state.host, Job())
    step = pacer.next(now)
    return step if isinstance(step, Send) else None


# -- the mutations: (check, where, name, what stands there instead)


def _dial_by_name(real: Callable) -> Callable:
    async def dial(self: Dialer, place: Any, admitted: Any, ip: str) -> Any:
        (again,) = (await self.resolver.resolve(place.host)).addresses
        return await real(self, place, admitted, again)

    return dial


def _trusting(real: Callable) -> Callable:
    def init(self: Dialer, *args: Any, **kw: Any) -> None:
        real(self, *args, **kw)
        self._unverified = frozenset({"site.example"})

    return init


def _no_deadline(self: exchange.Exchange, now: float, min_rate: int) -> None:
    pass


def _first_address_only(real: Callable) -> Callable:
    async def admit(self: guard.Guard, place: Any) -> guard.Admitted:
        return guard.Admitted((await self._resolver.resolve(place.host)).addresses[:1], place.port)

    return admit


def _always(value: Any) -> Callable:
    return lambda *a, **kw: value


def _allowing(real: Callable) -> Callable:
    return lambda url, now, *a, **kw: robots_fetch.RobotsVerdict("allow_all", url, now, now + 1)


def _unconditional(self: LocalObjects, key: str, data: bytes, etag: str | None = None) -> Any:
    self.put(key, data)
    return "etag"


def _unconditional_file(self: LocalObjects, key: str, path: Path) -> bool:
    self.put(key, path.read_bytes())
    return True


def _untyped(real: Callable) -> Callable:
    return lambda self, url: guard.parse_place(url)


def _may_send_now(real: Callable) -> Callable:
    return lambda *a, **kw: host_state.Permit(-1.0, None)


def _parallel(real: Callable) -> Callable:
    def add_host(self: Pacer, domain: str, state: HostState) -> None:
        state.parallel = 9
        real(self, domain, state)

    return add_host


def _skip_bad_lines(real: Callable) -> Callable:
    def decode(line: bytes) -> Any:
        try:
            return real(line)
        except ValueError:
            return parts.Note("lost")

    return decode


HUGE = 1 << 40
MUTATIONS = [
    (address_table, guard, "address_refusal", lambda real: _always(None)),
    (
        deny_list,
        guard,
        "address_refusal",
        lambda real: lambda ip, allow=(), deny=(): real(ip, allow),
    ),
    (every_address_of_a_name, guard.Guard, "admit", _first_address_only),
    (address_pin, Dialer, "dial", _dial_by_name),
    (port_list, guard.Guard, "parse", _untyped),
    (certificate, Dialer, "__init__", _trusting),
    (header_smuggling, fetcher, "_BREAK", lambda real: re.compile(r"(?!)")),
    (total_deadline, exchange.Exchange, "check", lambda real: _no_deadline),
    (connect_deadline, exchange.Exchange, "connecting_until", lambda real: _always(None)),
    (
        minimum_rate,
        exchange.Exchange,
        "check",
        lambda real: lambda self, now, min_rate: real(self, now, 0),
    ),
    (type_filter, fetcher, "type_refused", lambda real: _always(False)),
    (
        body_cap,
        http1.ResponseReader,
        "__init__",
        lambda real: lambda self, method="GET", most=0: real(self, method, HUGE),
    ),
    (
        length_cap,
        http1.ResponseReader,
        "__init__",
        lambda real: lambda self, method="GET", most=0: real(self, method, HUGE),
    ),
    (line_cap, http1_head, "MAX_LINE_BYTES", lambda real: HUGE),
    (field_cap, http1_head, "MAX_HEADERS", lambda real: HUGE),
    (head_cap, http1, "MAX_HEAD_BYTES", lambda real: HUGE),
    (interim_cap, http1, "MAX_INTERIM", lambda real: HUGE),
    (blank_line_cap, http1, "MAX_BLANK_LINES", lambda real: HUGE),
    (chunk_line_cap, http1, "MAX_CHUNK_LINE_BYTES", lambda real: HUGE),
    (chunk_count_cap, http1, "FREE_CHUNKS", lambda real: HUGE),
    (trailer_cap, http1, "MAX_HEAD_BYTES", lambda real: HUGE),
    (
        decoded_cap,
        content_coding,
        "_layer",
        lambda real: lambda data, name, limit: real(data, name, HUGE),
    ),
    (
        brotli_cap,
        content_coding,
        "_layer",
        lambda real: lambda data, name, limit: real(data, name, HUGE),
    ),
    (layer_cap, content_coding, "MAX_LAYERS", lambda real: HUGE),
    (member_cap, content_coding, "MAX_MEMBERS", lambda real: HUGE),
    (window_cap, content_coding, "ZSTD_WINDOW_LOG", lambda real: 27),
    (redirect_check, redirects, "_host_refusal", lambda real: _always(None)),
    (schemes, guard, "_DEFAULT_PORTS", lambda real: {**real, "ftp": 21}),
    (robots_fail_closed, robots_fetch, "_defer", _allowing),
    (robots_hop_refused, redirects, "_host_refusal", lambda real: _always(None)),
    (
        robots_cut_short,
        robots_fetch,
        "verdict",
        lambda real: lambda u, n, c, s, h, b, e, t: real(u, n, c, s, h, b, e, None),
    ),
    (gap, pacing, "may_send", _may_send_now),
    (retry_after, pacing, "may_send", _may_send_now),
    (operators_bar, pacing, "may_send", _may_send_now),
    (one_in_flight, Pacer, "add_host", _parallel),
    (lease_before_send, Lease, "may_send", lambda real: _always(True)),
    (lease_before_write, Lease, "check", lambda real: _always(None)),
    (
        lease_is_exclusive,
        Lease,
        "_read",
        lambda real: (
            lambda self: (None, None) if not (found := real(self))[0] else (None, found[1])
        ),
    ),
    (compare_and_swap, LocalObjects, "compare_and_swap", lambda real: _unconditional),
    (conditional_put, LocalObjects, "put_if_absent", lambda real: _unconditional),
    (
        conditional_put_of_files,
        LocalObjects,
        "put_file_if_absent",
        lambda real: _unconditional_file,
    ),
    (attempt_claim, LocalObjects, "put_if_absent", lambda real: lambda self, key, data: True),
    (commit_lock, flock.fcntl, "flock", lambda real: _always(None)),
    (commit_lock_check, FileLock, "check", lambda real: _always(None)),
    (
        digest_check,
        warc,
        "check",
        lambda real: lambda file: {"ok": True, "records": 2, "error": None},
    ),
    (damaged_part, parts, "decode", _skip_bad_lines),
    (stop_list_unreadable, inputs.json, "loads", lambda real: _always({})),
    (credentials_of_requests, warc_headers, "_SECRETS", lambda real: re.compile(rb"(?!)")),
    (credentials_of_urls, fetcher, "without_credentials", lambda real: lambda url: url),
]


@pytest.fixture(autouse=True)
def quick_and_fresh(monkeypatch):
    monkeypatch.setattr(exchange, "RATE_WINDOW_S", 0.15)
    yield
    guard.parse_place.cache_clear()


CHECKS = list(dict.fromkeys(check for check, *_ in MUTATIONS))


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_the_guard_holds(check, tmp_path):
    check(tmp_path)


@pytest.mark.parametrize(
    "check, where, name, instead", MUTATIONS, ids=[c.__name__ for c, *_ in MUTATIONS]
)
def test_its_removal_is_missed(check, where, name, instead, tmp_path, monkeypatch):
    monkeypatch.setattr(where, name, instead(getattr(where, name)))
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(tmp_path)
