"""Driving a round through its stages."""

from __future__ import annotations

from typing import Any

from crawlkit.adapters.lake.duckdb_reader import aggregate
from crawlkit.model import Round
from crawlkit.round.counts import Counts
from crawlkit.round.job import ROUND, Job
from crawlkit.round.progress import FetchWatch

AFTER_ALL = ("rank", "report")  # they read all rounds so far


def run_round(job: Job, round_: Round, last: bool = True) -> bool:
    """Run all stages of a round that are not done yet, then close it.

    False if nothing was due (the round leaves no trace but its injected rows). In a run of several
    rounds, rank and report wait for the `last`.
    """
    job.say({"event": "round", "round_id": round_.id})
    planned = job.run("generate", round_)
    if not planned.get("planned"):
        job.run("update", round_)  # injected rows reach the base even so
        job.crawl.close(round_)
        return False
    for stage in ROUND[1:]:
        if last or stage not in AFTER_ALL:
            run_stage(job, stage, round_)
    job.crawl.close(round_)
    return True


def run_stage(job: Job, stage: str, round_: Round, **options: Any) -> Counts:
    """Run one stage of a round; a fetch (of a region) reports its progress meanwhile."""
    if stage != "fetch":
        return job.run(stage, round_, **options)
    slots = _slots_of(job, round_, options["region"]) if "region" in options else None
    with FetchWatch(job.crawl.objects, round_.id, job.say, slots):
        return job.run(stage, round_, **options)


def _slots_of(job: Job, round_: Round, region: str) -> list[int]:
    query = "SELECT DISTINCT slot FROM t WHERE region = ?"
    rows = aggregate(job.tables, "fetchlist", query, [region], {"round_id": [round_.id]})
    return [slot for (slot,) in rows]
