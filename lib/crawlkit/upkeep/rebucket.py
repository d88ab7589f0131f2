"""`crawlkit rebucket N`: another number of host buckets for a crawl between two rounds.

A row's bucket depends on its registered domain alone, so each table is rewritten by one commit that
can be repeated. The new number is stored in crawl.json before the first commit and takes effect
there after the last: until then no other command works on the crawl, and the same command finishes
what a killed one began.
"""

from __future__ import annotations

from typing import Any

from crawlkit.config import Config, ConfigError
from crawlkit.crawl.state import Crawl, Place
from crawlkit.round.job import Job
from crawlkit.round.plan_stages import read_renders
from crawlkit.stages.fold import bucket_summary, live_log, log_summary, merge_summaries
from crawlkit.upkeep.frame_rows import change
from crawlkit.upkeep.state_marks import begin_rebucket, set_buckets

MOVED = ("crawldb", "crawldb_log", "hostdb", "injected")


def rebucket(job: Job, buckets: int) -> dict[str, Any]:
    """Rewrite the tables for `buckets` host buckets; counts.

    Raises CrawlError while a round is open, LockHeld.
    """
    with job.crawl.lock:
        before = begin_rebucket(job.crawl, buckets)
        bucket = {"host_bucket": bucket_sql(buckets)}
        for name in MOVED:
            if job.tables.exists(name):
                job.report_step(f"moving the rows of {name}")
                job.tables.replace(name, change(job.read(name), bucket))
        summaries = _summaries(job, buckets)
        if job.tables.exists("buckets"):
            job.tables.replace("buckets", summaries)
        set_buckets(job.crawl, buckets)
    return {
        "buckets_before": before,
        "buckets": buckets,
        "known": sum(r["rows"] for r in summaries),
        "buckets_with_rows": len(summaries),
    }


def _summaries(job: Job, buckets: int) -> list[dict[str, Any]]:
    """The rows of `buckets` for the moved rows.

    Log rows wait to be folded from the number on that every bucket has folded: what is folded twice
    changes nothing.
    """
    through = [r["folded_through"] for r in job.tables.rows("buckets", ["folded_through"])]
    low = min(through) if through and None not in through else None
    folded = job.engine.from_rows(
        "host_bucket int, folded_through int", [(b, low) for b in range(buckets)]
    )
    renders = read_renders(job)
    log = log_summary(live_log(job.read("crawldb_log"), folded), renders)
    rows = {r["host_bucket"]: r for r in bucket_summary(job.read("crawldb"), low, renders)}
    merged = merge_summaries({}, rows, log, low or 0)
    return [row | {"folded_through": low} for row in merged.values()]


def bucket_sql(buckets: int) -> str:
    """`rules.domains.host_bucket` of the column domain, as SQL.

    The last 16 bits of what it takes of the digest are enough for at most 65536 buckets.
    """
    digits = (f"substring(sha2(domain, 256), {n}, 1)" for n in range(13, 17))
    value = "0"
    for digit in digits:
        value = f"({value} * 16 + instr('0123456789abcdef', {digit}) - 1)"
    return f"CAST({value} & {buckets - 1} AS int)"


def rebucket_command(
    buckets: int, data: Place, cfg: Config, say: Any = lambda event: None
) -> dict[str, Any]:
    """`crawlkit rebucket`: works with the old and the new frontier.buckets in the configuration.

    Raises ConfigError and what `rebucket` raises.
    """

    if buckets & (buckets - 1):
        raise ConfigError(f"rebucket {buckets}: give a power of two (1, 2, 4, 8, ...)")
    job = Job(Crawl(data, cfg), quick=True, say=say)
    try:
        return rebucket(job, buckets)
    finally:
        job.stop()


def rebucket_text(done: dict[str, Any]) -> str:
    """The result of rebucket for a terminal."""
    return (
        f"{done['known']} URLs moved from {done['buckets_before']} to {done['buckets']} host"
        f" buckets; set frontier.buckets to {done['buckets']} in the configuration of this crawl"
    )
