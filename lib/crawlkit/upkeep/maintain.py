"""maintain: drops folded log rows, removes old data, packs small WARC files, compacts tables.

Every step can be repeated and can die at any point: a packed file is complete before a capture
names it, and files that no capture names are removed only when they are old.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from crawlkit.adapters.lake.table_reader import Part
from crawlkit.adapters.store.objects import ObjectMissing
from crawlkit.adapters.store.spool_folder import spool_folder
from crawlkit.adapters.warc.capture_log import only_log
from crawlkit.outcomes import Refused
from crawlkit.round.job import Job
from crawlkit.tables import TABLES
from crawlkit.upkeep.retention import expire


def maintain(job: Job, now: float) -> dict[str, Any]:
    """Everything, once; counts by step."""
    out: dict[str, Any] = {}
    for name, text, step in (
        ("log_rows_dropped", "dropping log rows that are folded", lambda: drop_folded(job)),
        ("expired", "removing what is too old", lambda: expire(job, now)),
        ("packed", "packing small WARC files", lambda: pack(job)),
        ("orphans_removed", "removing orphans", lambda: remove_orphans(job, time.time())),
    ):
        job.report_step(text)
        out[name] = step()
    job.report_step("compacting tables")
    with job.crawl.lock:
        # tasks of an open round may have written files that no commit names yet
        open_s = max((time.time() - r.opened_at for r in job.crawl.open_rounds()), default=0.0)
        for name in TABLES:
            job.tables.compact(name, max(job.cfg.maintain.vacuum_hours, open_s / 3600))
    out["dead_urls"] = (
        job.read("crawldb").where("state = 'dead'").count() if job.tables.exists("crawldb") else 0
    )
    out["tables_bytes"] = {
        name: job.tables.bytes(name) for name in TABLES if job.tables.exists(name)
    }
    return out


def drop_folded(job: Job) -> int:
    """Remove log rows that every bucket has folded and whose rounds are closed."""

    if not job.tables.exists("crawldb_log"):
        return 0
    with job.crawl.lock:
        waiting = (
            job.read("crawldb_log")
            .select("host_bucket", "updated_no")
            .join(
                job.read("buckets").select("host_bucket", "folded_through"), "host_bucket", "left"
            )
            .where(
                F.col("folded_through").isNull() | (F.col("updated_no") > F.col("folded_through"))
            )
            .agg(F.min("updated_no"))
            .collect()[0][0]
        )
        open_no = min((r.no for r in job.crawl.open_rounds()), default=2**31 - 1)
        through = min(waiting if waiting is not None else 2**31 - 1, open_no) - 1
        folded = {
            "round_id": [r for r in job.crawl.round_ids() if job.crawl.round(r).no <= through]
        }
        n = job.tables.count("crawldb_log", folded)
        if n:
            keep_injected(job, folded)
            job.tables.replace("crawldb_log", [], folded)
    return n


def keep_injected(job: Job, part: "Part | None" = None) -> None:
    """Copy the log's seeds and commands into `injected`: they are stored nowhere else.

    The caller holds the commit lock.
    """
    ordered = job.read("crawldb_log", part).where(
        "kind = 'found' AND writer <> 'parse' AND writer <> 'rebuild'"
    )
    for r in sorted(ordered.select("round_id", "writer").distinct().collect()):
        mine = {"round_id": [r.round_id], "writer": [r.writer]}
        job.tables.replace("injected", job.read("crawldb_log", mine), mine)


def pack(job: Job) -> dict[str, int]:
    """Join the small WARC files of each closed round into files of about warc.pack_bytes.

    The captures are repointed. Counts of files read and written.
    """
    limit = job.cfg.warc.pack_bytes
    open_ids = {r.id for r in job.crawl.open_rounds()}
    packed = {"files_in": 0, "files_out": 0}
    by_round: dict[str, list[str]] = defaultdict(list)
    for r in (
        job.read("captures")
        .where("warc_filename IS NOT NULL")
        .select("round_id", "warc_filename")
        .distinct()
        .collect()
    ):
        if r.round_id not in open_ids:
            by_round[r.round_id].append(r.warc_filename)
    for round_id, names in sorted(by_round.items()):
        groups = _groups(job, sorted(names), limit)
        moves: dict[str, tuple[str, int]] = {}
        for group in groups:
            target = (
                f"{job.cfg.crawl.id}-packed-{round_id}-"
                f"{Path(group[0]).name.removesuffix('.warc.gz')}.warc.gz"
            )
            moves |= _join_files(job, group, target)
            packed["files_in"] += len(group)
            packed["files_out"] += 1
        if moves:
            _move_captures(job, round_id, moves)
    return packed


def _groups(job: Job, names: list[str], limit: int) -> list[list[str]]:
    """Runs of files that fit together below `limit`; a file alone stays where it is."""
    groups: list[list[str]] = []
    size = limit
    for name in names:
        n = job.crawl.warc.size(name)
        if size + n > limit:
            groups.append([])
            size = 0
        groups[-1].append(name)
        size += n
    return [g for g in groups if len(g) > 1]


def _join_files(job: Job, names: list[str], target: str) -> dict[str, tuple[str, int]]:
    """Write the gzip members of `names` after one another; old name -> (new name, offset shift)."""
    moves, at = {}, 0
    folder = spool_folder(job.cfg, job.crawl.warc_place)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix="pack-", suffix=".tmp") as tmp:
        for name in names:
            moves[name] = (target, at)
            with job.crawl.warc.open_range(name) as src:
                shutil.copyfileobj(src, tmp, 1 << 20)
            at = tmp.tell()
        tmp.flush()
        if (
            not job.crawl.warc.put_file_if_absent(target, Path(tmp.name))
            and job.crawl.warc.size(target) != at
        ):
            raise RuntimeError(
                f"{target} exists with another size: remove it if no capture names it"
            )
    return moves


def _move_captures(job: Job, round_id: str, moves: dict[str, tuple[str, int]]) -> None:

    rows = job.spark.createDataFrame(
        [(old, new, shift) for old, (new, shift) in moves.items()],
        "warc_filename string, new_name string, shift bigint",
    )
    with job.crawl.lock:
        mine = {"round_id": [round_id]}
        moved = (
            job.read("captures", mine)
            .join(F.broadcast(rows), "warc_filename", "left")
            .withColumns(
                {
                    "warc_record_offset": (
                        F.col("warc_record_offset") + F.coalesce("shift", F.lit(0))
                    ),
                    "warc_filename": F.coalesce("new_name", "warc_filename"),
                }
            )
        )
        job.tables.replace("captures", moved, mine)


def remove_orphans(job: Job, clock_now: float) -> int:
    """Remove old WARC files that no capture names, and unfinished files and uploads; how many.

    Files of open rounds stay, as do files with only a log. clock_now: Unix s.
    """
    oldest_open = min((r.opened_at for r in job.crawl.open_rounds()), default=clock_now)
    before = min(clock_now - job.cfg.maintain.orphan_hours * 3600, oldest_open)
    named = {
        r[0]
        for r in (
            job.read("captures")
            .where("warc_filename IS NOT NULL")
            .select("warc_filename")
            .distinct()
            .collect()
        )
    }
    removed = 0
    for key in job.crawl.warc.list():
        if (
            key.endswith(".warc.gz")
            and key not in named
            and job.crawl.warc.modified(key) < before
            and not _log_alone(job, key)
        ):
            job.crawl.warc.delete(key)
            removed += 1
    return removed + sum(
        store.abort_unfinished(before) for store in (job.crawl.warc, job.crawl.objects, job.tables)
    )


def _log_alone(job: Job, key: str) -> bool:
    """Whether a file holds only the log of requests without a response.

    No capture can name it, and `rebuild --from-warc` needs it.
    """
    try:
        with job.crawl.warc.open_range(key) as file:
            return only_log(file)
    except (Refused, ObjectMissing):
        return False
