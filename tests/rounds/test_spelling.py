"""A server that answers one spelling alone, in whole rounds: the request keeps what was found."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest
from crawlkit.crawl.open_crawl import REBUILT
from crawlkit.crawl.state import Crawl
from crawlkit.local.web_server import Reply
from crawlkit.round.drive import run_round
from crawlkit.round.job import Job
from crawlkit.upkeep.rebuild import rebuild

from tests.engines import run_on
from tests.frames import collect
from tests.slot.slotweb import SlotWeb, page, robots

pytestmark = [pytest.mark.rounds]
on = run_on("local")
EPOCH, DAY_S = 1_767_225_600.0, 86_400.0  # 2026-01-01
HOST = "http://site.example"
LINKED = ["/modules.php?name=News&file=article", "/%7euser/%2f", "/x?b=2&a=%c3%bc", "/odd%?q=100%"]
FOUND = [*LINKED, "/seed?q=2&p=1", "/listed?y=1&x=2", "/moved?z=1&a=2"]


def to(location: str) -> Reply:
    return Reply(301, [("Location", location)])


def site() -> dict[str, Any]:
    links = [
        *LINKED[:-1],
        "/track?b=1&utm_source=x&a=1",
        LINKED[-1],
        "/go",
        "/own?b=1&a=1",
        "/no?b=1&a=2",
    ]
    anchors = "".join(f"<a href='{u.replace('&', '&amp;')}'>x</a>" for u in links)
    locs = f"<url><loc>{HOST}/listed?y=1&amp;x=2</loc></url>"
    return {
        "/robots.txt": robots("User-agent: *\nDisallow: /no?b=\n"),
        "/": page(f"<title>start</title>{anchors}"),
        "/sitemap.xml": Reply(
            200, [("Content-Type", "application/xml")], f"<urlset>{locs}</urlset>".encode()
        ),
        "/go": to("/moved?z=1&a=2"),
        "/track?b=1&a=1": page("<p>without the tracking parameter"),
        "/own?b=1&a=1": to("/own?a=1&b=1"),
        "/own?a=1&b=1": page("<p>as the server spells it"),
    } | {u: page(f"<title>{n}</title><p>Page {n} alone.") for n, u in enumerate(FOUND)}


def test_the_request_keeps_the_spelling_as_found(on, tmp_path):
    with SlotWeb({"site.example": site()}) as web:
        cfg = web.config(
            scope={"domains": ["site.example"]},
            frontier={"buckets": 1},
            politeness={"delay_s": 0.01, "domain_delay_s": 0, "ip_delay_s": 0},
        )
        job = Job(Crawl(tmp_path / "crawl", cfg), quick=True, **on)
        seeds = [f"{HOST}/", f"{HOST}/seed?q=2&p=1", f"{HOST}/sitemap.xml\tkind=sitemap"]
        for n, day in enumerate([0, 0.01, 0.02, 40]):
            round_ = job.crawl.open_round(EPOCH + day * DAY_S)
            if n == 0:
                job.run("inject", round_, force=True, lines=seeds)
            run_round(job, round_)
            if n == 2:
                before = len(web.log)
        first, again = web.asked("site.example")[:before], web.asked("site.example")[before:]
    for url in FOUND:
        assert first.count(url) == 1 and again.count(url) == 1
    assert "/track?b=1&a=1" in first and not any("utm" in url for url in first)
    assert not any(url.startswith("/no?") for url in first + again)
    assert first.count("/own?b=1&a=1") == 1 and first.count("/own?a=1&b=1") == 1
    assert "/own?b=1&a=1" not in again and "/own?a=1&b=1" in again
    rows = {r.url: r for r in collect(job.read("crawldb"))}
    assert {u: r.state for u, r in rows.items() if r.state not in ("fetched", "redirected")} == {
        f"{HOST}/no?a=2&b=1": "robots_skipped"
    }
    assert rows[f"{HOST}/modules.php?file=article&name=News"].sent_url == HOST + LINKED[0]
    assert rows[f"{HOST}/own?a=1&b=1"].sent_url is None
    check_records(job)
    check_rebuilt(job, rows, on)


def check_records(job: Job) -> None:
    """Each record's target is the URL that was sent, and a revisit refers to that of its copy."""
    files = (job.crawl.data / "warc").glob("*.warc.gz")
    records = b"".join(gzip.decompress(f.read_bytes()) for f in files)
    for r in collect(job.read("captures").where("kind = 'page' AND record_type IS NOT NULL")):
        if r.is_outcome:
            sent = (r.sent_url or r.url).encode()
            assert b"WARC-Target-URI: " + sent + b"\r\n" in records
    news = (HOST + LINKED[0]).encode()
    assert b"WARC-Refers-To-Target-URI: " + news + b"\r\n" in records


def check_rebuilt(job: Job, rows: dict[str, Any], on: dict[str, Any]) -> None:
    """crawldb made again from captures and links has the spellings too."""
    for name in REBUILT:
        shutil.rmtree(Path(job.tables.path(name)))
    again = Job(Crawl(job.crawl.data, job.cfg), quick=True, may_lack=REBUILT, **on)
    rebuild(again)
    made = {r.url: r.sent_url for r in collect(again.read("crawldb"))}
    assert made == {u: r.sent_url for u, r in rows.items()}
