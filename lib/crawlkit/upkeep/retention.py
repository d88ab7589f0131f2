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

import contextlib
import datetime
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from crawlkit.adapters.lake.sql_text import in_list
from crawlkit.adapters.warc.capture_log import is_log
from crawlkit.adapters.warc.reader import WarcRecord
from crawlkit.engine.frame import Frame
from crawlkit.round.job import Job
from crawlkit.stages.fold import live_log, reduce_rows
from crawlkit.upkeep.frame_rows import is_empty
from crawlkit.upkeep.warc_swap import Moves, Place, repoint_captures, rewrite_without, rounds_of

DAY_S = 86_400.0
_DATE = re.compile(r"date=(\d{4}-\d{2}-\d{2})")
_RECORD = ("warc_filename", "warc_record_id", "warc_record_length")
# state objects of a round that nothing reads once it is closed
_ROUND_OBJECTS = ("parts", "progress", "leases", "logs")


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
    is_old = (
        f"started < timestamp_micros({round(before * 1e6)})"
        f" AND NOT ({in_list('round_id', open_ids)})"
    )
    if is_empty(stored.where(is_old)):
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
    job: Job, stored: Frame, is_old: str
) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Old records that nothing refers to, and counts of the other old ones by reason.

    The first: WARC file -> record id -> bytes. is_old: a condition on captures, in SQL.
    """
    rows = reduce_rows(job.read("crawldb"), live_log(job.read("crawldb_log"), job.read("buckets")))
    copies = rows.engine.query(
        "SELECT DISTINCT capture_id FROM {rows} WHERE capture_id IS NOT NULL", rows=rows
    )
    by_file: dict[str, dict[str, int]] = defaultdict(dict)
    with contextlib.ExitStack() as stack:
        current = stack.enter_context(job.engine.keep(copies))
        young = stored.where(f"NOT ({is_old})").select("capture_id")
        referred = _with_references(stored, current.union(young), stack)
        found = rows.engine.query(_OLD, old=stored.where(is_old), current=current, ids=referred)
        old = stack.enter_context(job.engine.keep(found))
        kept = {
            "current_copy": old.where("is_current").count(),
            "copy_of_a_revisit": old.where("is_referred AND NOT is_current").count(),
        }
        for r in old.where("NOT is_referred").rows():
            by_file[r["warc_filename"]][r["warc_record_id"]] = r["warc_record_length"]
    return by_file, kept


# old stored captures, and what refers to each
_OLD = f"""
    SELECT {", ".join(f"o.{c}" for c in _RECORD)}, c.capture_id IS NOT NULL AS is_current,
        i.capture_id IS NOT NULL AS is_referred
    FROM {{old}} AS o
    LEFT JOIN {{current}} AS c ON o.capture_id = c.capture_id
    LEFT JOIN (SELECT DISTINCT capture_id FROM {{ids}}) AS i ON o.capture_id = i.capture_id
"""
# what `ids` refer to and `seen` does not have
_REFERRED = """
    SELECT DISTINCT l.revisit_of AS capture_id
    FROM {links} AS l SEMI JOIN {ids} AS i ON l.capture_id = i.capture_id
    ANTI JOIN {seen} AS s ON l.revisit_of = s.capture_id
"""


def _with_references(stored: Frame, ids: Frame, stack: contextlib.ExitStack) -> Frame:
    """`ids` and what they refer to by revisit_of, and so on; computed while `stack` is open."""
    engine = stored.engine
    links = stored.where("revisit_of IS NOT NULL").select("capture_id", "revisit_of")
    seen = step = stack.enter_context(engine.keep(ids))
    while True:
        step = stack.enter_context(
            engine.keep(engine.query(_REFERRED, links=links, ids=step, seen=seen))
        )
        if is_empty(step):
            return seen
        seen = seen.union(step)


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
            captures = repoint_captures(job.read("captures", part), moves)
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
