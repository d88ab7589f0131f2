"""What a purge removes: contents in WARC files, tables and part manifests, step by step."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyspark.sql import Column, DataFrame, functions as F

from crawlkit.adapters.store.parts import Record, encode_part, part_keys, read_part
from crawlkit.adapters.warc.rewrite import KEPT, blank_capture
from crawlkit.model import Capture, RobotsCopy
from crawlkit.outcomes import Outcome, Reason
from crawlkit.round.job import Job
from crawlkit.rules.url.canonical import url_key
from crawlkit.stages.cluster import cluster
from crawlkit.tables import TABLES
from crawlkit.upkeep.purge_frontier import forget_rows
from crawlkit.upkeep.purge_target import Target
from crawlkit.upkeep.warc_swap import Moves, repoint_captures, rewrite_without, rounds_of

_OF_CAPTURES = ("pages", "links", "rejects", "contents", "sim_bands")


def remove_contents(job: Job, target: Target, files: list[str]) -> dict[str, Any]:
    """The steps under the commit lock; counts, and the WARC files to delete (`replaced`)."""
    moves = _rewrite_files(job, target, files)
    captures = job.read("captures")
    ids = captures.where(target.column()).select("capture_id", "round_id").persist()
    try:
        rounds = _rounds_in(ids)
        lost = _lost_copies(captures, target, ids).persist()
        counts: dict[str, Any] = {
            "files": len(moves),
            "replaced": sorted(moves),
            "refetched": forget_rows(job, target, lost),
        }
        _blank_captures(job, target, rounds, moves)
        counts |= _RowRemoval(job, target, ids, rounds).run()
        counts["parts"] = _blank_parts(job, target)
    finally:
        ids.unpersist()
    _drop_old_versions(job)
    return counts


def _rewrite_files(job: Job, target: Target, files: list[str]) -> Moves:
    """Store each WARC file that holds something of the target without it."""
    is_target = target.matches_uri()
    moves = {}
    for name in files:
        if name not in job.crawl.warc.list(name):
            continue
        place = rewrite_without(
            job, name, str(target), lambda record: is_target(record.url), is_target
        )
        if place is not None:
            moves[name] = place
    return moves


def _rounds_in(rows: DataFrame) -> list[str]:
    """The round_ids in a frame, ascending."""
    return sorted(r[0] for r in rows.select("round_id").distinct().collect())


def _lost_copies(captures: DataFrame, target: Target, ids: DataFrame) -> DataFrame:
    """revisit_of, url_key, host of other captures whose body is stored with one of `ids`."""
    return (
        captures.where(~target.column())
        .join(ids.selectExpr("capture_id AS revisit_of"), "revisit_of", "left_semi")
        .select("revisit_of", "url_key", "host")
        .distinct()
    )


def _drop_old_versions(job: Job) -> None:
    """Remove older versions of the tables: they hold what is to be removed.

    `commands` stays: it is appended to without the commit lock, and has nothing of what was stored.
    """
    for name in set(TABLES) - {"commands"}:
        job.tables.compact(name, 0)


def _blank_captures(job: Job, target: Target, rounds: list[str], moves: Moves) -> None:
    """Empty the target's captures but for their requests, and repoint those beside them.

    The requests stay so that the pace can be audited. One commit.
    """
    part = {"round_id": sorted({*rounds, *rounds_of(job, moves)})}
    if not part["round_id"]:
        return
    is_target = target.column()
    values = {c: F.lit(None) for c in TABLES["captures"].column_names if c not in KEPT}
    values |= {"outcome": F.lit(str(Outcome.REFUSED)), "reason": F.lit(str(Reason.PURGED))}
    blanks = {c: F.when(is_target, v).otherwise(F.col(c)) for c, v in values.items()}
    captures = repoint_captures(job, job.read("captures", part), moves)
    job.tables.replace("captures", captures.withColumns(blanks), part)


class _RowRemoval:
    """Removes the target's rows from every other table that holds contents.

    `ids`: capture_id, round_id of the target's captures; `rounds`: their rounds.
    """

    def __init__(self, job: Job, target: Target, ids: DataFrame, rounds: list[str]) -> None:
        self._job = job
        self._target = target
        self._ids = ids.select("capture_id")
        self._rounds = rounds
        self._counts: Counter[str] = Counter()

    def run(self) -> dict[str, int]:
        """Removes them; rows removed by table."""
        self._drop_of_captures()
        self._drop_pairs()
        if self._target.kind != "url":
            self._drop_by("robots", self._target.of_hosts())
        self._drop_by("fetchlist", self._target.column())
        self._cluster_anew()
        self._drop_param_rules()
        return dict(self._counts)

    def _keep(self, table: str, rows: DataFrame, part: dict[str, Any] | None) -> None:
        """Replace a part of a table by fewer of its rows, if any are missing."""
        n = self._job.tables.count(table, part) - rows.count()
        if n:
            self._counts[table] += n
            self._job.tables.replace(table, rows, part)

    def _drop_of_captures(self) -> None:
        part = {"round_id": self._rounds}
        if not self._rounds:
            return
        for table in _OF_CAPTURES:
            if self._job.tables.exists(table):
                rows = self._job.read(table, part).join(self._ids, "capture_id", "left_anti")
                self._keep(table, rows, part)

    def _drop_pairs(self) -> None:
        """Near-duplicate pairs with a capture of the target on either side."""
        if not self._job.tables.exists("similar"):
            return
        pairs = self._job.read("similar")
        part = {"round_id": _rounds_in(pairs)}
        for side in ("a_capture", "b_capture"):
            pairs = pairs.join(self._ids.withColumnRenamed("capture_id", side), side, "left_anti")
        self._keep("similar", pairs, part)

    def _drop_by(self, table: str, condition: Column) -> None:
        """Rows of a table by round that meet a condition."""
        if not self._job.tables.exists(table):
            return
        of_hosts = self._job.read(table).where(self._target.of_hosts())
        part = {"round_id": _rounds_in(of_hosts)}
        if part["round_id"]:
            self._keep(table, self._job.read(table, part).where(~condition), part)

    def _cluster_anew(self) -> None:
        """Duplicate clusters have other members once texts are removed."""
        job = self._job
        if self._counts["contents"] and job.tables.exists("duplicates"):
            contents, similar, ranks = map(job.read, ("contents", "similar", "ranks"))
            job.tables.replace("duplicates", cluster(job.spark, contents, similar, ranks))

    def _drop_param_rules(self) -> None:
        if self._job.tables.exists("param_rules"):
            rows = self._job.read("param_rules").where(~self._target.of_hosts())
            self._keep("param_rules", rows, None)


def _blank_parts(job: Job, target: Target) -> int:
    """Blank the part manifests of all rounds, of abandoned ones too; how many were changed."""
    objects, n = job.crawl.objects, 0
    for round_id in job.crawl.round_ids():
        for part in part_keys(objects, f"parts/{round_id}/"):
            records = read_part(objects, part).records
            blank = _blank_records(records, target)
            if blank is not None:
                objects.put(part, encode_part(blank))
                n += 1
    return n


def _blank_records(records: list[Record], target: Target) -> list[Record] | None:
    """A part's records without the contents of the target; None if it holds none."""
    hosts = set(target.hosts)
    key = url_key(target.name) if target.kind == "url" else None
    kept, changed = [], False
    for r in records:
        if isinstance(r, RobotsCopy) and key is None and r.host in hosts:
            changed = True
            continue
        if isinstance(r, Capture) and r.reason != Reason.PURGED:
            is_target = r.url_key == key if key else r.host in hosts
            if is_target:
                r, changed = blank_capture(r), True
        kept.append(r)
    return kept if changed else None
