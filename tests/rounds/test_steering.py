"""Operators' orders and alerts in whole rounds; the web's own log is the judge (M4, M6,
D11, I3).
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from crawlkit.adapters.store.pending_commands import read_pending
from crawlkit.config import parse_config
from crawlkit.control.commands import run_command
from crawlkit.crawl.state import Crawl, CrawlError
from crawlkit.local.web_server import Reply, Request, WebServer
from crawlkit.report.alerts import evaluate, load_rules
from crawlkit.round.drive import run_round
from crawlkit.round.job import Job

from tests.engines import run_on

pytestmark = [pytest.mark.rounds]
on = run_on("local")
ROOT = Path(__file__).resolve().parents[2]
EPOCH = 1_767_225_600.0  # 2026-01-01
HOSTS = {
    "a.example": "127.82.0.1",
    "long.example": "127.82.0.2",
    "b.example": "127.82.0.3",
    "busy.example": "127.82.0.4",
}
HTML = [("Content-Type", "text/html")]
TWIN = (
    b"<title>twin</title><p>These are the very same words on two pages of one host, word for word"
    b" and line for line.</p>"
)
LONG = [f"http://long.example/{n}" for n in range(60)]
# every rule whose cause can be brought about here fires by these
LOW = {
    "alerts.target_pages_per_s": 1e6,
    "alerts.min_answers": 1,
    "alerts.frontier_max": 0,
    "alerts.frontier_min": 64,  # as many as the seeds
    "alerts.error_share": 0,
    "alerts.error_share_critical": 0,
    "alerts.throttled_share": 0,
    "alerts.duplicate_share": 0,
    "alerts.latency_ms": 0.001,
    "alerts.growth_bytes_per_day": 1,
    "alerts.workers": 100,
}


class Steered:
    """A crawl in this process, its web, and what is ordered when a page is asked for."""

    def __init__(self, folder, on):
        self.folder, self.on, self.log = folder, on, []
        self.orders = {}  # url -> what to do when it is asked for
        self.server = WebServer(HOSTS.values(), self.answer)

    def answer(self, request: Request) -> Reply:
        url = f"http://{request.host}{request.target}"
        self.log.append((time.monotonic(), url))
        if (act := self.orders.pop(url, None)) is not None:
            act()
        if request.target == "/robots.txt" or url == "http://a.example/dead":
            return Reply(404, HTML, b"<title>none</title>")
        if request.host == "busy.example":
            return Reply(503, HTML, b"<title>busy</title>")
        return Reply(
            200,
            HTML,
            (
                TWIN
                if "twin" in url
                else f"<title>{url}</title><p>The text of {url} stands here.</p>".encode()
            ),
        )

    def job(self, **changes) -> Job:
        keys = {
            "fetch.connect_to": {h: f"{a}:{self.server.port}" for h, a in HOSTS.items()},
            "fetch.allow_private": ["127.0.0.0/8"],
            "fetch.ports": [80, 443, self.server.port],
            "politeness.delay_s": 0.4,
            "politeness.domain_delay_s": 0.02,
            "politeness.ip_delay_s": 0.02,
            "frontier.explore": 0,
            "frontier.guess_sitemap": False,
            "lease.ttl_s": 45,
            "lease.renew_s": 1,
            "lease.margin_s": 1,
            **changes,
        }
        cfg = parse_config("", "test", tuple(f"{k}={json.dumps(v)}" for k, v in keys.items()))
        return Job(Crawl(self.folder, cfg), quick=True, **self.on)

    def give(self, verb: str, **given) -> dict:
        return run_command(self.job().crawl, verb, given, actor="test")

    def asked(self, text: str, since: int = 0) -> list[str]:
        return [u for _, u in self.log[since:] if text in u and not u.endswith("robots.txt")]


@pytest.fixture(scope="module")
def seen(on, tmp_path_factory):
    world = Steered(tmp_path_factory.mktemp("steering") / "crawl", on)
    out = SimpleNamespace(world=world)
    with world.server:
        _first_round(world, out)
        _second_round(world, out)
        _third_round(world, out)
    return out


def _first_round(world, out) -> None:
    """All hosts; long.example is opted out while it is being fetched; alerts at low thresholds."""
    job = world.job(**LOW)
    round_ = job.crawl.open_round(EPOCH)
    job.run(
        "inject",
        round_,
        force=True,
        lines=[
            "http://a.example/dead",
            "http://a.example/twin-1",
            "http://a.example/twin-2",
            "http://busy.example/",
            *LONG,
        ],
    )

    def opt_out() -> None:
        out.opted_out = time.monotonic()
        world.give("complain", host="long.example", reason="please stop")

    world.orders[LONG[0]] = world.orders["http://long.example/1"] = opt_out
    run_round(job, round_)
    out.first = job.crawl.mark(round_, "report")
    out.report = json.loads(Path(job.crawl.report, "report.json").read_text())
    out.prom = Path(job.crawl.report, "metrics.prom").read_text()
    out.values = {
        r["name"]: r["value"]
        for r in job.tables.rows("metrics", ["name", "labels", "value"], {"round_id": [round_.id]})
        if r["labels"] == "{}"
    }


def _second_round(world, out) -> None:
    """A budget of one URL although others are due: the operator's is taken, although it is dead."""
    out.forced_from = len(world.log)
    world.give(
        "seeds",
        urls=["http://b.example/0", "http://b.example/1", "http://b.example/2"],
        priority="critical",
    )
    world.give("recrawl", urls=["http://a.example/dead"])
    job = world.job(**{"round.max_urls": 1})
    run_round(job, job.crawl.open_round(EPOCH + 600))
    out.forced_to = len(world.log)
    out.waiting = read_pending(job.crawl.objects)
    out.hosts = {r["host"]: r for r in job.tables.rows("hostdb", ["host", "blacklisted", "reason"])}


