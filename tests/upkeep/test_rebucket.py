"""Another number of host buckets: every key stays, killed at any commit the same command finishes
(REQUIREMENTS B9).
"""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest
from crawlkit.config import Config
from crawlkit.crawl.state import Crawl, CrawlError
from crawlkit.round.job import Job
from crawlkit.rules.url.domains import host_bucket
from crawlkit.stages.fold import live_log, reduce_rows
from crawlkit.upkeep.rebucket import bucket_sql, rebucket, rebucket_command

from tests.frontier_rows import contents, known_urls

NOW = 1_790_000_000.0
TABLES = ("crawldb", "crawldb_log", "hostdb", "buckets")


def config(buckets: int) -> Config:
    return Config.model_validate({"frontier": {"buckets": buckets}})


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """A folder with 800 known URLs in 4 buckets and 60 log rows, about half of them in the base
    already.
    """
    folder = tmp_path_factory.mktemp("grown") / "crawl"
    job = Job(Crawl(folder, config(4)), quick=True, engine="local")
    known_urls(job, 200, 5, NOW + 1e6, NOW)
    round_ = job.crawl.open_round(NOW)
    job.run("inject", round_, lines=[f"http://new{n}.example/" for n in range(60)])
    job.crawl.close(round_)
    half = {"host_bucket": [2, 3]}  # folded; the log rows of the others wait
    with job.crawl.lock:
        log = live_log(job.read("crawldb_log"), job.read("buckets")).where("host_bucket >= 2")
        job.tables.replace("crawldb", reduce_rows(job.read("crawldb", half), log), half)
        job.tables.replace(
            "buckets",
            [
                r | {"folded_through": int(r["host_bucket"] >= 2)}
                for r in job.tables.rows(
                    "buckets", ["host_bucket", "rows", "next_due_1", "log_rows"]
                )
            ],
        )
    return folder


def copy(grown, folder, buckets: int = 4) -> Job:
    shutil.copytree(grown, folder)
    return Job(Crawl(folder, config(buckets)), quick=True, engine="local")


def keys(job: Job) -> Counter:
    """Keys of base and log as one frontier."""
    log = live_log(job.read("crawldb_log"), job.read("buckets"))
    return Counter(r["url"] for r in reduce_rows(job.read("crawldb"), log).select("url").rows())


def test_the_bucket_in_sql_is_that_of_the_rule(engine):
    names = ["a.example", "xn--bcher-kva.example", "127.0.0.1", "b.co.uk", "x" * 60 + ".example"]
    for n in (1, 2, 64, 65_536):
        domains = engine.from_rows("domain string", [(d,) for d in names])
        rows = domains.select("domain", f"{bucket_sql(n)} AS b").rows()
        assert {r["domain"]: r["b"] for r in rows} == {d: host_bucket(d, n) for d in names}


@pytest.mark.waits
@pytest.mark.parametrize("buckets", [8, 2])
def test_no_key_is_lost_or_doubled_and_every_row_lies_where_it_belongs(grown, tmp_path, buckets):
    before = keys(copy(grown, tmp_path / "before"))
    job, told = copy(grown, tmp_path / "crawl"), []
    job.say = told.append
    done = rebucket(job, buckets)
    assert {e["event"] for e in told} == {"step"} and "crawldb" in told[0]["text"]
    after = Job(Crawl(tmp_path / "crawl", config(buckets)), quick=True, engine="local")
    after.crawl.check()
    assert done["buckets_before"] == 4 and 800 < done["known"] < 860
    assert keys(after) == before and set(before.values()) == {1} and len(before) == 860
    for name in TABLES[:3]:
        rows = after.tables.rows(name, ["domain", "host_bucket"])
        assert rows and all(r["host_bucket"] == host_bucket(r["domain"], buckets) for r in rows), (
            name
        )
    summary = after.tables.rows("buckets", ["host_bucket", "rows", "next_due_1", "folded_through"])
    assert sum(r["rows"] for r in summary) == done["known"] and {
        r["folded_through"] for r in summary
    } == {0}
    assert {r["host_bucket"] for r in summary} == set(range(buckets))
    assert any(r["next_due_1"] == NOW for r in summary)  # log rows that wait make their bucket due
    with pytest.raises(CrawlError, match=f"has {buckets} host buckets"):
        job.crawl.check()


@pytest.mark.waits
def test_killed_before_any_commit_the_same_command_finishes_and_nothing_else_works(
    grown, tmp_path, monkeypatch
):
    whole = copy(grown, tmp_path / "whole")
    rebucket(whole, 8)
    want = {n: contents(whole.tables, n) for n in TABLES}
    for at in range(5):  # before the 1st, ... 4th commit, and before the count is recorded
        folder = tmp_path / f"killed{at}"
        job = copy(grown, folder)
        left = [at]

        def guard(job=job, left=left):
            job.crawl.lock.check()
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1

        job.tables.guard = guard
        if at == 4:
            monkeypatch.setattr("crawlkit.upkeep.rebucket.set_buckets", lambda *_: guard())
        with pytest.raises(KeyboardInterrupt):
            rebucket(job, 8)
        monkeypatch.undo()
        for n in (4, 8):
            with pytest.raises(CrawlError, match="finish it with `crawlkit rebucket 8`"):
                Crawl(folder, config(n)).open_round(NOW)
        again = Job(Crawl(folder, config(8)), quick=True, engine="local")
        with pytest.raises(CrawlError, match="rebucket 8"):
            rebucket(again, 16)
        rebucket(again, 8)
        assert {n: contents(again.tables, n) for n in TABLES} == want, at
        again.crawl.check()


def test_refused_while_a_round_is_open_without_a_crawl_and_for_a_wrong_number(grown, tmp_path):
    job = copy(grown, tmp_path / "open")
    job.crawl.open_round(NOW)
    before = (tmp_path / "open/state/crawl.json").read_bytes()
    with pytest.raises(CrawlError, match="is open"):
        rebucket(job, 8)
    assert (tmp_path / "open/state/crawl.json").read_bytes() == before
    with pytest.raises(CrawlError, match="no crawl in"):
        rebucket(Job(Crawl(tmp_path / "none", config(4)), quick=True, engine="local"), 8)
    with pytest.raises(ValueError, match="power of two"):
        rebucket_command(6, tmp_path / "open", config(4))
    assert json.loads(before)["buckets"] == 4
