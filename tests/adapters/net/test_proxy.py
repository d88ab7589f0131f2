"""Egress through real proxies on loopback (REQUIREMENTS E4; RFC 9110 9.3.6, RFC 9112 3.2.2, RFC
1928, RFC 1929, RFC 7686).
"""

from __future__ import annotations

import asyncio
import contextlib
import io as stdio
import socket

import pytest
from crawlkit.adapters.net.dns import Lookup
from crawlkit.adapters.net.engine import Engine, request_headers
from crawlkit.adapters.net.proxy import parse_proxy
from crawlkit.config import Agent, Config, ConfigError, Fetch, parse_config
from crawlkit.model import Answer, FetchRequest
from crawlkit.outcomes import Reason, Refused
from crawlkit.slot.run import run_slot
from warcio.archiveiterator import ArchiveIterator

from tests.rules.http.http_cases import ok
from tests.servers.proxies import proxy
from tests.servers.raw_server import raw_server
from tests.servers.tls_server import tls_server, trusting_context
from tests.slot.slotweb import kept, outcomes, plan, slot_io

pytestmark = pytest.mark.waits

PAGE = ok("Content-Type: text/html", "Content-Length: 5", body=b"hello")


class Names:
    """A resolver that knows these names only."""

    def __init__(self, **known: str) -> None:
        self.known = {name.replace("_", "."): ip for name, ip in known.items()}
        self.asked: list[str] = []

    async def resolve(self, name: str) -> Lookup:
        self.asked.append(name)
        if name == "localhost" or name.endswith(".localhost"):
            return Lookup(("127.0.0.1",))
        if name not in self.known:
            raise Refused(Reason.DNS_NXDOMAIN, name)
        return Lookup((self.known[name],))


def ask(fetch: Fetch, *urls: str, tls=None, names: Names | None = None) -> list[Answer]:
    async def all_of_them() -> list[Answer]:
        engine = Engine(fetch, names or Names(), tls=tls)
        try:
            return [
                await asyncio.wait_for(
                    engine.fetch(FetchRequest(u, request_headers(Agent(), u))), 10
                )
                for u in urls
            ]
        finally:
            await engine.close()

    return asyncio.run(all_of_them())


@pytest.mark.parametrize(
    "kind, scheme", [("http", "http"), ("socks5", "socks5"), ("socks5", "socks5h")]
)
@pytest.mark.parametrize("credentials", [None, ("us er", "p@ss:w")])
def test_http_pages(kind, scheme, credentials):
    user = "us%20er:p%40ss%3Aw@" if credentials else ""
    with (
        raw_server(PAGE) as server,
        proxy(kind, {"site.example": ("127.0.0.1", server.port)}, credentials) as p,
    ):
        fetch = Fetch(proxy={"*.example": f"{scheme}://{user}127.0.0.1:{p.port}"})
        answers = ask(fetch, "http://site.example/a?b", "http://site.example/c")
        assert [(a.error, a.status, a.body, a.ip) for a in answers] == [
            (None, 200, b"hello", None)
        ] * 2
        assert set(p.asked) == {("site.example", 80)}
        assert [r.split(b"\r\n")[:2] for r in server.requests] == [
            [b"GET /a?b HTTP/1.1", b"Host: site.example"],
            [b"GET /c HTTP/1.1", b"Host: site.example"],
        ]
    for a in answers:  # as the server sees it: nothing of the proxy's
        assert (
            a.request_bytes.startswith(b"GET /")
            and b"Proxy" not in a.request_bytes
            and b"http://" not in a.request_bytes.split(b"\r\n")[0]
        )


@pytest.mark.parametrize("kind, scheme", [("http", "http"), ("socks5", "socks5")])
def test_https_pages_are_verified_end_to_end(kind, scheme):
    with contextlib.ExitStack() as stack:
        ports = {
            h: stack.enter_context(tls_server(fault, h))
            for h, fault in (("site.example", None), ("bad.example", "self_signed"))
        }
        p = stack.enter_context(proxy(kind, {h: ("127.0.0.1", port) for h, port in ports.items()}))
        answers = ask(
            Fetch(proxy={"*": f"{scheme}://127.0.0.1:{p.port}"}),
            "https://site.example/",
            "https://bad.example/",
            tls=trusting_context(),
        )
        assert [(a.error, a.body) for a in answers] == [
            (None, b"hello"),
            (Reason.TLS_CERT_INVALID, b""),
        ]
        assert p.asked == [("site.example", 443), ("bad.example", 443)]


