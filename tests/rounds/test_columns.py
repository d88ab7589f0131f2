"""Columns of the tables: each is written by some round."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from crawlkit.crawl.state import Crawl
from crawlkit.local.web_server import Reply, Request
from crawlkit.round.drive import run_round
from crawlkit.round.job import Job
from crawlkit.tables import TABLES

from tests.engines import run_on
from tests.slot.slotweb import SlotWeb, robots

pytestmark = [pytest.mark.rounds]
on = run_on("local")
EPOCH, DAY_S = 1_767_225_600.0, 86_400.0  # 2026-01-01
HOST = "http://site.example"
PROSE = "A sentence of a page that somebody wrote about a boat and its crew. " * 12
RICH = f"""<!doctype html><html lang=en><head><title>A boat</title>
<meta name=description content="Of boats"><meta name=keywords content="boat, crew">
<meta name=author content="Ann Author"><meta name=robots content="noai">
<meta property="article:published_time" content="2025-12-01T10:00:00Z">
<script type="application/ld+json">{{"@type": "Article", "headline": "A boat"}}</script>
<link rel=canonical href="{HOST}/boat"><link rel=alternate hreflang=de href="{HOST}/de">
</head><body><article><h1>A boat</h1><p>{PROSE}</p><p>{PROSE}</p></article>
<a href="/x?b=2&amp;a=1">x</a> <a href="/go">go</a> <a href="/same">same</a>
<a href="/loop">loop</a>
<a href="/no">no</a>
<a href="ftp://site.example/">refused</a></body></html>"""
SCRIPTED = (
    "<!doctype html><title>x</title><div id=root></div><script src=/a.js></script>" + " " * 6000
)
RULES = "User-agent: *\nDisallow: /no\nCrawl-delay: 0.02\nContent-Signal: ai-train=no\n"
LIST = f"""<urlset><url><loc>{HOST}/de</loc><lastmod>2025-12-31</lastmod></url></urlset>"""
# What this crawl does not meet: a test that shows it, and a word that it says of it.
ELSEWHERE = {
    "buckets.next_due_3": ("stages/test_fold.py", "next_due"),
    "captures.truncated": ("slot/test_misbehaving.py", "truncated"),
    "captures.render_ms": ("rounds/test_renders.py", "render_ms"),
    "commands": ("control/test_commands.py", "commands"),
    "domain_authority": ("upkeep/test_import_lists.py", "domain_authority"),
    "fetchlist.doc_filename": ("rounds/test_renders.py", "rendered"),
    "fetchlist.doc_length": ("rounds/test_renders.py", "rendered"),
    "fetchlist.doc_offset": ("rounds/test_renders.py", "rendered"),
    "fetchlist.not_before": ("slot/test_run.py", "not_before"),
    "hostdb.dates_at": ("rounds/test_dates_believed.py", "dates_true"),
    "hostdb.hints_at": ("rounds/test_indexnow.py", "hints_at"),
    "hostdb.fresh_at": ("rounds/test_row_fresh.py", "fresh_true"),
    "hostdb.reason": ("rounds/test_steering.py", "reason"),
    "hostdb.render_folders": ("rounds/test_renders.py", "render_folders"),
    "hostdb.retry_after_until": ("control/test_commands.py", "retry_after_until"),
    "hostdb.slow_until": ("rounds/test_round_edges.py", "slow_until"),
    "injected": ("upkeep/test_rebuild.py", "log_rows_dropped"),
    "pages.cloaking": ("rounds/test_renders.py", "cloaked"),
    "pages.static_similarity": ("rounds/test_renders.py", "similarity"),
    "pages.static_links": ("rounds/test_renders.py", "static_links"),
    "pages.static_text_bytes": ("rounds/test_renders.py", "static_text_bytes"),
    "param_rules": ("rounds/test_discovery.py", "param_rules"),
    "rejects.capture_id": ("rounds/test_discovery.py", "rejects"),
    "robots.error": ("slot/test_robots.py", "unreachable"),
}


def html(text: str, *headers: tuple[str, str]) -> Reply:
    return Reply(200, [("Content-Type", "text/html"), *headers], text.encode())


_visits = itertools.count()


def changing(_: Request) -> Reply:
    return html(f"<p>{PROSE} {next(_visits)}")


DATED = ("Last-Modified", "Mon, 01 Dec 2025 10:00:00 GMT")
SITE: dict[str, Any] = {
    "/robots.txt": robots(f"{RULES}Sitemap: {HOST}/list.xml\n"),
    "/loop": Reply(302, [("Location", "/loop")]),
    "/": html(RICH, ("Cache-Control", "max-age=60"), ("ETag", '"1"'), DATED),
    "/boat": html(RICH),
    "/list.xml": Reply(200, [("Content-Type", "application/xml")], LIST.encode()),
    "/de": changing,
    "/x?b=2&a=1": html(SCRIPTED),
    "/go": Reply(302, [("Location", "/to?z=1&a=2")]),
    "/to?z=1&a=2": html(f"<p>{PROSE}"),
    "/same": html(f"<p>{PROSE}"),
}


def test_every_column_is_written(on, tmp_path):
    with SlotWeb({"site.example": SITE}) as web:
        cfg = web.config(
            scope={"domains": ["site.example"]},
            frontier={"buckets": 1},
            politeness={"delay_s": 0.01, "domain_delay_s": 0, "ip_delay_s": 0},
        )
        job = Job(Crawl(tmp_path / "crawl", cfg), quick=True, **on)
        for n, day in enumerate([0, 0.01, 0.02, 40, 80]):
            round_ = job.crawl.open_round(EPOCH + day * DAY_S)
            if n == 0:
                lines = [f"{HOST}/\ttopic=boats\tpriority=critical", "http://[bad"]
                job.run("inject", round_, force=True, lines=lines)
            run_round(job, round_)
    empty = {column for name in TABLES for column in empty_columns(job, name)}
    assert empty == {*ELSEWHERE}
    for file, word in ELSEWHERE.values():
        assert word in (Path(__file__).parents[1] / file).read_text("utf-8")


def empty_columns(job: Job, table: str) -> list[str]:
    """Names of the columns without a value; the table's name if it is not there or has no row."""
    if not job.tables.exists(table):
        return [table]
    copied = TABLES["crawldb"].column_names if table == "fetchlist" else ()
    names = [c.name for c in TABLES[table].columns if c.name not in copied]
    counts = ", ".join(f"count(`{n}`) AS `{n}`" for n in names)
    (row,) = job.engine.query(f"SELECT {counts} FROM {{t}}", t=job.read(table)).rows()
    return [f"{table}.{n}" for n in names if not row[n]] if any(row.values()) else [table]
