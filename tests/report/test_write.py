"""The report stage over tables written by hand: few rows, none at all, rounds that have ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from crawlkit.crawl.state import Crawl
from crawlkit.report.history import read_history
from crawlkit.round.job import Job

from tests.control.smallcrawl import NOW, capture, fill, make_crawl, write

pytestmark = pytest.mark.waits


@pytest.fixture
def crawl(tmp_path) -> Crawl:
    return make_crawl(tmp_path)


def reported(crawl: Crawl, no: int = 1) -> dict:
    job = Job(crawl, engine="local")
    job.run("report", crawl.round(f"r{no:06d}"), force=True)
    job.stop()
    return json.loads(Path(crawl.report, "report.json").read_text("utf-8"))


def test_a_round_that_asked_nobody_has_a_report(crawl):
    told = reported(crawl)
    assert told["totals"][0]["pages fetched"] == 0 and told["totals"][0]["errors"] == 0
    assert "Nothing to draw yet" in Path(crawl.report, "index.html").read_text("utf-8")
    states = {a["name"]: a["state"] for a in told["alerts"]}
    assert "firing" not in {s for n, s in states.items() if n != "workers_few"}


def test_what_the_tables_hold_is_told(crawl):
    fill(crawl)
    slow = {"started": NOW + 10, "ended": NOW + 14.0}
    captures = [
        capture("http://a.test/", 1, warc_record_length=70, body_bytes=100),
        capture("http://a.test/dead", 2, outcome="http_error", status=404, reason="http_404"),
        capture("http://a.test/robots.txt", 3, kind="robots", outcome="http_error", status=404),
        capture("http://a.test/slow", 4, body_bytes=50, warc_record_length=30, **slow),
    ]
    write(crawl, "captures", captures, {"round_id": ["r000001"]})
    linked = {"round_id": "r000001", "n": 0, "from_url": "http://a.test/", "kind": "a"}
    linked |= {"capture_id": "r000001-0-1-1", "to_key": captures[1]["url_key"]}
    write(crawl, "links", [linked], {"round_id": ["r000001"]})
    told = reported(crawl)
    total = told["totals"][0]
    assert (total["pages fetched"], total["requests"], total["errors"]) == (2, 4, 1)
    assert (total["body bytes"], total["stored bytes"]) == (150, 100)
    # 0.5 s three times and 4 s once
    assert told["percentiles"] == [pytest.approx({"p50": 500.0, "p95": 3475.0, "p99": 3895.0})]
    assert {r["label"]: r["answers"] for r in told["latency"]} == {"300-1k": 3, "3k-10k": 1}
    (error,) = told["newest_errors"]
    assert (error["url"], error["reason"]) == ("http://a.test/dead", "http_404")
    assert error["referrer"] == "http://a.test/"
    (host,) = told["hosts"]
    assert (host["host"], host["pages"], host["errors"]) == ("a.test", 2, 1)
    # the second began 0.5 s after the first had ended
    assert told["audit"]["closest"]["gap_s"] == pytest.approx(0.5)


def test_rounds_that_have_ended_are_not_read_again(crawl):
    reported(crawl)
    second = crawl.open_round(NOW + 100)
    job = Job(crawl, engine="local")
    rounds, _ = read_history(job, second)
    assert [(r["round_id"], r["state"]) for r in rounds] == [("r000002", "closed")]
    job.stop()


def test_pages_that_compare_rounds_are_found(crawl):
    crawl.close(crawl.open_round(NOW + 1, "a-b"))
    Path(crawl.report).mkdir(exist_ok=True)
    for name in ("diff-r000001-a-b.html", "diff-r000001-gone.html", "other.html"):
        Path(crawl.report, name).write_text("x")
    assert reported(crawl)["diffs"] == [["r000001", "a-b", "diff-r000001-a-b.html"]]


def test_renders_are_measured_and_a_long_queue_fires(crawl):
    fill(crawl)
    hosts = [
        {"host": "a.test", "domain": "a.test", "host_bucket": 0, "renders": 9, "render_gains": 9},
        {"host": "vain.test", "domain": "vain.test", "host_bucket": 0, "renders": 9},
    ]
    write(crawl, "hostdb", hosts)
    waiting = [
        {"url_key": f"{host}{n}".encode(), "url": f"http://{host}/{n}", "host": host}
        | {"state": "fetched", "capture_id": "c", "flags": ["render"], "host_bucket": 0}
        for host, count in (("a.test", 10_001), ("vain.test", 5))
        for n in range(count)
    ]
    write(crawl, "crawldb", waiting)
    captures, pages = [], []
    for n, ms in enumerate([100, 200, 300, 400, None], 1):  # the last one failed
        url, outcome = f"http://a.test/{n}", "fetched" if ms else "failed"
        captures.append(capture(url, n, kind="render", outcome=outcome, render_ms=ms))
        if ms:
            page = {"rendered": True, "text_bytes": 900 if n < 4 else 100, "links": 0}
            page |= {"static_text_bytes": 0, "static_links": 0, "round_id": "r000001"}
            pages.append(page | {"capture_id": captures[-1]["capture_id"], "url": url})
    write(crawl, "captures", captures, {"round_id": ["r000001"]})
    write(crawl, "pages", pages, {"round_id": ["r000001"]})
    told = reported(crawl)
    states = {a["name"]: (a["state"], a["value"]) for a in told["alerts"]}
    assert states["render_queue"] == ("firing", 10_001)
    metrics = crawl.plain_tables().rows("metrics", ["name", "value"])
    assert {m["name"]: m["value"] for m in metrics if m["name"].startswith("round_render")} == {
        "round_renders": 5,
        "round_renders_failed": 1,
        "round_render_gain_share": 0.6,
        "round_render_ms": 250.0,
        "round_render_p95_ms": pytest.approx(385.0),
    }
    write(crawl, "crawldb", waiting[1:])
    (queue,) = (a for a in reported(crawl)["alerts"] if a["name"] == "render_queue")
    assert (queue["state"], queue["value"]) == ("ok", 10_000)
