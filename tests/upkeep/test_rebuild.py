"""crawldb made again, from tables and from WARC files alone: what it was, URL by URL (issue 6,
must-show 6).
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from crawlkit.crawl.open_crawl import REBUILT
from crawlkit.crawl.state import Crawl, CrawlError
from crawlkit.round.job import Job
from crawlkit.stages.fold import live_log, reduce_rows
from crawlkit.upkeep.maintain import maintain
from crawlkit.upkeep.rebuild import rebuild, rebuild_from_warc

from tests.fakeweb import DAY_S, EPOCH

pytestmark = pytest.mark.rounds
FACTS = "url state depth last_status last_fetch n_fetch body_sha256 text_sha256".split()
MORE = (
    "host domain host_bucket priority_class redirects fetch_kind first_seen interval_s error_type"
    " retries n_change history payload_digest simhash etag last_modified content_type"
    " content_length capture_id outlinks flags updated_no".split()
)


@pytest.fixture
def copy(known_crawl, on, tmp_path):
    """Makes a copy of the crawl, whole or one folder of it."""
    job = known_crawl[1]

    def make(keep: str = "", engine: dict = on) -> Job:
        shutil.copytree(job.crawl.data / keep, tmp_path / "copy" / keep)
        return again(engine, job.cfg, tmp_path / "copy")

    return make


def again(engine: dict, cfg, folder: Path) -> Job:
    return Job(Crawl(folder, cfg), quick=True, may_lack=REBUILT, **engine)


def table(job: Job, columns: list[str]) -> dict[str, tuple]:
    return {
        r["url"]: tuple(tuple(v) if isinstance(v, list) else v for v in (r[c] for c in columns))
        for r in job.tables.rows("crawldb", [*{"url", *columns}])
    }


def wrong(was: dict, now: dict) -> dict:
    return {
        u: (was.get(u), now.get(u)) for u in was.keys() | now.keys() if was.get(u) != now.get(u)
    }


def test_from_tables_after_the_frontier_is_lost(on_each, copy):
    job = copy(engine=on_each)
    late = job.crawl.open_round(EPOCH + 5 * DAY_S)
    job.run(
        "inject",
        late,
        lines=["http://never-fetched.example/\tpriority=low", "http://also.example/x\tdepth=3"],
    )
    job.run("update", late)
    job.crawl.close(late)
    columns = FACTS + MORE
    was, due = table(job, columns), table(job, ["next_fetch"])
    assert len(was) > 300 and {r[1] for r in was.values()} >= {
        "fetched",
        "dead",
        "redirected",
        "robots_skipped",
        "retrying",
        "queued",
    }
    assert maintain(job, time.time())["log_rows_dropped"]
    for name in REBUILT:
        shutil.rmtree(Path(job.tables.path(name)))
    job = again(on_each, job.cfg, job.crawl.data)
    done = rebuild(job)
    assert done["known"] == len(was)
    assert not wrong(was, table(job, columns))
    assert not {
        u: d for u, d in wrong(due, table(job, ["next_fetch"])).items() if "retrying" not in was[u]
    }  # what a host asked to wait is in hostdb
    assert rebuild(job) == done and not wrong(was, table(job, columns))


@pytest.mark.slow
def test_from_warc_files_alone(on, known_crawl, copy):
    original = known_crawl[1]
    maintain(
        original, time.time()
    )  # packed files beside those that they were made of, which are not orphans for long enough
    was = table(original, FACTS)
    links = original.read("links").where("refused IS NULL")
    linked = {r["to_url"] for r in links.select("to_url").rows()}
    job, made = copy("warc"), [0]

    def guard() -> None:
        job.crawl.lock.check()
        made[0] += 1
        if made[0] == 12:
            raise KeyboardInterrupt

    job.tables.guard = (
        guard  # killed on its way, nothing else works on it and the same command finishes
    )
    with pytest.raises(KeyboardInterrupt):
        rebuild_from_warc(job)
    with pytest.raises(CrawlError, match="finish it with `crawlkit rebuild --from-warc`"):
        again(on, job.cfg, job.crawl.data).crawl.open_round(EPOCH)
    job = again(on, job.cfg, job.crawl.data)
    done = rebuild_from_warc(job)
    assert (
        done["lost"] == done["unnamed"] == 0 and done["records"] > 300 and done["files_twice"] > 0
    )
    lacking = wrong(was, table(job, FACTS))
    assert all(
        is_ is None and was_[1] == "queued" and not was_[5] and u not in linked
        for u, (was_, is_) in lacking.items()
    ), lacking  # seeds that were neither fetched nor linked
    assert len(lacking) < 5
    job = again(on, job.cfg, job.crawl.data)
    job.crawl.check()
    round_ = job.crawl.open_round(EPOCH + 5 * DAY_S)
    assert round_.no == 7  # the next number
    assert job.run("generate", round_)["planned"]


def test_refused_where_there_is_a_crawl_or_a_round_under_way(copy):
    job = copy()
    with pytest.raises(CrawlError, match="has a crawl already"):
        rebuild_from_warc(job)
    round_ = job.crawl.open_round(EPOCH + 40 * DAY_S)
    job.run("inject", round_, lines=["http://injected.example/"])
    was = table(job, FACTS) | {
        "http://injected.example/": (
            "http://injected.example/",
            "queued",
            0,
            None,
            None,
            0,
            None,
            None,
        )
    }
    rebuild(job)  # it has not begun: its seeds are kept
    assert not wrong(was, table(job, FACTS)) and {
        r["folded_through"] for r in job.tables.rows("buckets", ["folded_through"])
    } == {round_.no - 1}
    job.run("generate", round_)
    assert "http://injected.example/" in {
        r["url"] for r in job.tables.rows("fetchlist", ["url"], {"round_id": [round_.id]})
    }
    with pytest.raises(CrawlError, match=f"round {round_.id} is open"):
        rebuild(job)


@pytest.mark.slow
def test_killed_before_any_commit_it_leaves_the_old_or_the_new(on, known_crawl, tmp_path):
    original = known_crawl[1]
    was = table(original, FACTS)

    def try_to(stop: int) -> tuple[Job, int]:
        """Rebuild in a copy, killed before the commit of that number; the commits that were
        made.
        """
        shutil.copytree(original.crawl.data, tmp_path / str(stop))
        job, made = again(on, original.cfg, tmp_path / str(stop)), [0]

        def guard() -> None:
            job.crawl.lock.check()
            if made[0] == stop:
                raise KeyboardInterrupt
            made[0] += 1

        job.tables.guard = guard
        try:
            rebuild(job)
        except KeyboardInterrupt:
            pass
        job.tables.guard = job.crawl.lock.check
        return job, made[0]

    _, commits = try_to(-1)
    assert commits >= 4
    for stop in range(commits):
        job, made = try_to(stop)
        assert made == stop and not wrong(was, table(job, FACTS)), stop
        live = reduce_rows(
            job.read("crawldb"), live_log(job.read("crawldb_log"), job.read("buckets"))
        )
        assert {r["url"]: r["state"] for r in live.select("url", "state").rows()} == {
            u: r[1] for u, r in was.items()
        }, stop
    rebuild(job)
    assert not wrong(was, table(job, FACTS))
