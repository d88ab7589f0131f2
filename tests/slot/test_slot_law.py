"""Laws of a slot over random webs, with an engine of given answers: every row gets one outcome,
whatever the hosts do.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

import pytest
from crawlkit.adapters.net.connection import Budget
from crawlkit.adapters.net.dns import Lookup
from crawlkit.config import Config
from crawlkit.model import Answer, Capture
from crawlkit.outcomes import Outcome, Reason, Refused
from crawlkit.rules.politeness.pacing_audit import Sent, violations
from crawlkit.rules.robots.parser import parse
from crawlkit.rules.url.canonical import host_of
from crawlkit.rules.url.domains import registered_domain
from crawlkit.slot.run import run_slot

from tests.slot.slotweb import kept, outcomes, plan, slot_io

pytestmark = pytest.mark.waits

ROBOTS = [
    b"",
    b"User-agent: *\nDisallow: /1\n",
    b"User-agent: *\nDisallow: /\n",
    b"User-agent: *\nCrawl-delay: 0.05\n",
]
DELAY_S = 0.01


class RandomWeb:
    """The engine of a web whose hosts answer as a seed says."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.hosts = [f"{c}.{d}.test" for d in "xy" for c in "abcd"]
        self.kind = {
            h: self.chance.choice(["well", "well", "well", "moody", "down", "busy", "nowhere"])
            for h in self.hosts
        }
        self.robots = {
            h: self.chance.choice([*ROBOTS, 404, 503, 429, None, "hop", "far"]) for h in self.hosts
        }
        self.ip = {h: f"8.8.8.{self.chance.randrange(1, 5)}" for h in self.hosts}
        self.open: Counter[str] = Counter()
        self.log: list[Sent] = []
        self.asked: list[str] = []
        self.resolver, self.budget = self, Budget()

    async def resolve(self, name: str) -> Lookup:
        await asyncio.sleep(self.chance.choice([0, 0.001]))
        if self.kind.get(name) == "nowhere":
            raise Refused(Reason.DNS_NXDOMAIN, name)
        return Lookup((self.ip[name],), 60.0)

    async def fetch(self, request, **limits) -> Answer:
        host, began, wall = host_of(request.url), time.monotonic(), time.time()
        if self.kind[host] == "nowhere":
            return Answer(request.url, error=Reason.DNS_NXDOMAIN, wall_start=wall, wall_end=wall)
        self.open[host] += 1
        assert self.open[host] == 1
        self.asked.append(request.url)
        await asyncio.sleep(self.chance.choice([0, 0, 0.002, 0.01]))
        self.open[host] -= 1
        end = time.monotonic()
        self.log.append(
            Sent(host, began, end, DELAY_S, registered_domain(host), self.ip[host], url=request.url)
        )
        status, headers, body = self._reply(host, request.url)
        error = None if status else Reason.DISCONNECTED
        return Answer(
            request.url,
            status,
            headers=headers,
            header_bytes=b"HTTP/1.1 %d x\r\n\r\n" % (status or 0),
            body=body,
            error=error,
            ip=self.ip[host],
            wall_start=wall,
            wall_end=wall + end - began,
            mono_start=began,
            mono_end=end,
        )

    def _reply(self, host: str, url: str):
        if url.endswith("/robots.txt"):
            robots = self.robots[host]
            if robots == "hop":
                return 301, [("Location", f"http://{self.hosts[0]}/r.txt")], b""
            if robots == "far":
                return 301, [("Location", "http://elsewhere.example/robots.txt")], b""
            return (200, [], robots) if isinstance(robots, bytes) else (robots, [], b"")
        mood = {
            "well": [200, 200, 404],
            "moody": [200, 500, None, 301],
            "down": [500, 503, None],
            "busy": [200, 429],
        }[self.kind[host]]
        status = self.chance.choice(mood)
        headers = {
            301: [("Location", "/1")],
            429: [("Retry-After", self.chance.choice(["1", "60", "soon"]))],
        }.get(status, [])
        return status, headers, b"body" if status == 200 else b""

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[] if n < 5 else pytest.mark.slow) for n in range(40)]
)
def test_every_row_gets_one_outcome_and_no_rule_is_broken(tmp_path, seed):
    web = RandomWeb(seed)
    io = slot_io(tmp_path, engine=lambda fetch: web, progress_s=0.1)
    items = plan([f"http://{h}/{i}" for i in range(8) for h in web.hosts])
    cfg = Config(
        politeness={
            "delay_s": DELAY_S,
            "domain_delay_s": 0.005,
            "ip_delay_s": 0.005,
            "max_backoff_s": 0.3,
        },
        round={"minutes": 2 / 60},
        fetch={"in_flight": web.chance.choice([2, 50])},
        breaker={"server_errors": 4},
        warc={"roll_bytes": 4096},
    )
    counts = run_slot(items, cfg, io, seed=seed)
    found = outcomes(io)
    rows = [c for c in kept(io, Capture) if c.is_outcome]
    assert {(c.url_key, c.kind) for c in rows} == {(i.url_key, i.kind) for i in items}
    assert len(rows) == len(items) == sum(counts.get(str(o), 0) for o in Outcome)
    assert all(
        c.reason in set(Reason)
        for c in rows
        if c.outcome in ("deferred", "failed", "refused", "http_error", "robots_denied")
    )
    assert violations(web.log, 0.005, 0.005) == []
    assert max(Counter(web.asked).values()) == 1 or "hop" in web.robots.values()
    for host in web.hosts:
        asked = [u for u in web.asked if host_of(u) == host and not u.endswith(".txt")]
        robots = web.robots[host]
        if isinstance(robots, bytes):
            assert all(parse(robots).match("crawlkit", u).allowed for u in asked)
        elif robots in (503, 429, None, "far"):
            assert asked == []
        if web.kind[host] == "nowhere":
            assert {found[f"http://{host}/{i}"].outcome for i in range(8)} <= {"failed"}
