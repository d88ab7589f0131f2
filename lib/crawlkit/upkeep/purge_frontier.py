"""What a purge changes in the frontier: `crawldb`, `buckets`, and the logs folded into them."""

from __future__ import annotations

import time

from pyspark.sql import Column, DataFrame, functions as F

from crawlkit.adapters.lake.sql_text import in_list
from crawlkit.outcomes import Reason, State
from crawlkit.round.job import Job
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.stages.fold import bucket_summary, live_log, reduce_rows
from crawlkit.tables import TABLES
from crawlkit.upkeep.purge_target import Target

# columns of the target's rows that are emptied
_FORGOTTEN = (
    "capture_id",
    "body_sha256",
    "text_sha256",
    "payload_digest",
    "simhash",
    "etag",
    "last_modified",
    "content_type",
    "content_length",
    "fetched_at",
    "copy_url",
    "outlinks",
    "last_fetch",
    "last_status",
    "next_fetch",
    "interval_s",
    "error_detail",
)
# columns emptied of a URL whose stored copy was the target's: it is fetched again as if new
_COPY_COLUMNS = (
    "capture_id",
    "payload_digest",
    "etag",
    "last_modified",
    "fetched_at",
    "copy_url",
)


def forget_rows(job: Job, target: Target, lost: DataFrame) -> int:
    """Refuse and empty the target's rows; make URLs that lost their only copy due.

    `lost`: revisit_of, url_key, host of captures whose body was stored only under the target.
    Returns how many these are.
    """
    n = job.cfg.frontier.buckets
    copies = [
        (bytearray(r.url_key), r.revisit_of, host_bucket(registered_domain(r.host), n))
        for r in lost.collect()
    ]
    buckets = sorted(target.buckets(n) | {bucket for *_, bucket in copies})
    part = {"host_bucket": buckets}
    log = live_log(
        job.read("crawldb_log").where(in_list("host_bucket", buckets)), job.read("buckets")
    )
    rows = reduce_rows(job.read("crawldb", part), log)
    changed = _forget(_mark_refetched(job, rows, target, copies), target)
    job.tables.replace("crawldb", changed, part)
    _update_buckets(job, buckets)
    _drop_folded(job, target)
    return len(copies)


def _mark_refetched(
    job: Job, rows: DataFrame, target: Target, copies: list[tuple[bytearray, str, int]]
) -> DataFrame:
    """crawldb rows with `refetch`: whether the copy they point to was the target's."""
    lost = (
        job.spark.createDataFrame([(k, c) for k, c, _ in copies], "url_key binary, lost string")
        .groupBy("url_key")
        .agg(F.collect_set("lost").alias("lost"))
    )
    has_lost = F.coalesce(F.array_contains("lost", F.col("capture_id")), F.lit(False))
    marked = rows.join(F.broadcast(lost), "url_key", "left")
    return marked.withColumn("refetch", ~target.column() & has_lost)


def _forget(rows: DataFrame, target: Target) -> DataFrame:
    """Rows of _mark_refetched with the new values of every column that a purge changes."""
    is_target = target.column()
    types = {c.name: c.type for c in TABLES["crawldb"].columns}
    changed = {}
    for name in _FORGOTTEN:
        empties = is_target | F.col("refetch") if name in _COPY_COLUMNS else is_target
        changed[name] = F.when(empties, F.lit(None)).otherwise(F.col(name)).cast(types[name])
    changed["next_fetch"] = _next_fetch(is_target)
    values = {
        "state": str(State.REFUSED),
        "error_type": str(Reason.PURGED),
        "history": "",
        "flags": F.array().cast("array<string>"),
        "n_fetch": 0,
        "n_change": 0,
        "retries": 0,
    }
    for name, value in values.items():
        changed[name] = F.when(is_target, value).otherwise(F.col(name))
    return rows.withColumns(changed)


def _next_fetch(is_target: Column) -> Column:
    """Never for the target, now at the latest for a URL that lost its copy."""
    now = F.timestamp_micros(F.lit(round(time.time() * 1e6)))
    return (
        F.when(is_target, F.lit(None))
        .when(F.col("refetch") & F.col("next_fetch").isNotNull(), F.least("next_fetch", now))
        .otherwise(F.col("next_fetch"))
    )


def _update_buckets(job: Job, buckets: list[int]) -> None:
    """Rewrite the summaries of some buckets: every round's log is folded into them now."""
    through = max((job.crawl.round(r).no for r in job.crawl.round_ids()), default=0)
    columns = TABLES["buckets"].column_names
    summaries = {r["host_bucket"]: r for r in job.tables.rows("buckets", columns)}
    for row in bucket_summary(job.read("crawldb", {"host_bucket": buckets}), through).collect():
        summaries[row.host_bucket] = row.asDict()
    job.tables.replace("buckets", list(summaries.values()))


def _drop_folded(job: Job, target: Target) -> None:
    """Remove the target's folded log rows; a discovery record keeps its address."""
    for name in ("crawldb_log", "injected"):
        if job.tables.exists(name):
            rest = job.read(name).where(~target.column() | (F.col("kind") == "found"))
            if job.tables.count(name) != rest.count():
                job.tables.replace(name, rest)
