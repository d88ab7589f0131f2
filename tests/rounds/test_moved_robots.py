"""A robots.txt that redirects to another domain, in whole rounds: followed under that domain's own
pace, in one slot with it, and its rules bind the host that asks (RFC 9309 2.3.1.2).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crawlkit.crawl.state import Crawl
from crawlkit.local.web_server import Reply
from crawlkit.report.audit import audit
from crawlkit.round.drive import run_round
from crawlkit.round.job import Job
from crawlkit.rules.frontier.overlap import buckets_beside
from crawlkit.rules.url.domains import host_bucket

from tests.engines import run_on
from tests.frames import collect
from tests.slot.slotweb import SlotWeb, page, robots

pytestmark = [pytest.mark.rounds]
on = run_on("local")
EPOCH = 1_767_225_600.0  # 2026-01-01
DENY = "User-agent: *\nDisallow: /no\n"
BUCKETS = 64


def to(location: str, status: int = 301) -> Reply:
    return Reply(status, [("Location", location)])


class World:
    """A crawl of a SlotWeb with several slots and many buckets."""

    def __init__(self, web: SlotWeb, folder: Path, on: dict[str, Any], seeds: list[str]) -> None:
        self.web = web
        cfg = web.config(
            frontier={"guess_sitemap": False, "buckets": BUCKETS},
            fetch={"slots": 4},
            scope={"domains": sorted(web.sites)},
        )
        self.job = Job(Crawl(folder / "crawl", cfg), quick=True, **on)
        self.seeds, self.rounds = seeds, 0

    def round(self, lines: list[str] | None = None) -> str:
        round_ = self.job.crawl.open_round(EPOCH + 60 * self.rounds)
        self.rounds += 1
        seeds = self.seeds if self.rounds == 1 else lines
        if seeds:
            self.job.run("inject", round_, force=True, lines=seeds)
        run_round(self.job, round_)
        return round_.id

    def states(self) -> dict[str, str]:
        return {r.url: r.state for r in collect(self.job.read("crawldb"))}

    def checked(self) -> None:
        """No request too early by the server's clock, none against the rules by our own log."""
        assert self.web.violations() == []
        assert audit(self.job)["violations"] == 0


@contextlib.contextmanager
def world(
    folder: Path, on: dict[str, Any], sites: dict[str, dict[str, Any]], seeds: list[str]
) -> Iterator[World]:
    with SlotWeb(sites) as web:
        yield World(web, folder, on, seeds)


def test_the_rules_of_the_new_domain_bind_the_old_one(on, tmp_path):
    sites = {
        "old.example": {
            "/robots.txt": to("http://new.test/robots.txt"),
            "/": to("http://new.test/"),
            "/kept": page("kept"),
            "/no": page("forbidden"),
        },
        "new.test": {"/robots.txt": robots(DENY)},
    }
    seeds = [f"http://old.example/{path}" for path in ("", "kept", "no")]
    with world(tmp_path, on, sites, seeds) as w:
        w.round()
        assert w.web.asked("new.test") == []
        assert {c.reason for c in collect(w.job.read("captures")) if c.is_outcome} == {
            "robots_foreign_host"
        }
        w.round()
        assert w.states() | {"http://new.test/": ""} == {
            "http://old.example/": "redirected",
            "http://old.example/kept": "fetched",
            "http://old.example/no": "robots_skipped",
            "http://new.test/": "",
        }
        assert set(w.web.asked("new.test")) == {"/robots.txt"}
        assert "/no" not in w.web.asked("old.example")
        w.checked()
        hosts = {r.host: r for r in collect(w.job.read("hostdb"))}
        assert hosts["new.test"].last_request_at is not None
        assert hosts["new.test"].host_bucket == host_bucket("new.test", BUCKETS)


