"""A round in which all goes wrong: each alert rule fires by its real cause (M6), and the metrics of
a round say what happened (M5).
"""

from __future__ import annotations

import json
import time

import pytest
from crawlkit.local.web_server import Reply
from crawlkit.report.alerts import load_rules
from crawlkit.round.job import ROUND

from tests.engines import run_on
from tests.rounds.row_web import EPOCH, HTML, RowWeb, page
from tests.servers.name_server import NameServer

pytestmark = [pytest.mark.rounds]
on = run_on("local")
HOSTS = {"a.example": "127.89.0.1", "bad.example": "127.89.0.2", "busy.example": "127.89.0.3"}
NAMES = {f"n{n}.example": f"127.89.0.{n}" for n in (1, 2, 3)}  # told by a name server
SETTINGS = {
    "alerts__min_answers": 1,
    "alerts__target_pages_per_s": 1e6,
    "alerts__frontier_max": 0,
    "alerts__frontier_min": 20,
    "alerts__error_share": 0.05,
    "alerts__error_share_critical": 0.10,
    "alerts__dns_hit_share": 0.9,
    "alerts__duplicate_share": 0.3,
    "alerts__latency_ms": 50,
    "alerts__render_queue": 0,
    "alerts__growth_bytes_per_day": 1,
    "alerts__workers": 9,
    "render__enabled": True,
    "politeness__host_day_quota": 20,
    "agent__info_url": "https://us.example/bot",
}
WORDS = "Of these words there are as many as a text needs to be a copy of another one. " * 5
A = "http://a.example"


def slow(request) -> Reply:
    time.sleep(1.5)
    return page("a slow page")


def script(web: RowWeb) -> list[str]:
    """What the web answers; its seeds: 12 of a.example, 4 and 4 of the others, 3 by name server."""
    copy = Reply(200, HTML, f"<!doctype html><title>t</title><p>{WORDS}".encode())
    web.pages[f"{A}/robots.txt"] = Reply(
        200, [("Content-Type", "text/plain")], b"User-agent: *\nDisallow: /private"
    )
    web.pages |= {f"{A}/copy{n}": copy for n in range(8)}
    web.pages[f"{A}/slow"] = slow
    web.pages[f"{A}/links"] = page("links", "<a href=/new1>one</a><a href=/new2>two</a>")
    shell = b"<!doctype html><title>x</title><div id=root></div><script src=/app.js></script>"
    web.pages[f"{A}/app"] = Reply(200, HTML, shell)
    bad = [f"http://bad.example/{n}" for n in range(4)]
    busy = [f"http://busy.example/{n}" for n in range(4)]
    web.pages |= {u: Reply(500, HTML, b"broken") for u in bad}
    web.pages |= {u: Reply(429, HTML, b"later") for u in busy}
    named = [f"http://{h}:{web.server.port}/" for h in NAMES]
    own = [u for u in web.pages if u.startswith(A) and "robots" not in u]
    return [*own, f"{A}/private/x", *bad, *busy, *named]


@pytest.fixture(scope="module")
def told(on, tmp_path_factory):
    """Metrics and firing alerts of the round. A request that robots.txt forbids is made of one that
    it allowed: nothing else of ours sends one.
    """
    server = NameServer(NAMES)
    settings = SETTINGS | {"fetch__resolvers": [f"127.0.0.1:{server.port}"]}
    with RowWeb(tmp_path_factory.mktemp("bad") / "crawl", HOSTS, on, **settings) as web:
        seeds = script(web)
        job = web.job()
        round_ = job.crawl.open_round(EPOCH)
        job.run("inject", round_, lines=seeds)
        for stage in ROUND:
            if stage == "report":
                web.give("complain", host="bad.example", action="slow", reason="too fast")
                rows = job.tables.rows("robots", _ROBOTS, {"round_id": [round_.id]})
                forbidding = {"body": b"User-agent: *\nDisallow: /copy0"}
                with job.crawl.lock:
                    job.tables.replace(
                        "robots",
                        [r | (forbidding if r["origin"] == A else {}) for r in rows],
                        {"round_id": [round_.id]},
                    )
            job.run(stage, round_)
        report = json.loads((job.crawl.data / "report/report.json").read_text("utf-8"))
        metrics = job.tables.rows("metrics", ["name", "labels", "value"])
    server.close()
    values = {(m["name"], m["labels"]): m["value"] for m in metrics}
    return values, {a["name"]: a["state"] for a in report["alerts"]}


_ROBOTS = [
    *("origin", "host", "fetched_at", "status", "error", "final_url", "body", "expires"),
    *("capture_id", "sitemaps", "leads_to", "round_id"),
]


def test_each_rule_fires_by_its_cause(told):
    """But for those whose cause cannot arise yet, which say so."""
    states = told[1]
    unbuilt = {r.name for r in load_rules() if r.needs}
    assert unbuilt == {"filter_drift", "mirrors", "traps"}
    assert {n for n, s in states.items() if s == "no_cause"} == unbuilt
    assert {n for n, s in states.items() if s != "firing"} == unbuilt


def test_the_metrics_say_what_happened(told):
    values = told[0]

    def of(name: str, **labels: str) -> float:
        return values[name, json.dumps(labels)]

    assert of("round_robots_blocked") == 1
    assert of("round_new_urls") == 12 + 4 + 4 + 3 + 2  # seeds, and two that a page named
    # failed ones wait, 429s too, the new ones and the seeds of hosts that ask to wait
    assert of("queue_urls", **{"class": "1"}) == 8
    assert of("queue_urls", **{"class": "2"}) == 2
    buckets = [v for (n, _), v in values.items() if n == "queue_urls_of_bucket"]
    assert sum(buckets) == 10
    pages = 11  # of a.example; those by name are 404
    assert of("round_outlinks_per_page") == pytest.approx(2 / pages)
    assert 1 <= of("round_peak_pages_per_s") <= pages
    assert of("round_body_bytes") >= of("round_peak_bytes_per_s") > 8 * len(WORDS)
    slowest = of("round_answer_ms", quantile="0.99")
    assert of("round_answer_ms", quantile="0.5") < 1000 < slowest
    assert of("host_answer_ms", host="a.example", quantile="0.99") > 1000
    assert of("round_dns_ms", quantile="0.5") <= 30_000
    assert of("quota_used_share") == pytest.approx(pages / 20)
    assert (of("hosts_at_quota"), of("scheduler_lag_s")) == (0, 0)
    assert of("disk_free_bytes", place="warc") > 0
    assert of("stage_memory_bytes", stage="parse") > 10 << 20
