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

from crawlkit.adapters.lake.table_reader import Part
from crawlkit.adapters.store.spool_folder import spool_folder
from crawlkit.round.job import Job
from crawlkit.stages.fold import live_log
from crawlkit.tables import TABLES
from crawlkit.upkeep.frame_rows import distinct
from crawlkit.upkeep.reconcile import is_log_alone
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
        live = live_log(job.read("crawldb_log"), job.read("buckets"))
        waiting = live.select("min(updated_no) AS least").rows()[0]["least"]
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


def keep_injected(job: Job, part: Part | None = None) -> None:
    """Copy the log's seeds and commands into `injected`: they are stored nowhere else.

    The caller holds the commit lock.
    """
    ordered = job.read("crawldb_log", part).where(
        "kind = 'found' AND writer <> 'parse' AND writer <> 'rebuild'"
    )
    for round_id, writer in distinct(ordered, "round_id", "writer"):
        mine = {"round_id": [round_id], "writer": [writer]}
        job.tables.replace("injected", job.read("crawldb_log", mine), mine)


def pack(job: Job) -> dict[str, int]:
    """Join the small WARC files of each closed round into files of about warc.pack_bytes.

    The captures are repointed. Counts of files read and written.
    """
    limit = job.cfg.warc.pack_bytes
    open_ids = {r.id for r in job.crawl.open_rounds()}
    packed = {"files_in": 0, "files_out": 0}
    by_round: dict[str, list[str]] = defaultdict(list)
    stored = job.read("captures").where("warc_filename IS NOT NULL")
    for round_id, name in distinct(stored, "round_id", "warc_filename"):
        if round_id not in open_ids:
            by_round[round_id].append(name)
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
    rows = job.engine.from_rows(
        "old_name string, new_name string, shift bigint",
        [(old, new, shift) for old, (new, shift) in moves.items()],
    )
    changed = {
        "warc_filename": "coalesce(m.new_name, c.warc_filename)",
        "warc_record_offset": "c.warc_record_offset + coalesce(m.shift, 0)",
    }
    columns = [f"{changed.get(n, f'c.{n}')} AS {n}" for n in TABLES["captures"].column_names]
    query = f"""
        SELECT /*+ BROADCAST(m) */ {", ".join(columns)}
        FROM {{captures}} AS c LEFT JOIN {{moves}} AS m ON c.warc_filename = m.old_name
    """
    with job.crawl.lock:
        mine = {"round_id": [round_id]}
        moved = job.engine.query(query, captures=job.read("captures", mine), moves=rows)
        job.tables.replace("captures", moved, mine)


def remove_orphans(job: Job, clock_now: float) -> int:
    """Remove old WARC files that no capture names, and unfinished files and uploads; how many.

    Files of open rounds stay, as do files with only a log. clock_now: Unix s.
    """
    oldest_open = min((r.opened_at for r in job.crawl.open_rounds()), default=clock_now)
    before = min(clock_now - job.cfg.maintain.orphan_hours * 3600, oldest_open)
    stored = job.read("captures").where("warc_filename IS NOT NULL")
    named = {name for (name,) in distinct(stored, "warc_filename")}
    removed = 0
    for key in job.crawl.warc.list():
        if (
            key.endswith(".warc.gz")
            and key not in named
            and job.crawl.warc.modified(key) < before
            and not is_log_alone(job.crawl.warc, key)
        ):
            job.crawl.warc.delete(key)
            removed += 1
    return removed + sum(
        store.abort_unfinished(before) for store in (job.crawl.warc, job.crawl.objects, job.tables)
    )
