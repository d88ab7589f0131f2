"""What `crawlkit maintain` removes by age.

These are stored records that nothing refers to, and what closed rounds leave behind.

A record older than maintain.raw_days stays while it is the stored copy of a URL, or while a revisit
record that stays refers to it, directly or through others. A WARC file is replaced by one without
the other old records once they are maintain.raw_share of it, and deleted when nothing is left. Rows
of captures stay, without a place; texts and links stay. Files are deleted after the commit that
repoints their captures: killed between, they are orphans, which `maintain` removes when they are
old.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, functions as F

from crawlkit.adapters.warc.capture_log import is_log
from crawlkit.adapters.warc.reader import WarcRecord
from crawlkit.round.job import Job
from crawlkit.stages.fold import live_log, reduce_rows
from crawlkit.upkeep.warc_swap import Moves, Place, repoint_captures, rewrite_without, rounds_of

DAY_S = 86_400.0
_DATE = re.compile(r"date=(\d{4}-\d{2}-\d{2})")
_RECORD = ("warc_filename", "warc_record_id", "warc_record_length")
# state objects of a round that nothing reads once it is closed
_ROUND_OBJECTS = ("parts", "progress", "leases")


def expire(job: Job, now: float) -> dict[str, Any]:
    """Remove everything that is too old at `now` (Unix s).

    Returns counts of what was removed, and of old records that stay, by reason. Raises LockHeld.
    """
    keep_s = job.cfg.maintain.raw_days * DAY_S
    out: dict[str, Any] = {"removed": {}, "kept": {}}
    if keep_s:
        out = _expire_records(job, now - keep_s)
        out["removed"] |= _expire_rounds(job, now - keep_s)
    if job.cfg.maintain.snapshot_days:
        before = now - job.cfg.maintain.snapshot_days * DAY_S
        out["removed"]["snapshots"] = _expire_snapshots(job, before)
    return out


def _expire_records(job: Job, before: float) -> dict[str, Any]:
    """Remove stored records of requests before a time (Unix s) that nothing refers to."""
    open_ids = [r.id for r in job.crawl.open_rounds()]
    stored = job.read("captures").where("warc_filename IS NOT NULL")
    before_ts = F.timestamp_micros(F.lit(round(before * 1e6)))
    is_old = (F.col("started") < before_ts) & ~F.col("round_id").isin(open_ids)
    if not stored.where(is_old).limit(1).count():
        return {"removed": {"records": 0, "bytes": 0, "files": 0}, "kept": {}}
    by_file, kept = _expired_by_file(job, stored, is_old)
    moves: dict[str, Place] = {}
    removed: Counter[str] = Counter({"records": 0, "bytes": 0, "files": 0})
    for name, ids in sorted(by_file.items()):
        if sum(ids.values()) < job.cfg.maintain.raw_share * job.crawl.warc.size(name):
            kept["share_too_small"] = kept.get("share_too_small", 0) + len(ids)
            continue
        place = _without(job, name, ids)
        if place is None:  # `crawlkit reconcile` reports records that are not where they should be
            continue
        moves[name] = place
        removed += Counter({"records": len(ids), "bytes": sum(ids.values()), "files": 1})
    _repoint_and_delete(job, moves)
    return {"removed": {k: removed[k] for k in ("records", "bytes", "files")}, "kept": kept}


def _expired_by_file(
    job: Job, stored: DataFrame, is_old: Column
) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Old records that nothing refers to, and counts of the other old ones by reason.

    The first: WARC file -> record id -> bytes.
    """
    old = stored.where(is_old)
    rows = reduce_rows(job.read("crawldb"), live_log(job.read("crawldb_log"), job.read("buckets")))
    current = rows.where("capture_id IS NOT NULL").select("capture_id").distinct().persist()
    referred = _with_references(
        stored, current.unionByName(stored.where(~is_old).select("capture_id"))
    )
    of_revisits = old.join(referred, "capture_id", "left_semi")
    kept = {
        "current_copy": old.join(current, "capture_id", "left_semi").count(),
        "copy_of_a_revisit": of_revisits.join(current, "capture_id", "left_anti").count(),
    }
    by_file: dict[str, dict[str, int]] = defaultdict(dict)
    for r in old.join(referred, "capture_id", "left_anti").select(*_RECORD).collect():
        by_file[r.warc_filename][r.warc_record_id] = r.warc_record_length
    current.unpersist()
    return by_file, kept


