"""What a purge removes: contents in WARC files, tables and part manifests, step by step."""

from __future__ import annotations

from collections import Counter
from typing import Any

from crawlkit.adapters.store.parts import Record, encode_part, part_keys, read_part
from crawlkit.adapters.warc.rewrite import KEPT, blank_capture
from crawlkit.engine.frame import Frame
from crawlkit.model import Capture, RobotsCopy
from crawlkit.outcomes import Outcome, Reason
from crawlkit.round.job import Job
from crawlkit.rules.url.canonical import url_key
from crawlkit.stages.cluster import cluster
from crawlkit.tables import TABLES
from crawlkit.upkeep.frame_rows import change, distinct
from crawlkit.upkeep.purge_frontier import forget_rows
from crawlkit.upkeep.purge_target import Target
from crawlkit.upkeep.warc_swap import Moves, repoint_captures, rewrite_without, rounds_of

_OF_CAPTURES = ("pages", "links", "rejects", "contents", "sim_bands", "signals")


def remove_contents(job: Job, target: Target, files: list[str]) -> dict[str, Any]:
    """The steps under the commit lock; counts, and the WARC files to delete (`replaced`)."""
    moves = _rewrite_files(job, target, files)
    captures = job.read("captures")
    with job.engine.keep(target.of(captures).select("capture_id", "round_id")) as ids:
        rounds = _rounds_in(ids)
        lost = _lost_copies(target.without(captures), ids).rows()
        counts: dict[str, Any] = {
            "files": len(moves),
            "replaced": sorted(moves),
            "refetched": forget_rows(job, target, lost),
        }
        _blank_captures(job, target, rounds, moves)
        counts |= _RowRemoval(job, target, ids, rounds).run()
        counts["parts"] = _blank_parts(job, target)
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


def _rounds_in(rows: Frame) -> list[str]:
    """The round_ids in a frame, ascending."""
    return [round_id for (round_id,) in distinct(rows, "round_id")]


def _lost_copies(others: Frame, ids: Frame) -> Frame:
    """revisit_of, url_key, host of the `others` whose body is stored with one of `ids`."""
    query = """
        SELECT DISTINCT o.revisit_of, o.url_key, o.host
        FROM {others} AS o SEMI JOIN {ids} AS i ON o.revisit_of = i.capture_id
    """
    return others.engine.query(query, others=others, ids=ids)


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
    values = {c: "NULL" for c in TABLES["captures"].column_names if c not in KEPT}
    values |= {"outcome": f"'{Outcome.REFUSED}'", "reason": f"'{Reason.PURGED}'"}
    blanks = {c: f"CASE WHEN is_target THEN {v} ELSE {c} END" for c, v in values.items()}
    captures = repoint_captures(job.read("captures", part), moves)
    job.tables.replace("captures", change(target.mark(captures), blanks), part)


class _RowRemoval:
    """Removes the target's rows from every other table that holds contents.

    `ids`: capture_id, round_id of the target's captures; `rounds`: their rounds.
    """

    def __init__(self, job: Job, target: Target, ids: Frame, rounds: list[str]) -> None:
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
            self._drop_by_round("robots")
        self._drop_by_round("fetchlist")
        self._cluster_anew()
        self._drop_param_rules()
        return dict(self._counts)

    def _keep(self, table: str, rows: Frame, part: dict[str, Any] | None) -> None:
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
                self._keep(table, self._others(self._job.read(table, part), "capture_id"), part)

    def _others(self, rows: Frame, column: str) -> Frame:
        """The rows whose capture (in a column) is none of the target's."""
        query = f"SELECT r.* FROM {{rows}} AS r ANTI JOIN {{ids}} AS i ON r.{column} = i.capture_id"
        return rows.engine.query(query, rows=rows, ids=self._ids)

    def _drop_pairs(self) -> None:
        """Near-duplicate pairs with a capture of the target on either side."""
        if not self._job.tables.exists("similar"):
            return
        pairs = self._job.read("similar")
        part = {"round_id": _rounds_in(pairs)}
        for side in ("a_capture", "b_capture"):
            pairs = self._others(pairs, side)
        self._keep("similar", pairs, part)

    def _drop_by_round(self, table: str) -> None:
        """The target's rows of a table that is partitioned by round."""
        if not self._job.tables.exists(table):
            return
        part = {"round_id": _rounds_in(self._target.of(self._job.read(table)))}
        if part["round_id"]:
            self._keep(table, self._target.without(self._job.read(table, part)), part)

    def _cluster_anew(self) -> None:
        """Duplicate clusters have other members once texts are removed."""
        job = self._job
        if self._counts["contents"] and job.tables.exists("duplicates"):
            contents, similar, ranks = map(job.read, ("contents", "similar", "ranks"))
            job.tables.replace("duplicates", cluster(contents, similar, ranks))

    def _drop_param_rules(self) -> None:
        if self._job.tables.exists("param_rules"):
            rows = self._target.without(self._job.read("param_rules"), by_host=True)
            self._keep("param_rules", rows, None)


def _blank_parts(job: Job, target: Target) -> int:
    """Blank the part manifests of all rounds, of abandoned ones too; how many were changed."""
    _drop_log_lines(job, target)
    objects, n = job.crawl.objects, 0
    for round_id in job.crawl.round_ids():
        for part in part_keys(objects, f"parts/{round_id}/"):
            records = read_part(objects, part).records
            blank = _blank_records(records, target)
            if blank is not None:
                objects.put(part, encode_part(blank))
                n += 1
    return n


def _drop_log_lines(job: Job, target: Target) -> None:
    """Take the target's requests out of the request logs."""
    objects, is_target = job.crawl.objects, target.matches_uri()
    for round_id in job.crawl.round_ids():
        for key in objects.list(f"logs/{round_id}/"):
            lines = objects.get(key)[0].decode("utf-8", "replace").splitlines(keepends=True)
            kept = [line for line in lines if not is_target(_url_of(line))]
            if len(kept) < len(lines):
                objects.put(key, "".join(kept).encode())


def _url_of(line: str) -> str:
    columns = line.split(" ", 4)
    return columns[3] if len(columns) > 4 else ""


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
