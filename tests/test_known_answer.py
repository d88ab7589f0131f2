"""Whole rounds over the synthetic web against its right answer, and the server's own log (REQUIREMENTS B, D, G, H, I, N)."""

from __future__ import annotations

import time

import pytest

from crawlkit.audit import audit
from crawlkit.command import run_round
from crawlkit.config import parse_config
from crawlkit.crawl import Crawl
from crawlkit.job import Job
from tests.fakeweb import DAY_S, EPOCH, Delays, Policy, Process, build, differences, every, expected, judge, load_log

pytestmark = pytest.mark.spark
SCALE, SEED = 0.1, 7


def crawl_web(spark, folder, web, server, nows, sets=(), seed_rounds=1):
    """Rounds at the given nominal times; the job."""
    cfg = parse_config(web.config_yaml(server.port), "fakeweb", sets)
    job = Job(Crawl(folder, cfg), quick=True, spark=spark)
    for n, now in enumerate(nows):
        server.set_day(int((now - EPOCH) // DAY_S))
        round_ = job.crawl.open_round(now)
        if n < seed_rounds:
            job.run("inject", round_, force=True, lines=web.seeds)
        run_round(job, round_)
    return job


def table(job):
    rows = job.read("crawldb").selectExpr("url", "state", "depth", "cast(next_fetch AS double) AS next_fetch", "interval_s", "last_status AS status", "n_change", "retries").collect()
    return {r.url: r.asDict() for r in rows}


@pytest.fixture(scope="module")
def crawled(spark, tmp_path_factory):
    web = build(SEED, SCALE)
    folder = tmp_path_factory.mktemp("known")
    nows = every(600, 6)
    with Process(folder, seed=SEED, scale=SCALE) as server:
        job = crawl_web(spark, folder / "crawl", web, server, nows)
        time.sleep(0.2)
        log = load_log(server.log)
    return web, job, log, expected(web, Policy(nows=nows))


def test_states_and_depths_equal_the_right_answer(crawled):
    web, job, log, answer = crawled
    assert differences(answer, table(job)) == []


def test_the_captured_set_is_the_reachable_permitted_set(crawled):
    web, job, log, answer = crawled
    got = {r.url for r in job.read("captures").where("outcome = 'fetched' AND kind = 'page'").select("url").distinct().collect()}
    assert got == {u for u, r in answer.rows.items() if r.first_fetched is not None}


def test_the_servers_log_shows_no_rudeness(crawled):
    web, job, log, answer = crawled
    delay = job.cfg.politeness
    found = judge(log, web, Delays(host_s=delay.delay_s, domain_s=delay.domain_delay_s))
    assert found.total == 0, str(found)
    said = audit(job)
    assert said["violations"] == 0, said


def test_clusters_are_the_planted_ones(crawled):
    web, job, log, answer = crawled
    got: dict[bytes, set[str]] = {}
    for r in job.read("duplicates").collect():
        got.setdefault(bytes(r.cluster_id), set()).add(r.url)
    assert sorted(map(sorted, got.values())) == sorted(map(sorted, answer.clusters))


def test_every_planned_url_has_one_outcome(crawled):
    web, job, log, answer = crawled
    planned = job.read("fetchlist").select("round_id", "kind", "url_key")
    outcomes = job.read("captures").where("is_outcome").select("round_id", "kind", "url_key")
    assert planned.count() == outcomes.count() == outcomes.distinct().count()
    assert planned.exceptAll(outcomes).count() == 0


def test_noindex_keeps_no_text(crawled):
    web, job, log, answer = crawled
    rows = {r.url: r for r in job.read("pages").select("url", "noindex", "text", "text_sha256").collect()}
    for url, row in answer.rows.items():
        if url in rows and row.state == "fetched":
            assert (rows[url].text is not None) == row.has_text, url