def _third_round(world, out) -> None:
    """Abandoned in the middle; the next round takes what it left, and also what is allowed
    again.
    """
    job = world.job()
    round_ = job.crawl.open_round(EPOCH + 1200)
    out.abandoned_from = len(world.log)
    world.orders["http://b.example/0"] = world.orders["http://b.example/1"] = world.orders[
        "http://b.example/2"
    ] = lambda: world.give("abandon", round_id=round_.id)
    with pytest.raises(CrawlError, match="was abandoned"):
        run_round(job, round_)
    out.abandoned, out.claims = job.crawl.round(round_.id), job.crawl.claims()
    world.orders.clear()
    world.give("unblock", host="long.example")
    out.after_from = len(world.log)
    job = world.job(**{"round.urls_per_host": 3})
    run_round(job, job.crawl.open_round(EPOCH + 1800))
    out.rows = {
        r["url"]: r for r in job.tables.rows("crawldb", ["url", "state", "last_status", "n_fetch"])
    }


def test_an_opt_out_stops_requests_within_15_s(seen):
    later = [
        t - seen.opted_out
        for t, u in seen.world.log[: seen.forced_from]
        if "long.example" in u and t > seen.opted_out
    ]
    assert len(seen.world.asked("long.example")) < len(LONG)
    assert max(later, default=0.0) < 15


def test_a_blocked_host_is_not_planned_and_its_row_says_why(seen):
    assert (
        seen.world.asked("long.example", seen.forced_from)[:1]
        == seen.world.asked("long.example", seen.after_from)[:1]
    )
    assert (seen.hosts["long.example"]["blacklisted"], seen.hosts["long.example"]["reason"]) == (
        True,
        "please stop",
    )


def test_a_host_that_is_allowed_again_is_fetched(seen):
    assert seen.world.asked("long.example", seen.after_from)


def test_a_forced_recrawl_is_fetched_in_the_next_round_before_all_else(seen):
    asked = [
        u
        for _, u in seen.world.log[seen.forced_from : seen.forced_to]
        if not u.endswith("robots.txt")
    ]
    assert asked == ["http://a.example/dead"]
    assert seen.waiting == []


def test_an_abandoned_round_gives_its_urls_back(seen):
    assert seen.abandoned.state == "abandoned"
    assert seen.claims == {}
    for n in range(3):
        url = f"http://b.example/{n}"
        assert seen.world.asked(url, seen.after_from) == [url]
        assert (seen.rows[url]["state"], seen.rows[url]["n_fetch"]) == ("fetched", 1)


def test_alerts_fire_at_the_end_of_a_round_by_lowered_thresholds(seen):
    fired = {a["name"] for a in seen.first["alerts"]}
    assert fired == {
        "rate_low",
        "rate_half",
        "frontier_large",
        "frontier_small",
        "errors_warn",
        "errors_critical",
        "throttled",
        "duplicates_high",
        "latency_high",
        "growth_high",
        "workers_few",
        "complaint",
    }
    assert {a["name"] for a in seen.report["alerts"] if a["state"] == "firing"} == fired
    assert 'alert="throttled",severity="page"} 1.0' in seen.prom
    # those without a cause in this web: names are not looked up, robots.txt is obeyed, and four
    # parts are not built yet
    assert {a["name"] for a in seen.report["alerts"] if a["state"] != "firing"} == {
        "dns_hits_low",
        "robots_violations",
        "render_queue",
        "filter_drift",
        "mirrors",
        "traps",
    }
    assert seen.values["round_robots_violations"] == 0
    assert seen.values["fetch_requests"] == len([1 for _ in seen.world.log[: seen.forced_from]])


def test_the_dashboard_shows_metrics_that_there_are(seen):
    dashboard = (ROOT / "conf" / "grafana-dashboard.json").read_text("utf-8")
    named = set(re.findall(r"\bcrawlkit_[a-z_0-9]+", dashboard)) - {
        n for n in re.findall(r"crawlkit_(?:fetch_dns|round_render)[a-z_0-9]+", dashboard)
    }  # no name is looked up in this web, and no page is rendered
    assert named <= set(re.findall(r"^(crawlkit_[a-z_0-9]+)", seen.prom, re.MULTILINE))


def test_alerts_are_silent_by_high_thresholds(seen):
    cfg = parse_config(
        "",
        "test",
        tuple(
            f"{k}={json.dumps(v)}"
            for k, v in {
                "alerts.target_pages_per_s": 0.001,
                "alerts.frontier_min": 0,
                "alerts.error_share": 1,
                "alerts.error_share_critical": 1,
                "alerts.throttled_share": 1,
                "alerts.duplicate_share": 1,
                "alerts.latency_ms": 1e6,
            }.items()
        ),
    ).alerts
    assert [a.name for a in evaluate(load_rules(), seen.values, cfg) if a.state == "firing"] == [
        "complaint"
    ]
