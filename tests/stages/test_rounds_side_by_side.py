"""Rounds that are open at the same time, through the stages that read and write the frontier: no
URL is lost whichever updates first.
"""

from __future__ import annotations

import random

import pytest
from crawlkit.config import parse_config
from crawlkit.crawl.state import Crawl, CrawlError
from crawlkit.round.job import Job
from crawlkit.round.plan_stages import read_live_log
from crawlkit.rules.frontier.lifecycle import found_row
from crawlkit.rules.url.canonical import url_key
from crawlkit.stages import fold

pytestmark = pytest.mark.rounds
NOW = 1_767_225_600.0


def make(options, folder) -> Job:
    return Job(
        Crawl(folder, parse_config("", "test", ("frontier.buckets=8",))), quick=True, **options
    )


def parsed(job: Job, round_, keys) -> None:
    """What parse writes of pages that link to these."""
    rows = [
        found_row(
            f"http://h{k}.example/",
            url_key(f"http://h{k}.example/"),
            f"h{k}.example",
            f"h{k}.example",
            k % 8,
            source="link",
            now=NOW,
        )
        for k in keys
    ]
    mine = {
        "updated_no": round_.no,
        "round_id": round_.id,
        "writer": "parse",
        "kind": "found",
        "seq": 0,
        "force": False,
        "mode": "keep",
    }
    with job.crawl.lock:
        job.tables.replace(
            "crawldb_log", [r | mine for r in rows], {"round_id": [round_.id], "writer": ["parse"]}
        )


def known(job: Job) -> set[str]:
    return {r["url"] for r in job.tables.rows("crawldb", ["url"])}


def waiting(job: Job) -> set[str]:
    return {r["url"] for r in read_live_log(job)[0].select("url").rows()}


@pytest.mark.parametrize("seed", range(3))
def test_no_url_is_lost(on, tmp_path, monkeypatch, seed):
    """Three rounds parse and update in a drawn order, a drawn share of the buckets is folded each
    time.
    """
    rng, job = random.Random(seed), make(on, tmp_path)
    monkeypatch.setattr(
        fold,
        "choose_fold",
        lambda rows, *_: (
            sorted(
                r["host_bucket"] for r in rng.sample(rows, rng.randint(1, max(1, len(rows) // 2)))
            )
            if rows
            else []
        ),
    )
    rounds = [job.crawl.open_round(NOW + n) for n in range(3)]
    order = rng.sample([0, 0, 1, 1, 2, 2], 6)
    written: set[str] = set()
    for k, n in enumerate(order):
        if n not in order[:k]:
            keys = rng.sample(range(40), 12)
            parsed(job, rounds[n], keys)
            written |= {f"http://h{k}.example/" for k in keys}
        else:
            job.run("update", rounds[n])
            if rng.random() < 0.5:
                job.crawl.close(rounds[n])
        assert written <= known(job) | waiting(job), (order, k)
    for r in rounds:
        job.crawl.close(r)
    monkeypatch.undo()
    job.run("update", job.crawl.open_round(NOW + 9))
    assert known(job) == written and waiting(job) == set()


def test_what_a_parse_run_again_found_reaches_the_frontier_by_another_update(on, tmp_path):
    job = make(on, tmp_path)
    round_ = job.crawl.open_round(NOW)
    parsed(job, round_, range(4))
    job.run("update", round_)
    parsed(job, round_, range(6))
    job.run("update", round_, force=True)
    assert known(job) == {f"http://h{k}.example/" for k in range(6)}


def test_new_seeds_of_a_round_that_has_updated_the_frontier_are_refused(on, tmp_path):
    job = make(on, tmp_path)
    round_ = job.crawl.open_round(NOW)
    first = ["http://a.example/", "http://b.example/"]
    job.run("inject", round_, lines=first)
    job.run("update", round_)
    with pytest.raises(CrawlError, match="inject into the next one"):
        job.run("inject", round_, force=True, lines=["http://late.example/"])
    assert (
        job.run("inject", round_, force=True, lines=first)["rows_in"] == 2
    )  # those that are there already
    job.run("inject", later := job.crawl.open_round(NOW), lines=["http://late.example/"])
    job.run("update", later)
    assert known(job) == {*first, "http://late.example/"}
