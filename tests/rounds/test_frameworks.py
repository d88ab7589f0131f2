"""Applications of real frameworks in whole rounds: all that a reader sees is found, nothing is
rendered without need, and the servers' log is the judge of how it was asked for.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from crawlkit.crawl.state import Crawl
from crawlkit.report.audit import audit
from crawlkit.round.drive import run_round
from crawlkit.round.job import Job
from crawlkit.rules.url.domains import registered_domain

from tests.adapters.browser.chromium import chromium
from tests.engines import run_on
from tests.frames import collect
from tests.rounds.framework_web import FRAMEWORKS, KINDS, FrameworkWeb, make_web
from tests.slot.slotweb import SlotWeb

pytestmark = [pytest.mark.rounds]
on = run_on("local")
EPOCH = 1_767_225_600.0  # 2026-01-01
ROUNDS = 6
SHARE, MAX_URLS = 0.1, 1000


def crawl(folder: Path, on: dict[str, Any], web: FrameworkWeb, served: SlotWeb) -> Job:
    cfg = served.config(
        frontier={"guess_sitemap": False},
        fetch={"slots": 2},
        round={"minutes": 2, "max_urls": MAX_URLS},
        render={"enabled": True, "chromium": chromium(), "share": SHARE},
        scope={"domains": sorted({registered_domain(h) for h in web.texts})},
    )
    job = Job(Crawl(folder / "crawl", cfg), quick=True, **on)
    for n in range(ROUNDS):
        round_ = job.crawl.open_round(EPOCH + 60 * n)
        if n == 0:
            job.run("inject", round_, force=True, lines=web.seeds)
        run_round(job, round_)
    return job


def check(folder: Path, on: dict[str, Any], web: FrameworkWeb) -> None:
    with SlotWeb(web.sites) as served:
        job = crawl(folder, on, web, served)
        assert served.violations() == []
        assert audit(job)["violations"] == 0
        asked = Counter((x.request.host, x.request.target) for x in served.log)
    pages, captures = collect(job.read("pages")), collect(job.read("captures"))
    # every text, and every link, of the pages that need a browser and of those that do not
    for host, texts in web.texts.items():
        found = "\n".join(p.text for p in pages if p.host == host and p.text)
        assert [t for t in texts if t not in found] == [], host
    states = {r.url: r.state for r in collect(job.read("crawldb"))}
    assert {url: states.get(url) for url in web.links} == dict.fromkeys(web.links, "fetched")
    # pages that need none are not rendered
    renders = [c for c in captures if c.kind == "render"]
    assert {c.host for c in renders} == web.needs
    views = {f"/{name}" for pages, _ in KINDS.values() for name in pages}
    assert {c.url.partition(".test")[2] for c in renders} <= views | {"/"}
    assert all(c.outcome == "fetched" for c in renders)
    # a page is rendered once; twice more where a script is another host's, which asks a third
    times = {c.url: 3 if "-api." in c.host else 1 for c in renders}
    assert Counter(c.url for c in renders) == times
    by_round = Counter(c.round_id for c in renders)
    assert max(by_round.values()) <= SHARE * MAX_URLS
    assert max(c.render_ms for c in renders) < 20_000
    # a script that is fresh is asked for once in all rounds
    scripts = {at: n for at, n in asked.items() if at[1].endswith(".js")}
    assert scripts and {at: n for at, n in scripts.items() if n > 1} == {}


def test_one_framework(tmp_path: Path, on: dict[str, Any]) -> None:
    check(tmp_path, on, make_web(("vue",)))


@pytest.mark.slow
def test_all_frameworks_on_thirty_hosts(tmp_path: Path, on: dict[str, Any]) -> None:
    web = make_web(FRAMEWORKS)
    assert len(web.sites) >= 30
    check(tmp_path, on, web)