def _with_references(stored: "DataFrame", ids: "DataFrame") -> DataFrame:
    """`ids` and what they refer to by revisit_of, and so on."""
    seen = step = ids.distinct()
    links = stored.where("revisit_of IS NOT NULL").select("capture_id", "revisit_of")
    while True:
        step = (
            links.join(step, "capture_id", "left_semi")
            .select(links.revisit_of.alias("capture_id"))
            .distinct()
            .join(seen, "capture_id", "left_anti")
            .localCheckpoint()
        )
        if not step.limit(1).count():
            return seen
        seen = seen.unionByName(step).localCheckpoint()


def _without(job: Job, name: str, ids: dict[str, int]) -> Place | None:
    """Store a file without some records and the requests that belong to them.

    The new name is "" if only the file's frame would be left. None if it has none of them.
    """
    kinds: Counter[str] = Counter()

    def gone(record: WarcRecord) -> bool:
        fields = record.headers
        leaves = fields.get("warc-record-id") in ids or fields.get("warc-concurrent-to") in ids
        if not leaves:
            kinds["log" if is_log(record) else record.type] += 1
        return leaves

    place = rewrite_without(job, name, ",".join(sorted(ids)), gone)
    if place is not None and not set(kinds) - {"warcinfo", "log"}:
        job.crawl.warc.delete(place[0])
        return "", {}
    return place


def _repoint_and_delete(job: Job, moves: Moves) -> None:
    """Let the captures point to the new files, then delete the old ones."""
    rounds = rounds_of(job, moves)
    if rounds:
        with job.crawl.lock:
            part = {"round_id": rounds}
            captures = repoint_captures(job, job.read("captures", part), moves)
            job.tables.replace("captures", captures, part)
    for name in moves:
        job.crawl.warc.delete(name)


def _expire_rounds(job: Job, before: float) -> dict[str, int]:
    """Fetch lists and part manifests of rounds that were closed before a time."""
    rounds = [
        r.id
        for r in map(job.crawl.round, job.crawl.round_ids())
        if r.state != "open" and (r.closed_at or r.opened_at) < before
    ]
    listed = job.tables.count("fetchlist", {"round_id": rounds}) if rounds else 0
    if listed:
        with job.crawl.lock:
            job.tables.replace("fetchlist", [], {"round_id": rounds})
    objects = 0
    for round_id in rounds:
        for kind in _ROUND_OBJECTS:
            for key in job.crawl.objects.list(f"{kind}/{round_id}/"):
                job.crawl.objects.delete(key)
                objects += 1
    return {"fetchlist_rows": listed, "round_objects": objects}


def _expire_snapshots(job: Job, before: float) -> int:
    """Daily snapshots (`crawlkit export urls`) below the crawl's own folder of exports."""
    if isinstance(job.crawl.data, str):
        return 0  # of a crawl in S3 they are where the operator put them
    n = 0
    for folder in Path(job.crawl.data, "export", "urls").glob("date=*"):
        day = _DATE.fullmatch(folder.name)
        if day and _end_of_day(day[1]) <= before:
            (folder / "urls.parquet").unlink(missing_ok=True)
            folder.rmdir()
            n += 1
    return n


def _end_of_day(day: str) -> float:
    """Unix s at which a day (YYYY-MM-DD, UTC) ends."""
    return datetime.datetime.fromisoformat(day).replace(tzinfo=datetime.UTC).timestamp() + DAY_S
