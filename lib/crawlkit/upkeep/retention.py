"""What `crawlkit maintain` removes by age (REQUIREMENTS F5): stored records that nothing refers to,
and what closed rounds leave behind.

A record older than maintain.raw_days stays while it is the stored copy of a URL, or a revisit
record that stays refers to it, however often
removed. A WARC file is replaced by one without the others once they are maintain.raw_share of it,
and deleted when nothing is left.
Rows of captures stay, without a place; texts and links stay.
Files are deleted after the commit that lets go of them: killed before, they are orphans, which
    `maintain` removes when they are old.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, functions as F

from crawlkit.adapters.warc.capture_log import is_log
from crawlkit.adapters.warc.reader import WarcRecord
from crawlkit.round.job import Job
from crawlkit.stages.fold import live_log, reduce_rows
from crawlkit.upkeep.warc_swap import Moves, followed, rewritten, rounds_of

DAY_S = 86_400.0
_DATE = re.compile(r"date=(\d{4}-\d{2}-\d{2})")
_BESIDES = (
    "parts",
    "progress",
    "leases",
)  # state objects of a round that nothing reads once it is closed


def expire(job: Job, now: float) -> dict[str, Any]:
    """Everything that is too old at `now` (Unix s); counts of what was removed, and of old records
    that stay, by reason.
    """
    keep_s = job.cfg.maintain.raw_days * DAY_S
    out: dict[str, Any] = {"removed": {}, "kept": {}}
    if keep_s:
        out = _expire_records(job, now - keep_s)
        out["removed"] |= _expire_rounds(job, now - keep_s)
    if job.cfg.maintain.snapshot_days:
        out["removed"]["snapshots"] = _expire_snapshots(
            job, now - job.cfg.maintain.snapshot_days * DAY_S
        )
    return out


def _expire_records(job: Job, before: float) -> dict[str, Any]:
    """Stored records of requests before a time that nothing refers to."""

    open_ids = [r.id for r in job.crawl.open_rounds()]
    stored = job.read("captures").where("warc_filename IS NOT NULL")
    is_old = (F.col("started") < F.timestamp_micros(F.lit(round(before * 1e6)))) & ~F.col(
        "round_id"
    ).isin(open_ids)
    old = stored.where(is_old)
    if not old.limit(1).count():
        return {"removed": {"records": 0, "bytes": 0, "files": 0}, "kept": {}}
    rows = reduce_rows(job.read("crawldb"), live_log(job.read("crawldb_log"), job.read("buckets")))
    current = rows.where("capture_id IS NOT NULL").select("capture_id").distinct().persist()
    referred = _referred(stored, current.unionByName(stored.where(~is_old).select("capture_id")))
    kept = {"current_copy": old.join(current, "capture_id", "left_semi").count()}
    kept["copy_of_a_revisit"] = (
        old.join(referred, "capture_id", "left_semi")
        .join(current, "capture_id", "left_anti")
        .count()
    )
    free = (
        old.join(referred, "capture_id", "left_anti")
        .select("warc_filename", "warc_record_id", "warc_record_length")
        .collect()
    )
    current.unpersist()
    by_file: dict[str, dict[str, int]] = defaultdict(dict)
    for r in free:
        by_file[r.warc_filename][r.warc_record_id] = r.warc_record_length
    moves: dict[str, tuple[str, dict[int, int]]] = {}
    removed: Counter[str] = Counter({"records": 0, "bytes": 0, "files": 0})
    for name, ids in sorted(by_file.items()):
        if sum(ids.values()) < job.cfg.maintain.raw_share * job.crawl.warc.size(name):
            kept["share_too_small"] = kept.get("share_too_small", 0) + len(ids)
            continue
        place = _without(job, name, ids)
        if place is None:  # `crawlkit reconcile` tells of records that are not where they should be
            continue
        moves[name] = place
        removed += Counter({"records": len(ids), "bytes": sum(ids.values()), "files": 1})
    _let_go(job, moves)
    return {"removed": {k: removed[k] for k in ("records", "bytes", "files")}, "kept": kept}


def _referred(stored: "DataFrame", ids: "DataFrame") -> DataFrame:
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


def _without(job: Job, name: str, ids: dict[str, int]) -> tuple[str, dict[int, int]] | None:
    """The file without some records and the requests that belong to them; "" if only its frame is
    left; None if it has none of them.
    """
    kinds: Counter[str] = Counter()

    def gone(record: WarcRecord) -> bool:
        leaves = (
            record.headers.get("warc-record-id") in ids
            or record.headers.get("warc-concurrent-to") in ids
        )
        if not leaves:
            kinds["log" if is_log(record) else record.type] += 1
        return leaves

    place = rewritten(job, name, ",".join(sorted(ids)), gone)
    if place is not None and not set(kinds) - {"warcinfo", "log"}:
        job.crawl.warc.delete(place[0])
        return "", {}
    return place


def _let_go(job: Job, moves: Moves) -> None:
    rounds = rounds_of(job, moves)
    if rounds:
        with job.crawl.lock:
            part = {"round_id": rounds}
            job.tables.replace("captures", followed(job, job.read("captures", part), moves), part)
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
        for kind in _BESIDES:
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
        if (
            day
            and datetime.datetime.fromisoformat(day[1]).replace(tzinfo=datetime.UTC).timestamp()
            + DAY_S
            <= before
        ):
            (folder / "urls.parquet").unlink(missing_ok=True)
            folder.rmdir()
            n += 1
    return n
