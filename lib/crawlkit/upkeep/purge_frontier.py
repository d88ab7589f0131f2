"""What a purge changes in the frontier: `crawldb`, `buckets`, and the logs folded into them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from crawlkit.adapters.lake.sql_text import in_list
from crawlkit.engine.frame import NO_STRINGS, Frame
from crawlkit.outcomes import Reason, State
from crawlkit.round.job import Job
from crawlkit.round.plan_stages import read_renders
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.stages.fold import bucket_summary, live_log, reduce_rows
from crawlkit.tables import TABLES
from crawlkit.upkeep.frame_rows import change
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


def forget_rows(job: Job, target: Target, lost: Sequence[Mapping[str, Any]]) -> int:
    """Refuse and empty the target's rows; make URLs that lost their only copy due.

    `lost`: revisit_of, url_key, host of captures whose body was stored only under the target.
    Returns how many these are.
    """
    n = job.cfg.frontier.buckets
    copies = [
        (r["url_key"], r["revisit_of"], host_bucket(registered_domain(r["host"]), n)) for r in lost
    ]
    buckets = sorted(target.buckets(n) | {bucket for *_, bucket in copies})
    part = {"host_bucket": buckets}
    log = live_log(
        job.read("crawldb_log").where(in_list("host_bucket", buckets)), job.read("buckets")
    )
    rows = reduce_rows(job.read("crawldb", part), log)
    marked = _mark_refetched(target.mark(rows), [(key, copy) for key, copy, _ in copies])
    job.tables.replace("crawldb", _forget(marked), part)
    update_buckets(job, buckets)
    _drop_folded(job, target)
    return len(copies)


def _mark_refetched(marked: Frame, copies: Sequence[tuple[bytes, str]]) -> Frame:
    """crawldb rows with `refetch`: whether the copy they point to was the target's.

    marked: rows with `is_target`. copies: url_key and capture_id of the copies that are lost.
    """
    engine = marked.engine
    query = """
        SELECT /*+ BROADCAST(l) */ r.*,
            NOT r.is_target AND l.lost_copy IS NOT NULL AS refetch
        FROM {rows} AS r
        LEFT JOIN {lost} AS l ON r.url_key = l.lost_key AND r.capture_id = l.lost_copy
    """
    lost = engine.from_rows("lost_key binary, lost_copy string", list(dict.fromkeys(copies)))
    return engine.query(query, rows=marked, lost=lost)


def _forget(rows: Frame) -> Frame:
    """Rows of _mark_refetched with the new values of every column that a purge changes."""
    changed = {}
    for name in _FORGOTTEN:
        empties = "is_target OR refetch" if name in _COPY_COLUMNS else "is_target"
        changed[name] = f"CASE WHEN {empties} THEN NULL ELSE {name} END"
    now = f"timestamp_micros({round(time.time() * 1e6)})"
    # never for the target, now at the latest for a URL that lost its copy
    changed["next_fetch"] = f"""
        CASE WHEN is_target THEN NULL
            WHEN refetch AND next_fetch IS NOT NULL THEN least(next_fetch, {now})
            ELSE next_fetch END
    """
    values = {
        "state": f"'{State.REFUSED}'",
        "error_type": f"'{Reason.PURGED}'",
        "history": "''",
        "flags": NO_STRINGS,
        "n_fetch": "0",
        "n_change": "0",
        "retries": "0",
    }
    for name, value in values.items():
        changed[name] = f"CASE WHEN is_target THEN {value} ELSE {name} END"
    return change(rows, changed)


def update_buckets(job: Job, buckets: list[int]) -> None:
    """Rewrite the summaries of some buckets: every round's log is folded into them now."""
    through = max((job.crawl.round(r).no for r in job.crawl.round_ids()), default=0)
    columns = TABLES["buckets"].column_names
    summaries = {r["host_bucket"]: r for r in job.tables.rows("buckets", columns)}
    rows = job.read("crawldb", {"host_bucket": buckets})
    for row in bucket_summary(rows, through, read_renders(job)):
        summaries[row["host_bucket"]] = row
    job.tables.replace("buckets", list(summaries.values()))


def _drop_folded(job: Job, target: Target) -> None:
    """Remove the target's folded log rows; a discovery record keeps its address."""
    for name in ("crawldb_log", "injected"):
        if job.tables.exists(name):
            rest = target.mark(job.read(name)).where("NOT is_target OR kind = 'found'")
            if job.tables.count(name) != rest.count():
                job.tables.replace(name, rest)
