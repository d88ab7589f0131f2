"""Sessions, the mobile agent, look-ups of a slot; and planted secrets, of which nothing may be
found afterwards (REQUIREMENTS E3, E6, E7).
"""

from __future__ import annotations

import gzip
import json
import logging
from pathlib import Path

import pytest
from crawlkit.adapters.net.dns import Lookup, Resolver
from crawlkit.adapters.net.engine import Engine
from crawlkit.config import Agent, Config, ConfigError, parse_config
from crawlkit.local.web_server import Reply
from crawlkit.outcomes import Reason
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.rules.url.seeds import parse_seed
from crawlkit.slot.run import run_slot

from tests.rules.http.http_cases import ok
from tests.servers.proxies import proxy
from tests.servers.raw_server import raw_server
from tests.slot.slotweb import HTML, SlotWeb, outcomes, page, plan, slot_io

pytestmark = pytest.mark.waits
QUICK = {"politeness": {"delay_s": 0.02, "domain_delay_s": 0.0, "ip_delay_s": 0.0}}
SECRET = "s3cr3t-PLANTED"


def everything(folder: Path) -> bytes:
    """All bytes below a folder, unpacked."""
    found = b""
    for file in folder.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            found += gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return found


def test_planted_secrets_are_nowhere(tmp_path, monkeypatch, caplog):
    """In URLs, cookies of both kinds, session fields, proxy settings and the environment; against
    files, parts and log output.
    """
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SITE_TOKEN", SECRET + "-env")
    (tmp_path / "key").write_text(SECRET + "-file\n")
    sent: list[bytes] = []

    def serve(connection, request, n):
        sent.append(request)
        status = (
            b"HTTP/1.1 302 Found\r\nLocation: /next\r\n"
            if b" /hop " in request
            else b"HTTP/1.1 200 OK\r\n"
        )
        body = b"" if b" /hop " in request else b"page"
        connection.sendall(
            status + b"Content-Type: text/html\r\nSet-Cookie: id=%b-cookie; Path=/\r\nset-cookie :"
            b" b=%b-2\r\nContent-Length: %d\r\n\r\n"
            % (SECRET.encode(), SECRET.encode(), len(body))
            + body
        )

    with (
        raw_server(serve) as server,
        proxy("socks5", {"c.test": ("127.0.0.1", server.port)}, ("user", SECRET + "-proxy")) as p,
    ):
        cfg = Config.model_validate(
            {
                "fetch": {
                    "connect_to": {
                        "a.test": f"127.0.0.1:{server.port}",
                        "b.test": f"127.0.0.1:{server.port}",
                        "broken.test": "127.0.0.1:1",
                    },
                    "allow_private": ["127.0.0.0/8"],
                    "timeout_s": 2.0,
                    "connect_timeout_s": 1.0,
                    "cookie_hosts": ["a.test"],
                    "session_headers": {
                        "a.test": {
                            "Authorization": f"Bearer {SECRET}-inline",
                            "X-Api-Key": "env:SITE_TOKEN",
                        },
                        "*.test": {
                            "Cookie": f"login={SECRET}-login",
                            "X-Key": f"file:{tmp_path}/key",
                        },
                    },
                    "proxy": {"c.test": f"socks5://user:{SECRET}-proxy@127.0.0.1:{p.port}"},
                },
                "lease": {"ttl_s": 6.0, "renew_s": 1.0, "margin_s": 0.2},
                **QUICK,
            }
        )
        seeds = [
            parse_seed(f"http://user:{SECRET}@{host}/{path}").url
            for host in ("a.test", "b.test", "c.test", "broken.test")
            for path in ("1", "2", "hop")
        ]
        io = slot_io(tmp_path / "data")
        counts = run_slot(plan(seeds), cfg, io)
    told = outcomes(io)
    assert {c.outcome for u, c in told.items() if "broken" not in u} == {"fetched", "redirected"}
    wire = b"".join(sent)  # they did reach the wire, where they belong
    a = [r for r in sent if b"Host: a.test" in r]
    assert all(
        f"{SECRET}-inline".encode() in r and f"{SECRET}-env".encode() in r for r in a
    ) and any(b"id=%b-cookie" % SECRET.encode() in r for r in a)
    assert all(
        f"{SECRET}-login".encode() in r and f"{SECRET}-file".encode() in r
        for r in sent
        if b"Host: b.test" in r
    )
    assert (
        b"Authorization" not in b"".join(r for r in sent if b"Host: a.test" not in r)
        and b"user:" not in wire
    )
    stored = everything(tmp_path / "data")
    assert b"WARC-Target-URI: http://a.test/1" in stored
    for hay in (stored, caplog.text.encode(), json.dumps(counts).encode(), repr(told).encode()):
        assert SECRET.encode() not in hay


def test_a_session_may_not_set_framing_and_shows_no_value():
    for name in ("Host", "content-length", "Transfer-Encoding", "bad name", "X:"):
        with pytest.raises(ConfigError) as caught:
            parse_config(json.dumps({"fetch": {"session_headers": {"a.test": {name: SECRET}}}}))
        assert SECRET not in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        parse_config(json.dumps({"fetch": {"session_headers": {"a.test": [SECRET]}}}))
    assert SECRET not in str(caught.value)