def test_the_longest_pattern_decides_and_an_empty_one_goes_direct():
    with (
        raw_server(PAGE) as server,
        proxy("http", {"a.example": ("127.0.0.1", server.port)}) as one,
        proxy("socks5", {"b.example": ("127.0.0.1", server.port)}) as two,
    ):
        fetch = Fetch(
            proxy={
                "*": f"http://127.0.0.1:{one.port}",
                "b.example": f"socks5://127.0.0.1:{two.port}",
                "c.example": "",
            },
            connect_to={"c.example": f"127.0.0.1:{server.port}"},
            allow_private=("127.0.0.1/32",),
        )
        answers = ask(fetch, "http://a.example/", "http://b.example/", "http://c.example/")
        assert [(a.status, a.ip) for a in answers] == [(200, None), (200, None), (200, "127.0.0.1")]
        assert (one.asked, two.asked) == ([("a.example", 80)], [("b.example", 80)])


@pytest.mark.parametrize("kind, scheme", [("http", "http"), ("socks5", "socks5")])
def test_a_proxy_that_fails_is_named(kind, scheme):
    with (
        proxy(kind, {}, ("user", "right")) as p,
        socket.create_server(("127.0.0.1", 0)) as silent,
        raw_server(lambda c, r, n: False) as closing,
    ):
        cases = {
            f"{scheme}://user:s3cr3t@127.0.0.1:{p.port}": Reason.PROXY_FAIL,
            f"{scheme}://user:right@127.0.0.1:{p.port}": (
                Reason.PROXY_FAIL
            ),  # it does not know the host
            f"{scheme}://127.0.0.1:{p.port}": Reason.PROXY_FAIL,
            f"{scheme}://127.0.0.1:1": Reason.PROXY_FAIL,
            f"{scheme}://127.0.0.1:{closing.port}": (
                Reason.PROXY_FAIL if kind == "http" else Reason.CONNECT_TIMEOUT
            ),
            f"{scheme}://127.0.0.1:{silent.getsockname()[1]}": Reason.CONNECT_TIMEOUT,
        }
        for setting, reason in cases.items():
            (answer,) = ask(
                Fetch(proxy={"*": setting}, timeout_s=2.0, connect_timeout_s=0.4),
                "https://site.example/",
            )
            assert (answer.error, answer.status) == (reason, None), setting
            assert "s3cr3t" not in repr(answer)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\x04\x5a",
        b"\x05",
        b"\x05\xff",
        b"\x05\x02",
        b"\x05\x00\x05\x00\x00\x09",
        b"\x05\x00\x05\x00\x00\x01\x7f",
        b"\x05\x00\x05\x63\x00\x01",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nsurplus",
        b"HTTP/1.1 200",
        b"nonsense\r\n\r\n",
        b"X" * 20_000,
    ],
)
def test_proxies_that_speak_nonsense(reply):
    """No answer of a proxy raises, hangs or reaches the parser of pages."""

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.settimeout(2)
            connection.recv(65536)
            connection.sendall(reply)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

    import threading

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(
            target=lambda: [serve(listener.accept()[0]) for _ in range(2)], daemon=True
        ).start()
        for scheme in ("http", "socks5"):
            (answer,) = ask(
                Fetch(
                    proxy={"*": f"{scheme}://127.0.0.1:{port}"},
                    timeout_s=3.0,
                    connect_timeout_s=2.0,
                ),
                "https://site.example/",
            )
            assert answer.error in (Reason.PROXY_FAIL, Reason.TLS_FAIL)


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_what_the_guard_still_refuses_behind_a_proxy(scheme):
    with proxy("socks5", {}) as p:
        fetch = Fetch(proxy={"*": f"{scheme}://127.0.0.1:{p.port}"})
        answers = ask(
            fetch,
            "http://127.0.0.1/",
            "http://0x7f.1/",
            "http://localhost/",
            "http://a.localhost/",
            "http://[::ffff:10.0.0.1]/",
            "http://169.254.169.254/",
            "http://site.example:22/",
        )
        assert [a.error for a in answers] == [Reason.ADDRESS_FORBIDDEN] * 6 + [
            Reason.PORT_FORBIDDEN
        ]
        assert p.asked == []


@pytest.mark.parametrize(
    "kind, scheme, refused",
    [("http", "http", True), ("socks5", "socks5", True), ("socks5", "socks5h", False)],
)
def test_names_are_checked_as_far_as_they_are_known_here(kind, scheme, refused):
    """A name that leads inside is refused behind a proxy too; socks5h keeps all look-ups away from
    here, by the operator's choice.
    """
    with (
        raw_server(PAGE) as server,
        proxy(
            kind,
            {
                h: ("127.0.0.1", server.port)
                for h in ("inside.example", "site.example", "unknown.example")
            },
        ) as p,
    ):
        names = Names(inside_example="10.0.0.1", site_example="93.184.216.34")
        answers = ask(
            Fetch(proxy={"*": f"{scheme}://127.0.0.1:{p.port}"}),
            "http://inside.example/",
            "http://site.example/",
            "http://unknown.example/",
            names=names,
        )
        assert [a.error for a in answers] == [
            Reason.ADDRESS_FORBIDDEN if refused else None,
            None,
            None,
        ]
        assert bool(names.asked) is refused and (("inside.example", 80) in p.asked) is not refused