def test_a_chain_over_three_domains_takes_a_round_for_each(on, tmp_path):
    sites = {
        "a.example": {"/robots.txt": to("http://b.test/r", 302), "/1": page("one")},
        "b.test": {"/r": to("http://www.c.test/r", 307)},
        "www.c.test": {"/r": to("/r2", 308), "/r2": robots(DENY)},
    }
    with world(tmp_path, on, sites, ["http://a.example/1", "http://a.example/no"]) as w:
        for _ in range(3):
            w.round()
        assert w.states() == {
            "http://a.example/1": "fetched",
            "http://a.example/no": "robots_skipped",
        }
        newest = max(
            (r for r in collect(w.job.read("robots")) if r.origin == "http://a.example"),
            key=lambda r: r.fetched_at,
        )
        assert list(newest.leads_to) == ["http://b.test", "http://www.c.test"]
        assert newest.final_url == "http://www.c.test/r2"
        w.checked()


def test_many_that_lead_to_one_that_is_crawled_itself_share_its_slot(on, tmp_path):
    olds = [f"old{n}.example" for n in range(6)]
    sites = {h: {"/robots.txt": to("http://hub.test/robots.txt"), "/": page(h)} for h in olds}
    sites["hub.test"] = {"/robots.txt": robots("")} | {f"/{n}": page(f"{n}") for n in range(4)}
    seeds = [f"http://{h}/" for h in olds] + [f"http://hub.test/{n}" for n in range(4)]
    with world(tmp_path, on, sites, seeds) as w:
        w.round()
        second = w.round(["http://hub.test/9"])
        assert {s for u, s in w.states().items() if u != "http://hub.test/9"} == {"fetched"}
        listed = [r for r in collect(w.job.read("fetchlist")) if r.round_id == second]
        slot_of = {r.host: r.slot for r in listed}
        late = {h for h in olds if h in slot_of}
        assert late and {slot_of[h] for h in late} == {slot_of["hub.test"]}
        w.checked()


def test_a_target_of_another_round_is_waited_for(on, tmp_path):
    sites = {
        "old.example": {"/robots.txt": to("http://new.test/robots.txt"), "/": page("home")},
        "new.test": {"/robots.txt": robots("")},
    }
    with world(tmp_path, on, sites, ["http://old.example/"]) as w:
        w.round()
        other = w.job.crawl.open_round(EPOCH)
        with w.job.crawl.lock:
            w.job.crawl.claim(other, [host_bucket("new.test", BUCKETS)])
        w.round()
        assert w.web.asked("new.test") == []
        w.job.crawl.close(other)
        w.round()
        assert w.states() == {"http://old.example/": "fetched"}
        w.checked()


def test_who_leads_to_a_target_is_in_its_half_of_a_split_round(on, tmp_path, monkeypatch):
    """Else one of them would wait for as long as rounds are split."""
    monkeypatch.setattr(buckets_beside, "__defaults__", (1.0, 0.0))  # wherever hosts differ
    lead = {"/robots.txt": to("http://hub.test/robots.txt")}
    sites = {
        "long.example": lead | {f"/{n}": page(f"long {n}") for n in range(8)},
        "short.example": lead | {"/": page("short")},
        "hub.test": {"/robots.txt": robots(""), "/": page("hub")},
        "other.example": {"/": page("other")},
    }
    seeds = [f"http://{h}{path}" for h, site in sites.items() for path in site if "r" not in path]
    with world(tmp_path, on, sites, seeds) as w:
        w.round()
        first = w.job.crawl.open_round(EPOCH + 60)
        w.job.run("inject", first, force=True, lines=[f"http://{h}/new" for h in sites])
        left = w.job.run("generate", first, split=True)["left_beside"]
        second = w.job.crawl.open_round(EPOCH + 60)
        w.job.run("generate", second, due=left, beside=first.id)
        listed = [
            r for r in collect(w.job.read("fetchlist")) if r.round_id in (first.id, second.id)
        ]
        round_of = {r.host: r.round_id for r in listed}
        asked = [r.round_id for r in listed if r.url == "http://hub.test/robots.txt"]
        assert asked == [first.id]
        leading = {"long.example", "short.example", "hub.test"}
        assert {round_of[h] for h in leading} == {first.id}
        assert round_of["other.example"] == second.id
        for round_ in (first, second):
            run_round(w.job, round_)
        states = w.states()
        assert {states[u] for u in seeds} == {"fetched"}
        w.checked()