def test_a_secret_that_cannot_be_read_ends_the_task_at_once(tmp_path):
    with SlotWeb({"a.test": {"/": page("x")}}) as web:
        with pytest.raises(ConfigError, match="NO_SUCH_NAME"):
            run_slot(
                plan(["http://a.test/"]),
                web.config(fetch={"session_headers": {"a.test": {"X": "env:NO_SUCH_NAME"}}}),
                slot_io(tmp_path),
            )
        assert web.log == []


def test_set_cookie_is_stored_only_if_asked_for(tmp_path):
    for keep in (False, True):
        with raw_server(ok("Set-Cookie: a=1", "Content-Length: 0")) as server:
            cfg = Config.model_validate(
                {
                    "fetch": {
                        "connect_to": {"*": f"127.0.0.1:{server.port}"},
                        "allow_private": ["127.0.0.0/8"],
                    },
                    "warc": {"set_cookie": keep},
                    **QUICK,
                }
            )
            run_slot(plan(["http://a.test/"]), cfg, slot_io(tmp_path / str(keep)))
        assert (b"Set-Cookie: a=1" in everything(tmp_path / str(keep) / "warc")) is keep


def test_mobile_agent_by_host(tmp_path):
    """Some hosts are asked as a phone, robots.txt too, with our token; which pages they give then
    is theirs to choose.
    """
    asked = []

    def answer(request):
        asked.append((request.host, request.headers["user-agent"]))
        return Reply(
            200, HTML, b"mobile" if "Mobile" in request.headers["user-agent"] else b"desktop"
        )

    hosts = ("m.test", "x.wild.test", "d.test")
    with SlotWeb(
        {h: {"/": answer, "/robots.txt": lambda r: (answer(r), Reply(404))[1]} for h in hosts}
    ) as web:
        io = slot_io(tmp_path)
        cfg = web.config(agent={"mobile_hosts": ["m.test", "*.wild.test"]}, **QUICK)
        run_slot(plan([f"http://{h}/" for h in hosts]), cfg, io)
    agents = {h: {a for host, a in asked if host == h} for h in hosts}
    assert all(len(a) == 1 for a in agents.values())
    assert ["Mobile" in next(iter(agents[h])) for h in hosts] == [True, True, False]
    assert all("(compatible; crawlkit/" in next(iter(a)) for a in agents.values())
    told = outcomes(io)
    assert told["http://m.test/"].body_bytes == 6 and told["http://d.test/"].body_bytes == 7


def test_the_mobile_agent_names_us():
    agent = Agent(info_url="https://crawler.example/info")
    assert (
        agent.mobile_user_agent.endswith(agent.user_agent.removeprefix("Mozilla/5.0 "))
        and "+https://crawler.example/info" in agent.mobile_user_agent
    )


def slot_with_names(
    tmp_path: Path, lookup: Lookup, urls: list[str], states=None
) -> tuple[dict, dict]:
    async def query(name: str) -> Lookup:
        return lookup

    with raw_server(
        lambda c, r, n: c.sendall(ok("Content-Length: 1", "Content-Type: text/html", body=b"x"))
    ) as server:
        port = server.port
        cfg = Config.model_validate(
            {
                "fetch": {"ports": [80, port], "allow_private": ["127.0.0.0/8"], "timeout_s": 3.0},
                "politeness": {"delay_s": 0.0, "domain_delay_s": 0.0, "ip_delay_s": 0.001},
                "lease": {"ttl_s": 10, "renew_s": 1, "margin_s": 1},
            }
        )
        io = slot_io(tmp_path, engine=lambda fetch: Engine(fetch, Resolver(query, hosts={})))
        counts = run_slot(plan([u.replace("PORT", str(port)) for u in urls], states), cfg, io)
    return counts, outcomes(io)


def test_hit_rate_of_the_name_cache_comes_back_with_the_counts(tmp_path):
    counts, told = slot_with_names(
        tmp_path,
        Lookup(("127.0.0.1",), 300.0),
        [f"http://h{h}.example:PORT/{n}" for h in range(5) for n in range(40)],
    )
    assert counts["fetched"] == 205 and counts["dns_queries"] == 5
    assert counts["dns_lookups"] >= 205 and counts["dns_hits"] / counts["dns_lookups"] >= 0.95


def test_the_last_known_address_when_all_resolvers_fail(tmp_path):
    """The addresses of an earlier round come with the host's state; the row says that they
    are old.
    """
    states = {"known.example": HostState("known.example", last_ips=["127.0.0.1"])}
    urls = ["http://known.example:PORT/", "http://new.example:PORT/"]
    counts, told = slot_with_names(tmp_path, Lookup(error=Reason.DNS_FAIL), urls, states)
    by_host = {c.host: c for c in told.values() if c.kind == "page"}
    assert (
        by_host["known.example"].outcome,
        by_host["known.example"].detail,
        by_host["known.example"].ip,
    ) == ("fetched", "dns_stale", "127.0.0.1")
    assert by_host["new.example"].outcome in ("deferred", "failed") and counts["dns_stale"] >= 1
