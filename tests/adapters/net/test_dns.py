"""Right values: RFC 2308 5 and 7 (negative answers, failures), RFC 6761 6.3 (localhost);
requirement E3.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading

import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest
from crawlkit.adapters.net.dns import (
    FAIL_S,
    MAX_QUESTIONS,
    Lookup,
    NameServers,
    Resolver,
    make_resolver,
    read_hosts,
)
from crawlkit.outcomes import Reason, Refused

from tests.servers.tls_server import _server_context, trusting_context

pytestmark = pytest.mark.waits

IP = ("93.184.216.34",)


class World:
    """A resolver on a set clock over answers that the test sets."""

    def __init__(self, **kw) -> None:
        self.now, self.reply, self.asked = 0.0, Lookup(IP, 100.0), []
        self.resolver = Resolver(
            self._query, clock=lambda: self.now, hosts={"fixed.example": ("192.0.2.1",)}, **kw
        )

    async def _query(self, name: str) -> Lookup:
        self.asked.append((self.now, name))
        await asyncio.sleep(0)
        return self.reply

    def at(self, now: float, name: str = "site.example"):
        async def ask():
            try:
                return await self.resolver.resolve(name)
            except Refused as refusal:
                return refusal.reason
            finally:
                await asyncio.gather(*self.resolver._asking.values())

        self.now = now
        return asyncio.run(ask())

    @property
    def times(self) -> list[float]:
        return [t for t, _ in self.asked]


def test_lifetime_of_the_record():
    w = World()
    assert [w.at(t).addresses for t in (0, 99.9, 100, 150)] == [IP] * 4
    assert w.times == [0, 100]
    assert (w.resolver.counts["lookups"], w.resolver.counts["hits"]) == (4, 2)


def test_lifetime_zero_is_not_kept():
    w = World()
    w.reply = Lookup(IP, 0.0)
    w.at(0), w.at(0.1)
    assert w.times == [0, 0.1]


@pytest.mark.parametrize("ttl_s", [2.0**31, 2.0**32 - 1])
def test_a_lifetime_with_the_top_bit_set_is_zero(ttl_s):  # RFC 2181 8
    w = World()
    w.reply = Lookup(IP, ttl_s)
    w.at(0), w.at(0.1)
    assert w.times == [0, 0.1]


def test_a_day_at_most():
    w = World()
    w.reply = Lookup(IP, 10_000_000.0)
    w.at(0), w.at(86_399), w.at(86_401)
    assert w.times == [0, 86_401]


def test_negative_answers():
    w = World()
    w.reply = Lookup(error=Reason.DNS_NXDOMAIN, ttl_s=60.0)
    assert [w.at(t) for t in (0, 30, 61)] == [Reason.DNS_NXDOMAIN] * 3
    assert w.times == [0, 61]
    w.reply = Lookup(error=Reason.DNS_NXDOMAIN, ttl_s=1e9)
    w.at(200), w.at(200 + 3599), w.at(200 + 3601)
    assert w.times == [0, 61, 200, 3801]


def test_failures_are_kept_shortly():
    w = World()
    w.reply = Lookup(error=Reason.DNS_FAIL)
    assert [w.at(t) for t in (0, FAIL_S - 1, FAIL_S + 1)] == [Reason.DNS_FAIL] * 3
    assert w.times == [0, FAIL_S + 1]


def test_last_known_address_for_a_day():
    w = World()
    w.at(0)
    w.reply = Lookup(error=Reason.DNS_FAIL)
    assert not w.at(50).stale
    assert w.at(101) == Lookup(IP, 100.0, stale=True)
    w.at(102)
    assert w.times == [0, 101]
    assert w.at(101 + FAIL_S).addresses == IP
    assert w.at(100 + 86_401) == Reason.DNS_FAIL
    w.reply = Lookup(error=Reason.DNS_NXDOMAIN, ttl_s=5.0)
    w.at(0, "gone.example")
    assert w.at(1, "gone.example") == Reason.DNS_NXDOMAIN


def test_a_name_that_is_gone_has_no_last_known_address():
    w = World()
    w.at(0)
    w.reply = Lookup(error=Reason.DNS_NXDOMAIN, ttl_s=10.0)
    assert w.at(101) == Reason.DNS_NXDOMAIN


def test_hot_names_are_refreshed_before_they_expire():
    w = World()
    for t in (0, 10, 20, 30, 40, 89, 95, 96, 150):
        w.at(t)
    assert w.times == [0, 95]
    cold = World()
    cold.at(0), cold.at(95)
    assert cold.times == [0]


def test_a_failed_refresh_loses_nothing():
    w = World()
    for t in (0, 1, 2, 3, 4):
        w.at(t)
    w.reply = Lookup(error=Reason.DNS_FAIL)
    w.at(95)
    assert not w.at(99).stale
    assert w.at(95 + FAIL_S + 1).stale


def test_one_question_at_a_time():
    w = World()

    async def many():
        return await asyncio.gather(*(w.resolver.resolve("site.example") for _ in range(20)))

    assert len(asyncio.run(many())) == 20 and len(w.asked) == 1


def test_a_cancelled_caller_does_not_cancel_the_question():
    w = World()

    async def run():
        first = asyncio.ensure_future(w.resolver.resolve("site.example"))
        await asyncio.sleep(0)
        first.cancel()
        return await w.resolver.resolve("site.example")

    assert asyncio.run(run()).addresses == IP and len(w.asked) == 1


def test_many_names_at_once_and_the_size_limit():
    """A slot asks for all its hosts at its start: the servers see so many questions at once and no
    more.
    """
    open_now, most = 0, 0

    class Counting(World):
        async def _query(self, name):
            nonlocal open_now, most
            open_now, most = open_now + 1, max(most, open_now + 1)
            await asyncio.sleep(0.001)
            open_now -= 1
            return await super()._query(name)

    async def all_of_them():
        await asyncio.gather(*(w.resolver.resolve(f"h{n}.example") for n in range(300)))

    w = Counting(max_entries=10)
    asyncio.run(all_of_them())
    assert most == MAX_QUESTIONS
    assert len(w.asked) == 300 and len(w.resolver._entries) == 10
    w.at(0, "h299.example")
    assert len(w.asked) == 300


def test_fixed_names_never_ask():
    w = World()
    assert w.at(0, "fixed.example").addresses == ("192.0.2.1",)
    assert (
        w.at(0, "localhost").addresses == ("127.0.0.1", "::1") == w.at(0, "x.localhost.").addresses
    )
    assert w.asked == []


def test_hosts_file(tmp_path):
    file = tmp_path / "hosts"
    file.write_bytes(
        b"127.0.0.1 localhost # c\n192.0.2.1\tA.example b.example\n\n# x\n192.0.2.2"
        b" a.example\n\xff\xfe\n"
    )
    assert read_hosts(file) == {
        "localhost": ("127.0.0.1",),
        "a.example": ("192.0.2.1", "192.0.2.2"),
        "b.example": ("192.0.2.1",),
    }
    assert read_hosts(tmp_path / "none") == {}


class Server(asyncio.DatagramProtocol):
    """A name server on loopback that answers by a function."""

    def __init__(self, answer) -> None:
        self.answer, self.questions = answer, []

    def connection_made(self, transport) -> None:
        self.transport = transport

    def datagram_received(self, data, addr) -> None:
        query = dns.message.from_wire(data)
        self.questions.append(query.question[0].to_text())
        reply = self.answer(query)
        if reply is not None:
            self.transport.sendto(reply if isinstance(reply, bytes) else reply.to_wire(), addr)


def zone(*rows: tuple[str, int, str, str], rcode=dns.rcode.NOERROR, authority=()):
    def answer(query):
        reply = dns.message.make_response(query)
        reply.set_rcode(rcode)
        wanted = query.question[0]
        reply.answer = [
            s
            for s in (dns.rrset.from_text(n, t, "IN", k, v) for n, t, k, v in rows)
            if s.rdtype in (wanted.rdtype, 5)
        ]
        reply.authority = [dns.rrset.from_text(n, t, "IN", k, v) for n, t, k, v in authority]
        return reply

    return answer


SOA = ("example.", 900, "SOA", "ns.example. admin.example. 1 2 3 4 300")


def ask(answers, name="site.example", times=1, clock=None):
    async def run():
        loop, servers, transports = asyncio.get_running_loop(), [], []
        for answer in answers:
            transport, server = await loop.create_datagram_endpoint(
                lambda a=answer: Server(a), local_addr=("127.0.0.1", 0)
            )
            servers.append(server)
            transports.append(transport)
        where = [f"127.0.0.1:{t.get_extra_info('sockname')[1]}" for t in transports]
        query = NameServers(where, timeout_s=0.2, **({"clock": clock} if clock else {}))
        found = [await query(name) for _ in range(times)]
        for transport in transports:
            transport.close()
        return found, [len(s.questions) for s in servers]

    return asyncio.run(run())


@pytest.mark.parametrize(
    "answer, lookup",
    [
        (zone(("site.example.", 300, "A", "93.184.216.34")), Lookup(IP, 300.0)),
        (
            zone(
                ("site.example.", 60, "CNAME", "cdn.example."),
                ("cdn.example.", 300, "A", "93.184.216.34"),
            ),
            Lookup(IP, 60.0),
        ),
        (
            zone(("site.example.", 300, "AAAA", "2606:4700::1"), authority=[SOA]),
            Lookup(("2606:4700::1",), 300.0),
        ),
        (
            zone(rcode=dns.rcode.NXDOMAIN, authority=[SOA]),
            Lookup(error=Reason.DNS_NXDOMAIN, detail="no such name", ttl_s=300.0),
        ),
        (
            zone(authority=[SOA]),
            Lookup(error=Reason.DNS_NXDOMAIN, detail="no address", ttl_s=300.0),
        ),
    ],
)
def test_replies(answer, lookup):
    found, _ = ask([answer])
    assert found == [lookup]


@pytest.mark.parametrize(
    "bad",
    [
        zone(rcode=dns.rcode.SERVFAIL),
        zone(rcode=dns.rcode.REFUSED),
        lambda q: b"\0\1garbage",
        lambda q: None,
    ],
)
def test_a_failing_server_is_passed_by_and_backs_off(bad):
    now = [0.0]
    found, asked = ask(
        [bad, zone(("site.example.", 300, "A", "93.184.216.34"))], times=3, clock=lambda: now[0]
    )
    assert found == [Lookup(IP, 300.0)] * 3
    assert asked == [1, 3]


def test_all_servers_failing():
    found, _ = ask([zone(rcode=dns.rcode.SERVFAIL)] * 2)
    assert found[0].error is Reason.DNS_FAIL and "SERVFAIL" in found[0].detail


def test_no_ipv4_address_and_no_answer_about_ipv6_is_a_failure():
    empty, broken = zone(authority=[SOA]), zone(rcode=dns.rcode.SERVFAIL)
    found, _ = ask([lambda q: (empty if q.question[0].rdtype == dns.rdatatype.A else broken)(q)])
    assert found[0].error is Reason.DNS_FAIL


def test_alias_loop_and_odd_names():
    loop = zone(
        ("site.example.", 60, "CNAME", "b.example."), ("b.example.", 60, "CNAME", "site.example.")
    )
    found, _ = ask([loop])
    assert found[0].error is Reason.DNS_FAIL or found[0].error is Reason.DNS_NXDOMAIN
    for name in ("a..b", "x" * 70 + ".example", "a." * 200):
        assert ask([loop], name)[0][0].error is Reason.DNS_NXDOMAIN


def test_configured_servers_are_used():
    servers = make_resolver(
        ["127.0.0.1:5353", "[::1]:53", "192.0.2.53", "https://dns.example:8443/q"]
    )._query._servers
    assert [(s.name, s._port) for s in servers] == [
        ("127.0.0.1", 5353),
        ("::1", 53),
        ("192.0.2.53", 53),
        ("dns.example", 8443),
    ]


# -- DNS over HTTPS (RFC 8484)


def doh_server(reply, host="dns.example", keep=True):
    """A TLS server whose answer to each POST is `reply(query)`: bytes, or None for its close."""
    listener, context, posts = (
        socket.create_server(("127.0.0.1", 0)),
        _server_context(None, host),
        [],
    )

    def one(client):
        with contextlib.suppress(OSError), context.wrap_socket(client, server_side=True) as stream:
            while True:
                data = b""
                while b"\r\n\r\n" not in data:
                    got = stream.recv(65536)
                    if not got:
                        return
                    data += got
                head, _, body = data.partition(b"\r\n\r\n")
                while len(body) < int(re.search(rb"Content-Length: (\d+)", head)[1]):
                    body += stream.recv(65536)
                posts.append(head)
                answer = reply(dns.message.from_wire(body))
                if answer is None:
                    return
                stream.sendall(answer)
                if not keep:
                    return

    def run():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    return listener, posts


def doh_reply(query):
    reply = dns.message.make_response(query)
    kind = dns.rdatatype.to_text(query.question[0].rdtype)
    if kind == "A":
        reply.answer.append(dns.rrset.from_text(query.question[0].name, 300, "IN", "A", *IP))
    wire = reply.to_wire()
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/dns-message\r\nContent-Length: %d\r\n\r\n"
        % len(wire)
        + wire
    )


def ask_doh(listener, *names, host="dns.example"):
    async def all_of_them():
        servers = NameServers(
            [f"https://{host}:{listener.getsockname()[1]}/dns-query"],
            timeout_s=2.0,
            tls=trusting_context(),
        )
        try:
            return [await servers(name) for name in names]
        finally:
            await servers.close()

    with listener:
        return asyncio.run(all_of_them())


def _named(monkeypatch):
    """Connections go to loopback, certificates are checked for the name."""
    real = asyncio.open_connection
    monkeypatch.setattr(
        asyncio,
        "open_connection",
        lambda host, port, ssl: real("127.0.0.1", port, ssl=ssl, server_hostname="dns.example"),
    )


@pytest.mark.parametrize("keep", [True, False])
def test_https_server(monkeypatch, keep):
    _named(monkeypatch)
    listener, posts = doh_server(doh_reply, keep=keep)
    found = ask_doh(listener, "a.example", "b.example")
    assert [(f.addresses, f.ttl_s, f.error) for f in found] == [(IP, 300.0, None)] * 2
    assert (
        len(posts) == 2
        and posts[0].startswith(b"POST /dns-query HTTP/1.1\r\nHost: dns.example:")
        and b"Accept: application/dns-message" in posts[0]
    )


@pytest.mark.parametrize(
    "reply",
    [
        lambda q: None,
        lambda q: (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/dns-message\r\nContent-Length:"
            b" 3\r\n\r\nabc"
        ),
        lambda q: b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n",
        lambda q: b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi",
        lambda q: b"nonsense\r\n\r\n",
        lambda q: (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/dns-message\r\n\r\n" + b"x" * 70_000
        ),
        lambda q: doh_reply(dns.message.make_query("other.example", "A")),
    ],
)
def test_https_server_that_fails(monkeypatch, reply):
    _named(monkeypatch)
    (found,) = ask_doh(doh_server(reply)[0], "a.example")
    assert found.error is Reason.DNS_FAIL


def test_https_server_with_another_certificate(monkeypatch):
    _named(monkeypatch)
    (found,) = ask_doh(doh_server(doh_reply, "other.example")[0], "a.example")
    assert found.error is Reason.DNS_FAIL and "SSL" in found.detail


def test_remembered_addresses_serve_only_when_all_servers_fail():
    w = World()
    w.resolver.remember("site.example", ["192.0.2.9"])
    assert w.at(0).addresses == IP  # servers answer: their word
    w = World()
    w.resolver.remember("site.example", ["192.0.2.9"])
    w.reply = Lookup(error=Reason.DNS_FAIL)
    assert (w.at(0).addresses, w.at(1).stale) == (("192.0.2.9",), True)
    w = World()
    w.resolver.remember("site.example", ["192.0.2.9"])
    w.reply = Lookup(error=Reason.DNS_NXDOMAIN, ttl_s=60)
    assert w.at(0) is Reason.DNS_NXDOMAIN  # the name is gone: not stale but false
