"""What a host can do to a round, in whole rounds with real servers, proxies and a name server:
quotas, slow lane, breaker and its probe, blocks, a mobile variant, proxies, the cache of names, the
last-known address (REQUIREMENTS D5, D6, E1, E3, E7).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from types import SimpleNamespace

import pytest
from crawlkit.config import parse_config
from crawlkit.control.commands import run_command
from crawlkit.crawl.state import Crawl
from crawlkit.local.web_server import Reply, Request, WebServer
from crawlkit.observe.explain import explain
from crawlkit.round.drive import run_round
from crawlkit.round.job import Job

from tests.engines import run_on
from tests.servers.name_server import NameServer
from tests.servers.proxies import Proxy

pytestmark = [pytest.mark.rounds, pytest.mark.slow]
on = run_on("local")
EPOCH = 1_767_225_600.0  # 2026-01-01
HTML = [("Content-Type", "text/html")]
NAMES = ("quota", "cycle", "down", "slow", "wall", "denied", "phone", "plain")
HOSTS = {f"{name}.example": f"127.83.0.{n + 1}" for n, name in enumerate(NAMES)}
FAR = {
    "http-proxied.example": "127.83.1.1",
    "socks-proxied.example": "127.83.1.2",
}  # reached by proxies
NAMED = {f"named{n}.example": f"127.83.2.{n + 1}" for n in range(20)}  # looked up
DOWN_S = 30.0  # longer than a round: its rows are given back at once


class Edges:
    """A crawl, its web, its proxies and its name server."""

    def __init__(self, folder, on):
        self.folder, self.on, self.log = folder, on, []
        self.healed = False
        self.server = WebServer([*HOSTS.values(), *FAR.values(), *NAMED.values()], self.answer)
        self.names = NameServer(NAMED)
        far = {h: (a, self.server.port) for h, a in FAR.items()}
        self.proxies = {
            "http-proxied.example": Proxy("http", far),
            "socks-proxied.example": Proxy("socks", far),
        }

    def answer(self, request: Request) -> Reply:
        host, path = request.host.partition(":")[0], request.target
        self.log.append(
            SimpleNamespace(
                host=host,
                path=path,
                at=time.monotonic(),
                agent=request.headers.get("user-agent", ""),
            )
        )
        if path == "/robots.txt":
            return Reply(404, HTML, b"none")
        n = int(path.strip("/"))
        if host == "down.example" and not self.healed:
            return Reply(500, HTML, b"broken")
        if host == "slow.example" and n % 2:
            return Reply(502, HTML, b"sometimes broken")
        if host == "wall.example":
            return Reply(
                403, [*HTML, ("cf-mitigated", "challenge")], b"<title>Just a moment...</title>"
            )
        if host == "denied.example":
            return Reply(403, HTML, b"<title>go away</title>")
        return Reply(
            200,
            HTML,
            f"<title>{host} {n}</title><p>The page {n} of {host}, for"
            f" {'phones' if 'Mobile' in request.headers.get('user-agent', '') else 'desks'}"
            f".</p>".encode(),
        )

    def job(self, **changes) -> Job:
        keys = {
            "agent.info_url": "https://us.example/bot",
            "fetch.connect_to": {h: f"{a}:{self.server.port}" for h, a in HOSTS.items()},
            "fetch.allow_private": ["127.0.0.0/8"],
            "fetch.ports": [80, 443, self.server.port],
            "fetch.resolvers": [f"127.0.0.1:{self.names.port}"],
            "fetch.proxy": {
                h: f"{'http' if h.startswith('http') else 'socks5h'}://127.0.0.1:{p.port}"
                for h, p in self.proxies.items()
            },
            "politeness.delay_s": 0.02,
            "politeness.domain_delay_s": 0,
            "politeness.ip_delay_s": 0,
            "politeness.max_delay_s": 0.05,
            "politeness.max_backoff_s": 0.05,
            "agent.mobile_hosts": ["phone.example"],
            "breaker.server_errors": 5,
            "breaker.down_s": DOWN_S,
            "breaker.slow_min_requests": 10,
            "breaker.blocked_run": 10,
            "retry.delays_s": [1.0, 1.0, 1.0],
            "frontier.explore": 0,
            "frontier.guess_sitemap": False,
            "lease.ttl_s": 45,
            "lease.renew_s": 1,
            "lease.margin_s": 1,
            "fetch.slots": 2,
            "round.minutes": 0.3,
            **changes,
        }
        return Job(
            Crawl(
                self.folder,
                parse_config("", "test", tuple(f"{k}={json.dumps(v)}" for k, v in keys.items())),
            ),
            quick=True,
            **self.on,
        )

    def round(self, now: float, lines=(), **changes):
        """One round; what the web saw of it, its outcomes by host, and the hosts after it."""
        since, job = len(self.log), self.job(**changes)
        asked_names = len(self.names.questions)
        round_ = job.crawl.open_round(now)
        job.run("inject", round_, force=True, lines=lines)
        run_round(job, round_)
        left_out = job.crawl.mark(round_, "generate")["left_out"]
        outcomes: dict[str, Counter] = {}
        for r in job.tables.rows(
            "captures",
            ["host", "kind", "outcome", "reason", "is_outcome"],
            {"round_id": [round_.id]},
        ):
            if r["is_outcome"] and r["kind"] == "page":
                outcomes.setdefault(r["host"], Counter())[
                    r["outcome"] + (f" {r['reason']}" if r["reason"] else "")
                ] += 1
        seen = Counter(e.host for e in self.log[since:] if e.path != "/robots.txt")
        hosts = {
            r["host"]: r
            for r in job.tables.rows(
                "hostdb",
                ["host", "breaker", "slow_until", "flags", "last_ips", "quota_used", "cycle_used"],
            )
        }
        return SimpleNamespace(
            asked=seen,
            log=self.log[since:],
            outcomes=outcomes,
            left_out=left_out,
            hosts=hosts,
            names=self.names.questions[asked_names:],
            fetched=job.crawl.mark(round_, "fetch"),
            job=job,
        )


@pytest.fixture(scope="module")
def rounds(on, tmp_path_factory):
    """Four rounds: all hosts as they are; the broken one healed, in its time and after it; the name
    server gone.
    """
    world = Edges(tmp_path_factory.mktemp("edges") / "crawl", on)
    with world.server:
        port = world.server.port
        run_command(
            world.job().crawl, "host_set", {"host": "quota.example", "quota_max": 6}, actor="test"
        )
        run_command(
            world.job().crawl,
            "host_set",
            {"host": "cycle.example", "cycle_quota_max": 7},
            actor="test",
        )
        lines = [f"http://{h}/{n}" for h in (*HOSTS, *FAR) for n in range(20)] + [
            f"http://{h}:{port}/{n}" for h in NAMED for n in range(40)
        ]
        first = world.round(EPOCH, lines)
        world.healed = True
        run_command(
            world.job().crawl,
            "host_set",
            {"host": "cycle.example", "cycle_quota_max": 10},
            actor="test",
        )
        second = world.round(EPOCH + 3600)
        time.sleep(DOWN_S + 1)
        third = world.round(EPOCH + 7200)
        world.names.down = True
        fourth = world.round(
            EPOCH + 7300, [f"http://{h}:{port}/{n}" for h in NAMED for n in range(40, 43)]
        )
    world.names.close()
    for proxy in world.proxies.values():
        proxy.close()
    return SimpleNamespace(world=world, first=first, second=second, third=third, fourth=fourth)


def test_a_day_has_a_quota(rounds):
    assert rounds.first.outcomes["quota.example"] == {"fetched": 6}
    assert (
        rounds.first.asked["quota.example"]
        == 6
        == rounds.first.hosts["quota.example"]["quota_used"]
    )
    assert rounds.first.left_out["host_day_quota"] == 14
    assert rounds.second.asked["quota.example"] == 0, "the same day by the clock"
    assert rounds.second.left_out["host_day_quota"] == 14


def test_a_cycle_has_a_quota_and_an_operator_may_raise_it(rounds):
    assert rounds.first.outcomes["cycle.example"] == {"fetched": 7}
    assert (
        rounds.first.asked["cycle.example"]
        == 7
        == rounds.first.hosts["cycle.example"]["cycle_used"]
    )
    assert rounds.first.left_out["host_cycle_quota"] == 13
    assert rounds.second.asked["cycle.example"] == 3
    assert rounds.second.left_out["host_cycle_quota"] == 10
    assert rounds.third.asked["cycle.example"] == 0
    why = explain(rounds.world.job().crawl, "http://cycle.example/19")
    assert (why["host"]["pages_left"], why["host"]["quota"]) == (0, "host_cycle_quota") and any(
        "host_cycle_quota" in w for w in why["why"]
    )


def test_five_server_errors_take_a_host_down_and_one_probe_brings_it_back(rounds):
    assert rounds.first.asked["down.example"] == 5
    assert rounds.first.outcomes["down.example"]["deferred breaker_open"] == 15
    assert rounds.first.hosts["down.example"]["breaker"] == "open"
    back = [
        e
        for r in (rounds.second, rounds.third)
        for e in r.log
        if e.host == "down.example" and e.path != "/robots.txt"
    ]
    assert len(back) == 20, "all that was left is fetched once the probe was answered"
    assert rounds.third.hosts["down.example"]["breaker"] == "closed"


def test_many_failures_put_a_host_into_the_slow_lane(rounds):
    assert (
        rounds.first.hosts["slow.example"]["slow_until"] is not None
        or rounds.first.hosts["slow.example"]["breaker"] == "open"
    )
    assert (
        sum(n for o, n in rounds.first.outcomes["slow.example"].items() if o.startswith("deferred"))
        > 0
    )


@pytest.mark.parametrize(("host", "most"), [("wall.example", 1), ("denied.example", 10)])
def test_a_challenge_and_a_run_of_403_block_a_host(rounds, host, most):
    assert 0 < rounds.first.asked[host] <= most
    assert rounds.first.hosts[host]["flags"] == ["blocked"]
    assert rounds.first.outcomes[host]["deferred host_blocked"] == 20 - rounds.first.asked[host]


def test_a_mobile_variant_is_captured_by_an_agent_that_keeps_its_name(rounds):
    phones = [
        e.agent for e in rounds.first.log if e.host == "phone.example" and e.path != "/robots.txt"
    ]
    desks = [
        e.agent for e in rounds.first.log if e.host == "plain.example" and e.path != "/robots.txt"
    ]
    assert len(phones) == 20 and all("Mobile" in a and "crawlkit/" in a for a in phones)
    assert len(desks) == 20 and not any("Mobile" in a for a in desks)
    texts = {
        r["text"]
        for r in rounds.first.job.tables.rows("pages", ["host", "text"])
        if r["host"] == "phone.example"
    }
    assert len(texts) == 20 and all("for phones" in t for t in texts)


@pytest.mark.parametrize("host", FAR)
def test_hosts_behind_a_proxy_are_fetched_through_it_alone(rounds, host):
    assert rounds.first.outcomes[host] == {"fetched": 20}
    asked = rounds.world.proxies[host].asked
    assert asked and {h for h, _ in asked} == {host}


def test_names_are_looked_up_once(rounds):
    assert all(rounds.first.outcomes[h] == {"fetched": 40} for h in NAMED)
    asked = Counter(name for name, kind in rounds.first.names if kind == "A")
    assert asked == dict.fromkeys(
        [*NAMED, "http-proxied.example"], 1
    )  # a proxied name is looked up to be checked, unless by socks5h
    counts = rounds.first.fetched
    assert counts["dns_hits"] / counts["dns_lookups"] >= 0.95


def test_the_last_known_address_serves_when_no_name_server_answers(rounds):
    assert all(rounds.fourth.outcomes[h] == {"fetched": 3} for h in NAMED)
    assert rounds.fourth.hosts["named3.example"]["last_ips"] == [NAMED["named3.example"]]


MANY = {f"many{n}.example": f"127.84.{n // 250}.{n % 250 + 1}" for n in range(500)}


def test_twenty_thousand_urls_need_few_lookups(on, tmp_path):
    """REQUIREMENTS E3: a hit rate of 95% at least, counted by the crawler, and from the name
    server's own log.
    """
    names, world = NameServer(MANY), Edges.__new__(Edges)
    world.folder, world.on, world.log, world.names, world.proxies = (
        tmp_path / "crawl",
        on,
        [],
        names,
        {},
    )
    with WebServer(
        list(MANY.values()),
        lambda r: (
            Reply(404, HTML, b"none")
            if r.target == "/robots.txt"
            else Reply(200, HTML, f"<title>{r.host}{r.target}</title>".encode())
        ),
        0,
    ) as web:
        world.server = web
        got = world.round(
            EPOCH,
            [f"http://{h}:{web.port}/{n}" for h in MANY for n in range(40)],
            **{
                "round.max_urls": 30_000,
                "round.minutes": 5,
                "fetch.in_flight": 64,
                "fetch.connect_to": {},
                "frontier.buckets_per_round": 10**6,
                "politeness.ip_delay_s": 0.01,
            },
        )
    names.close()
    assert sum(n for h in MANY for n in got.outcomes[h].values()) == 20_000
    assert all(got.outcomes[h] == {"fetched": 40} for h in MANY)
    asked = Counter(name for name, kind in got.names if kind == "A")
    print(
        f"{got.fetched['dns_lookups']} lookups, {got.fetched['dns_hits']} of them hits; the name"
        f" server was asked {sum(asked.values())} times for {len(asked)} names"
    )
    assert set(asked) == set(MANY) and got.fetched["dns_lookups"] >= 20_000
    assert got.fetched["dns_hits"] / got.fetched["dns_lookups"] >= 0.95
    assert sum(asked.values()) / 20_000 <= 0.05
