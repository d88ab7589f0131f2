"""Dates of sitemaps and feeds in whole rounds: believed as far as they have proved true."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from crawlkit.crawl.state import Crawl
from crawlkit.local.web_server import Reply, Request
from crawlkit.round.drive import run_round
from crawlkit.round.job import Job

from tests.engines import run_on
from tests.frames import collect
from tests.slot.slotweb import SlotWeb, page, robots

pytestmark = [pytest.mark.rounds]
on = run_on("local")
EPOCH, DAY_S = 1_767_225_600.0, 86_400.0  # 2026-01-01
HOST = "http://site.example"
PAGES = [f"{HOST}/p{n}" for n in range(3)]
XML = [("Content-Type", "application/xml")]


def sitemap(at: float, urls: list[str]) -> Reply:
    when = datetime.datetime.fromtimestamp(at - 3600, datetime.UTC).isoformat()
    rows = "".join(f"<url><loc>{u}</loc><lastmod>{when}</lastmod></url>" for u in urls)
    return Reply(200, XML, f"<?xml version='1.0'?><urlset>{rows}</urlset>".encode())


def feed(at: float, urls: list[str]) -> Reply:
    when = datetime.datetime.fromtimestamp(at - 3600, datetime.UTC).isoformat()
    rows = "".join(
        f"<entry><id>{u}</id><link href='{u}'/><updated>{when}</updated></entry>" for u in urls
    )
    body = f"<feed xmlns='http://www.w3.org/2005/Atom'><title>t</title>{rows}</feed>"
    return Reply(200, [("Content-Type", "application/atom+xml")], body.encode())


class Site:
    """A site whose list dates all pages an hour before the round; pages in `alive` change."""

    def __init__(self, listed: Callable[[float, list[str]], Reply], alive: set[str]) -> None:
        self.now, self.urls, self.alive = EPOCH, list(PAGES), alive
        kind = "feed" if listed is feed else "sitemap"
        self.seeds = [f"{HOST}/list\tkind={kind}"]
        self.pages: dict[str, Any] = {
            "/robots.txt": robots(""),
            "/list": lambda _: listed(self.now, self.urls),
        } | {f"/p{n}": self.page for n in range(9)}

    def page(self, request: Request) -> Reply:
        text = f"The page {request.target} has a text of its own, told as it was."
        changes = f" Day {self.now / DAY_S:.0f}." if HOST + request.target in self.alive else ""
        return page(f"<title>x</title><p>{text}{changes}</p>")


def visits(on: dict[str, Any], folder: Any, site: Site, days: list[float]) -> tuple[Any, Any]:
    """crawldb by URL and hostdb after a round (and one for what it named) on each of the days."""
    with SlotWeb({"site.example": site.pages}) as web:
        cfg = web.config(
            scope={"domains": ["site.example"]},
            frontier={"guess_sitemap": False, "buckets": 1},
            politeness={"delay_s": 0.01, "domain_delay_s": 0, "ip_delay_s": 0},
        )
        job = Job(Crawl(folder / "crawl", cfg), quick=True, **on)
        for n, day in enumerate(d + more for d in days for more in (0, 0.01)):
            site.now = EPOCH + day * DAY_S
            round_ = job.crawl.open_round(site.now)
            if n == 0:
                job.run("inject", round_, force=True, lines=site.seeds)
            run_round(job, round_)
    rows = {r.url: r for r in collect(job.read("crawldb"))}
    (host,) = collect(job.read("hostdb"))
    return rows, host


@pytest.mark.parametrize("listed", [sitemap, pytest.param(feed, marks=pytest.mark.slow)])
def test_pages_whose_dates_were_refuted_keep_their_own_interval(on, tmp_path, listed):
    rows, host = visits(on, tmp_path, Site(listed, set()), [0, 2, 4, 6, 8])
    assert [rows[u].history for u in PAGES] == ["NU", "NU", "NU"]
    assert (host.dates_true, host.dates_false) == (0, 3)
    own = rows[f"{HOST}/list"]
    assert own.history == "N????" and own.n_change == 0  # other dates are no change


def test_dates_that_prove_true_make_pages_due_each_time(on, tmp_path):
    rows, host = visits(on, tmp_path, Site(sitemap, set(PAGES)), [0, 2, 4, 6])
    assert [rows[u].history for u in PAGES] == ["NCCC"] * 3
    assert host.dates_false == 0 and 8 < host.dates_true <= 9


@pytest.mark.slow
def test_dates_of_which_every_other_one_is_true_are_believed(on, tmp_path):
    rows, host = visits(on, tmp_path, Site(sitemap, {PAGES[0], PAGES[1]}), [0, 2, 4, 6])
    assert [rows[u].history for u in PAGES] == ["NCCC", "NCCC", "NUUU"]
    assert host.dates_true > host.dates_false > 2


@pytest.mark.slow
def test_a_refuted_host_is_believed_again_for_a_try(on, tmp_path):
    rows, _ = visits(on, tmp_path, Site(sitemap, set()), [0, 2, 4, 20])
    assert [rows[u].history for u in PAGES] == ["NUU"] * 3