def test_onion_names_need_a_proxy():
    names = Names()
    (answer,) = ask(Fetch(), "http://abcdefgh.onion/", names=names)
    assert answer.error is Reason.DNS_NXDOMAIN and names.asked == []
    with (
        raw_server(PAGE) as server,
        proxy("socks5", {"abcdefgh.onion": ("127.0.0.1", server.port)}) as p,
    ):
        for scheme in ("socks5", "socks5h"):
            (answer,) = ask(
                Fetch(proxy={"*.onion": f"{scheme}://127.0.0.1:{p.port}"}),
                "http://abcdefgh.onion/",
                names=names,
            )
            assert answer.status == 200 and names.asked == []


def test_credentials_from_environment_and_file(tmp_path, monkeypatch):
    monkeypatch.setenv("EGRESS", "socks5://u:p@proxy.example:1080")
    (tmp_path / "egress").write_text("http://v:q@[::1]:3128\n")
    found = [parse_proxy("env:EGRESS"), parse_proxy(f"file:{tmp_path}/egress")]
    assert [(p.scheme, p.host, p.port, p.user, p.password) for p in found] == [
        ("socks5", "proxy.example", 1080, "u", "p"),
        ("http", "::1", 3128, "v", "q"),
    ]
    assert "'q'" not in repr(found) and parse_proxy("") is None
    for bad in ("env:NO_SUCH_NAME", f"file:{tmp_path}/none", f"file:{tmp_path}"):
        with pytest.raises(ConfigError):
            parse_proxy(bad)


@pytest.mark.parametrize(
    "value",
    [
        "ftp://u:s3cr3t@h:1",
        "socks4://u:s3cr3t@h:1",
        "http://u:s3cr3t@h",
        "s3cr3t",
        "http://u:s3cr3t@h:1/path",
    ],
)
def test_settings_refused_without_showing_them(value):
    with pytest.raises(ConfigError) as caught:
        parse_config(f"fetch:\n  proxy:\n    '*': '{value}'\n")
    assert "s3cr3t" not in str(caught.value) and "proxy" in str(caught.value)


def test_a_slot_through_both_proxies(tmp_path):
    """In the whole slot: robots and pages go through the proxies; the WARC knows no address and no
    credentials.
    """
    with (
        raw_server(PAGE) as server,
        proxy("http", {"a.example": ("127.0.0.1", server.port)}, ("u", "s3cr3t")) as one,
        proxy("socks5", {"b.example": ("127.0.0.1", server.port)}) as two,
    ):
        cfg = Config.model_validate(
            {
                "fetch": {
                    "proxy": {
                        "a.example": f"http://u:s3cr3t@127.0.0.1:{one.port}",
                        "b.example": f"socks5h://127.0.0.1:{two.port}",
                    },
                    "timeout_s": 3.0,
                    "connect_timeout_s": 2.0,
                },
                "politeness": {"delay_s": 0.01},
                "lease": {"ttl_s": 6, "renew_s": 1, "margin_s": 0.2},
            }
        )
        names = Names()
        io = slot_io(tmp_path, engine=lambda fetch: Engine(fetch, names))
        run_slot(plan(["http://a.example/1", "http://b.example/1"]), cfg, io)
        told = outcomes(io)
        assert {u: (c.outcome, c.ip) for u, c in told.items()} == {
            u: ("fetched", None)
            for u in (
                "http://a.example/1",
                "http://b.example/1",
                "http://a.example/robots.txt",
                "http://b.example/robots.txt",
            )
        }
        assert (
            set(names.asked) == {"a.example"}
            and len(one.asked) == len(two.heads) + 2 == 2
            and two.asked
        )
    for key in io.warcs.list():
        data = io.warcs.get(key)[0]
        plain = b"".join(
            r.raw_stream.read() for r in ArchiveIterator(stdio.BytesIO(data), no_record_parse=True)
        )
        assert b"s3cr3t" not in plain and b"Proxy-" not in plain
        assert all(
            r.rec_headers.get_header("WARC-IP-Address") is None
            for r in ArchiveIterator(stdio.BytesIO(data))
        )
    assert kept(io, type(told["http://a.example/1"]))
