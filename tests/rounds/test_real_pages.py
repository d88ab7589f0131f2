"""Thousands of real pages that nobody here wrote, crawled to the end: none crashes, every one is
parsed (REQUIREMENTS G).
"""

from __future__ import annotations

import time

import pytest
from crawlkit.config import Config
from crawlkit.crawl.state import Crawl
from crawlkit.round.drive import run_round
from crawlkit.round.job import Job

from bench.realweb import PagesMissing, serve
from tests.engines import run_on
from tests.frames import collect

pytestmark = [pytest.mark.rounds, pytest.mark.slow]
on = run_on("local")
MOST_ROUNDS = 20


def test_every_page_of_the_real_web_is_fetched_whole_and_parsed(on, tmp_path, capsys):
    try:
        with serve() as web:
            job = Job(
                Crawl(tmp_path / "crawl", Config.model_validate(web.config())),
                quick=True,
                **on,
            )
            began, rounds = time.monotonic(), 0
            while rounds < MOST_ROUNDS:
                round_ = job.crawl.open_round(time.time())
                if rounds == 0:
                    job.run("inject", round_, lines=web.seeds)
                if not run_round(job, round_):
                    break
                rounds += 1
    except PagesMissing as e:
        pytest.skip(str(e))
    fetched = job.read("captures").where("is_outcome AND kind = 'page' AND outcome = 'fetched'")
    pages = job.read("pages")
    lost = "SELECT f.* FROM {fetched} AS f ANTI JOIN {pages} AS p ON f.capture_id = p.capture_id"
    missing = job.engine.query(lost, fetched=fetched, pages=pages).count()
    assert missing == 0, "fetched and not parsed"
    assert (
        job.read("rejects")
        .where(
            "stage = 'parse' AND reason IN ('parse_crash', 'parse_timeout', 'warc_damaged',"
            " 'body_undecodable')"
        )
        .count()
        == 0
    )
    rows = collect(
        pages.where("kind = 'html'").select(
            "host", "body_sha256", "text_bytes", "text_sha256", "charset", "flags"
        )
    )
    got = {r.body_sha256 for r in rows}
    assert got <= web.bodies, "a body that is no file"
    assert (
        len(got) >= 3000
        and len(got) >= 0.95 * len(web.bodies)
        and len({r.host for r in rows}) >= 20
    )
    assert sum(r.text_bytes > 0 for r in rows) >= 0.99 * len(rows) and all(r.charset for r in rows)
    assert job.read("crawldb").where("state IN ('queued', 'retrying')").count() == 0, (
        "not to the end"
    )
    with capsys.disabled():
        print(
            f"\n{len(rows)} real pages, {len(got)} distinct bodies of {len(web.bodies)},"
            f" {len({r.host for r in rows})} hosts, {rounds} rounds,"
            f" {time.monotonic() - began:.0f} s"
        )
