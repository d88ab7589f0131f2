"""Driving a round through its stages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from crawlkit.adapters.lake.duckdb_reader import aggregate
from crawlkit.model import Round
from crawlkit.round.counts import Counts
from crawlkit.round.job import ROUND, Job
from crawlkit.round.progress import FetchWatch

REPORTING = ("rank", "report")  # they read all rounds so far
FETCHING = ROUND[1 : ROUND.index("parse")]
READING = tuple(s for s in ROUND[ROUND.index("parse") :] if s not in REPORTING)


def run_round(job: Job, round_: Round) -> bool:
    """Run all stages of a round that are not done yet, then close it.

    False if nothing was due (the round leaves no trace but its injected rows).
    """
    job.say({"event": "round", "round_id": round_.id})
    planned = job.run("generate", round_)
    if not planned.get("planned"):
        close_empty(job, round_)
        return False
    run_planned(job, round_)
    return True


def close_empty(job: Job, round_: Round) -> None:
    """Close a round in which nothing was due."""
    job.run("update", round_)  # injected rows reach the base even so
    job.crawl.close(round_)


def run_planned(
    job: Job,
    round_: Round,
    is_reported: bool = True,
    turn: AbstractContextManager[Any] | None = None,
    before_report: Callable[[], None] = lambda: None,
) -> None:
    """Run the stages after generate, then close the round.

    Args:
        job: the crawl.
        round_: the round.
        is_reported: rank and report too; else the round beside it does so for both.
        turn: held while pages are read.
        before_report: called when they are.
    """
    for stage in FETCHING:
        run_stage(job, stage, round_)
    with turn or nullcontext():
        for stage in READING:
            run_stage(job, stage, round_)
    before_report()
    for stage in REPORTING if is_reported else ():
        run_stage(job, stage, round_)
    job.crawl.close(round_)


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
