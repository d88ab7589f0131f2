"""What maintain removes by age, and what it may not (REQUIREMENTS F5)."""

from __future__ import annotations

import shutil
import time

import pytest
from crawlkit.adapters.warc.record_store import RecordReader
from crawlkit.crawl.state import Crawl
from crawlkit.exports.source import Source
from crawlkit.round.job import Job
from crawlkit.upkeep.maintain import maintain
from crawlkit.upkeep.rebuild import rebuild
from crawlkit.upkeep.reconcile import reconcile
from crawlkit.upkeep.retention import expire

from tests.rounds.test_known_answer import check_records

pytestmark = pytest.mark.rounds
DAY_S = 86_400.0
FACTS = [
    "url",
    "state",
    "depth",
    "last_status",
    "last_fetch",
    "n_fetch",
    "body_sha256",
    "text_sha256",
    "capture_id",
]


def copy(engine: dict, known_crawl, folder, **maintain_keys) -> Job:
    original = known_crawl[1]
    shutil.copytree(original.crawl.data, folder)
    cfg = original.cfg.model_copy(
        update={"maintain": original.cfg.maintain.model_copy(update=maintain_keys)}
    )
    return Job(Crawl(folder, cfg), quick=True, **engine)


def stored(job: Job) -> dict[str, dict]:
    rows = job.tables.rows(
        "captures",
        [
            "capture_id",
            "url",
            "revisit_of",
            "started",
            "record_type",
            "warc_filename",
            "warc_record_offset",
            "warc_record_length",
        ],
    )
    return {r["capture_id"]: r for r in rows if r["warc_filename"]}


def needed(job: Job) -> set[str]:
    """Captures whose records must stay: each URL's copy, and what revisits among them refer to."""
    rows, keep = stored(job), set()
    todo = [r["capture_id"] for r in job.tables.rows("crawldb", ["capture_id"]) if r["capture_id"]]
    while todo:
        c = todo.pop()
        if c in rows and c not in keep:
            keep.add(c)
            if rows[c]["revisit_of"]:
                todo.append(rows[c]["revisit_of"])
    return keep


def test_old_records_that_nothing_refers_to_go_and_all_others_stay(on_each, known_crawl, tmp_path):
    job = copy(on_each, known_crawl, tmp_path / "copy", raw_share=0.0)
    before, must, orphans = (
        stored(job),
        needed(job),
        reconcile(Source(job.crawl.data, job.cfg))["orphan_files"],
    )
    assert 0 < len(must) < len(before)
    done = expire(job, time.time() + 89 * DAY_S)
    assert done["removed"]["records"] == 0 and stored(job).keys() == before.keys()
    done = expire(job, time.time() + 91 * DAY_S)
    now = stored(job)
    assert now.keys() == must
    assert done["removed"]["records"] == len(before) - len(must) and sum(
        done["kept"].values()
    ) == len(must)
    read = RecordReader(job.crawl.warc)
    for c in now.values():
        read(c["warc_filename"], c["warc_record_offset"], c["warc_record_length"])
    check_records(job, tmp_path)
    found = reconcile(Source(job.crawl.data, job.cfg))
    assert found["ok"] and found["orphan_files"] == orphans, found
    assert (
        not job.tables.count("fetchlist")
        and not job.crawl.objects.list("parts/")
        and done["removed"]["fetchlist_rows"]
        and done["removed"]["round_objects"]
    )
    again = expire(job, time.time() + 92 * DAY_S)
    assert not any(again["removed"].values()) and stored(job) == now


@pytest.mark.slow
def test_the_frontier_can_be_made_again_afterwards(on, known_crawl, tmp_path):
    job = copy(on, known_crawl, tmp_path / "copy", raw_share=0.0)
    facts = job.tables.rows("crawldb", FACTS)
    assert expire(job, time.time() + 91 * DAY_S)["removed"]["records"]
    rebuild(job)
    assert sorted(map(str, job.tables.rows("crawldb", FACTS))) == sorted(map(str, facts))


def test_a_file_is_left_alone_for_a_small_share_and_zero_days_keep_all(on, known_crawl, tmp_path):
    job = copy(on, known_crawl, tmp_path / "copy", raw_share=1.0)
    before = stored(job)
    done = expire(job, time.time() + 91 * DAY_S)
    assert (
        done["removed"]["records"] == 0
        and done["kept"]["share_too_small"]
        and stored(job) == before
    )
    job = Job(
        Crawl(
            tmp_path / "copy",
            job.cfg.model_copy(
                update={
                    "maintain": job.cfg.maintain.model_copy(
                        update={"raw_days": 0.0, "raw_share": 0.0}
                    )
                }
            ),
        ),
        quick=True,
        **on,
    )
    assert (
        not any(expire(job, time.time() + 1000 * DAY_S)["removed"].values())
        and stored(job) == before
    )


def test_snapshots_older_than_three_months_go(on, known_crawl, tmp_path):
    job = copy(on, known_crawl, tmp_path / "copy")
    for day in ("2026-01-01", "2026-04-02", "2026-04-03", "not-a-day"):
        (tmp_path / "copy/export/urls" / f"date={day}").mkdir(parents=True)
        (tmp_path / "copy/export/urls" / f"date={day}" / "urls.parquet").write_bytes(b"x")
    done = maintain(job, 1_783_123_200.0)  # 2026-07-04, 92 days after 2026-04-03
    assert done["expired"]["removed"]["snapshots"] == 2
    assert sorted(p.name for p in (tmp_path / "copy/export/urls").iterdir()) == [
        "date=2026-04-03",
        "date=not-a-day",
    ]
