"""`maintain` beside a round that is under way."""

import time

from crawlkit.config import parse_config
from crawlkit.crawl.state import Crawl
from crawlkit.round.job import Job
from crawlkit.upkeep.maintain import maintain


def test_files_of_a_stage_under_way_stay_and_those_left_behind_go(on_each, tmp_path):
    """Tasks of parse write files outside of the commit lock; `maintain` may come before their
    commit.
    """
    job = Job(
        Crawl(tmp_path, parse_config("", "test", ("maintain.vacuum_hours=0",))),
        quick=True,
        **on_each,
    )
    round_ = job.crawl.open_round(time.time())
    part = {"round_id": [round_.id]}
    row = {"capture_id": "c", "round_id": round_.id, "url": "http://h.example/"}
    with job.crawl.lock:
        job.tables.replace("pages", [row | {"capture_id": "before"}], part)
    written = job.tables.write("pages", [row], part)
    maintain(job, time.time())
    with job.crawl.lock:
        job.tables.commit("pages", written, part)
    assert [r["capture_id"] for r in job.read("pages").rows()] == ["c"]
    job.tables.write("pages", [row], part)
    job.crawl.close(round_)
    maintain(job, time.time())
    assert len(list((tmp_path / "tables" / "pages").rglob("*.parquet"))) == 1
