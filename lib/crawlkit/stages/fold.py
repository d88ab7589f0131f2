"""update, third part: the fold. crawldb and its log reduced to one row a key, and `buckets`.

The order (updated_no, writer, seq) decides, never the place of a row, so a log row that is already
in the base changes nothing, and half a fold is harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from crawlkit.engine.frame import Frame
from crawlkit.rules.frontier.claims import HINT_SOURCES, HINTED
from crawlkit.rules.frontier.lifecycle import DUPLICATE, FETCH_KIND
from crawlkit.rules.frontier.schedule import FORCED
from crawlkit.rules.render.waiting_pages import due_sql
from crawlkit.tables import TABLES

ROW = [c for c in TABLES["crawldb"].column_names if c != "url_key"]
_SIGNALS = ("kind", "writer", "seq", "due_at", "force", "mode")
SMALL_TABLE_BYTES = 64 << 20
FEW_ROWS = 1_000_000  # of the log: their keys are some 100 MB in a task
_DUPLICATE = f"split('{DUPLICATE}', ',')"
_FLAGS = (
    f"CASE WHEN is_duplicate = 1 THEN array_sort(array_union(flags, {_DUPLICATE}))"
    f" WHEN is_duplicate = 0 THEN array_remove(flags, '{DUPLICATE}') ELSE flags END"
)
_CHANGED = {  # what found rows change in a row that is known, beside its kind
    "next_fetch": "CASE WHEN forced THEN due_at WHEN woken THEN least(next_fetch, due_at)"
    " ELSE next_fetch END",
    "state": "CASE WHEN forced AND asleep THEN 'queued' ELSE state END",
    "retries": "CASE WHEN forced THEN 0 ELSE retries END",
    "priority_class": "CASE WHEN mode = 'overwrite' THEN new_class"
    " WHEN mode = 'update' THEN least(priority_class, new_class) ELSE priority_class END",
    "boost": "CASE WHEN mode = 'overwrite' THEN new_boost"
    " WHEN mode = 'update' THEN greatest(boost, new_boost) ELSE boost END",
    "metadata": "CASE WHEN mode = 'overwrite' THEN new_metadata"
    " WHEN mode = 'update' THEN coalesce(new_metadata, metadata) ELSE metadata END",
    "depth": "least(depth, min_depth)",
    "fetch_kind": "named_kind",
    "flags": f"CASE WHEN forced THEN array_sort(array_union({_FLAGS}, split('{FORCED}', ',')))"
    " WHEN woken AND is_hint = 1 AND due_at < next_fetch"
    f" THEN array_sort(array_union({_FLAGS}, split('{HINTED}', ','))) ELSE {_FLAGS} END",
}


def reduce_rows(base: Frame, log: Frame, few: bool = False, due: str = "next_fetch") -> Frame:
    """crawldb rows as they are once `log` is folded into `base`: one row for each url_key.

    The newest state row wins; a key without one takes its first found row. Found rows newer than
    the state lower the depth, tell a sitemap or feed from a page, make the URL due (`due_at`;
    `force` wakes the dead and refused too) and change priority as their mode says. The newest row
    of kind flags says whether the URL is another's duplicate.
    few: the log's keys fit into each task's memory, so rows of the base that it does not name are
        not moved at all.
    due: SQL of the rows' next_fetch (rules/frontier/schedule.py).
    """
    rows = base.engine.query(_reduce_sql(few), base=base, log=log)
    columns = ", ".join(f"{due} AS {c}" if c == "next_fetch" else c for c in ROW)
    return base.engine.query(f"SELECT url_key, {columns} FROM {{rows}}", rows=rows)


def _reduce_sql(few: bool) -> str:
    hint = "/*+ BROADCAST(named) */" if few else ""
    changed = ", ".join(f"{_CHANGED[c]} AS {c}" if c in _CHANGED else c for c in ROW)
    rest = ", ".join("coalesce(fetch_kind, 'page')" if c == "fetch_kind" else c for c in ROW)
    return f"""
        WITH named AS (SELECT DISTINCT url_key FROM {{log}}),
        {_PLACED.replace("$hint", hint)},
        {_DECIDED}
        SELECT url_key, {changed} FROM decided
        UNION ALL
        SELECT {hint} url_key, {rest} FROM {{base}} ANTI JOIN named USING (url_key)
    """


_COLUMNS = ", ".join(["url_key", *ROW])
_NOTHING = "CAST(NULL AS timestamp) AS due_at, false AS force, CAST(NULL AS string) AS mode"
# All rows of a key, each with its place in three orders. The first of `place` wins: state rows, the
# newest before the others; then found rows, the oldest before the others. All windows have one
# partitioning, so that Spark moves the rows once.
_PLACED = f"""
    together AS (
        SELECT $hint {_COLUMNS}, 'state' AS kind, '' AS writer, CAST(-1 AS bigint) AS seq,
            {_NOTHING}
        FROM {{base}} SEMI JOIN named USING (url_key)
        UNION ALL SELECT {_COLUMNS}, kind, writer, seq, due_at, force, mode FROM {{log}}
    ),
    marked AS (
        SELECT *, kind = 'found' AND due_at IS NOT NULL AS is_signal,
            coalesce(kind = 'found' AND mode IN ('update', 'overwrite'), false) AS is_change,
            kind = 'flags' AS is_flags
        FROM together
    ),
    placed AS (
        SELECT *, min(depth) OVER (PARTITION BY url_key) AS min_depth,
            {FETCH_KIND.replace("$1", "OVER (PARTITION BY url_key)")} AS named_kind,
            row_number() OVER (PARTITION BY url_key ORDER BY
                CASE WHEN kind = 'state' THEN 0 ELSE 1 END,
                CASE WHEN kind = 'state' THEN updated_no END DESC,
                CASE WHEN kind = 'state' THEN writer END DESC,
                CASE WHEN kind = 'state' THEN seq END DESC,
                updated_no, writer, seq) AS place,
            row_number() OVER (PARTITION BY url_key ORDER BY
                is_signal DESC, updated_no DESC, due_at DESC, force DESC, source) = 1 AND is_signal
                AS signals,
            row_number() OVER (PARTITION BY url_key ORDER BY
                is_change DESC, updated_no DESC, seq DESC, mode DESC, priority_class DESC,
                boost DESC) = 1 AND is_change AS changes,
            row_number() OVER (PARTITION BY url_key ORDER BY
                is_flags DESC, updated_no DESC, seq DESC) = 1 AND is_flags AS flagged
        FROM marked
    )"""
_OF_KEY = "OVER (PARTITION BY url_key)"
_HINTS = ", ".join(f"'{source}'" for source in HINT_SOURCES)
# Each key's first row with what the newest signal and the newest change of found rows say.
_DECIDED = f"""
    told AS (
        SELECT {_COLUMNS}, kind, place, min_depth, named_kind,
            max(CASE WHEN signals THEN updated_no END) {_OF_KEY} AS signal_no,
            max(CASE WHEN signals THEN due_at END) {_OF_KEY} AS due_at,
            max(CASE WHEN signals AND force THEN 1 ELSE 0 END) {_OF_KEY} AS force,
            max(CASE WHEN signals AND source IN ({_HINTS}) THEN 1 ELSE 0 END) {_OF_KEY} AS is_hint,
            max(CASE WHEN changes THEN mode END) {_OF_KEY} AS mode,
            max(CASE WHEN changes THEN priority_class END) {_OF_KEY} AS new_class,
            max(CASE WHEN changes THEN boost END) {_OF_KEY} AS new_boost,
            max(CASE WHEN changes THEN metadata END) {_OF_KEY} AS new_metadata,
            max(CASE WHEN flagged THEN size(flags) END) {_OF_KEY} AS is_duplicate
        FROM placed
    ),
    kept AS (
        SELECT *, coalesce(state IN ('dead', 'refused'), false) AS asleep,
            signal_no IS NOT NULL
                AND (kind <> 'state' OR coalesce(signal_no > updated_no, false)) AS newer
        FROM told WHERE place = 1 AND kind <> 'flags'
    ),
    decided AS (
        SELECT *, newer AND force = 1 AS forced,
            newer AND NOT asleep AND (last_fetch IS NULL OR due_at > last_fetch) AS woken
        FROM kept
    )"""


def all_in(round_no: int, others: Iterable[int]) -> int:
    """Number through which all rows are in the log when a round folds: rows of the `others` that
    are open may yet come.
    """
    return min(others, default=round_no + 1) - 1


def fold_limit(through: Iterable[int | None], again: int | None = None) -> int | None:
    """No row up to this number is live in any bucket; None: any may be.

    through: `folded_through` of the buckets (one that is not there yet has no older row); again: as
    in `live_log`.
    """
    given = [*through]
    numbers = [n for n in given if n is not None]
    if not given or len(numbers) < len(given):
        return None
    return min([*numbers, *([] if again is None else [again - 1])])


def live_log(log: Frame, buckets: Frame, again: int | None = None) -> Frame:
    """Log rows that are not in the base yet, by each bucket's `folded_through`, and those from the
    number `again` on: what is folded twice changes nothing.
    """
    limit = "folded_through" if again is None else f"least(folded_through, {again - 1})"
    query = f"""
        SELECT /*+ BROADCAST(b) */ l.* FROM {{log}} AS l
        LEFT JOIN (SELECT host_bucket AS bucket, folded_through FROM {{buckets}}) AS b
        ON l.host_bucket = b.bucket
        WHERE folded_through IS NULL OR l.updated_no > {limit}
    """
    return log.engine.query(query, log=log, buckets=buckets)


def _due_columns(at: str) -> str:
    return ", ".join(
        f"min(CASE WHEN r.priority_class = {c} THEN {at} END) AS next_due_{c}" for c in range(4)
    )


def choose_fold(
    log_rows: Iterable[Mapping[str, Any]], table_bytes: int, log_bytes: int
) -> list[int]:
    """Which buckets to fold: all with log rows while the table is small, else the share 1/k with
    the most log rows (docs/round.md).

    k = table bytes / (2 x log bytes): about 3 bytes are written for each changed byte.
    log_rows: `log_summary`.
    """
    rows = sorted(log_rows, key=lambda r: (-r["log_rows"], r["host_bucket"]))
    if not rows:
        return []
    large = log_bytes and table_bytes > SMALL_TABLE_BYTES
    k = max(1.0, table_bytes / (2.0 * log_bytes)) if large else 1.0
    return sorted(r["host_bucket"] for r in rows[: max(1, round(len(rows) / k))])


def bucket_summary(
    rows: Frame, folded_through: int | None, hostdb: Frame | None
) -> list[dict[str, Any]]:
    """`buckets` rows (times as Unix s) of freshly folded crawldb rows.

    hostdb: what the renders of hosts brought, by which pages that wait for one are due; None: pages
    are not rendered.
    """
    counted = _summarize(rows, "count(*) AS `rows`", "{due}", hostdb)
    return [r | {"log_rows": 0, "folded_through": folded_through} for r in counted]


def log_summary(log: Frame, hostdb: Frame | None) -> list[dict[str, Any]]:
    """Live log rows of each bucket and when they make it due (Unix s). hostdb: as in
    `bucket_summary`.
    """
    return _summarize(log, "count(*) AS log_rows", "coalesce(r.due_at, {due})", hostdb)


def _summarize(rows: Frame, count: str, due: str, hostdb: Frame | None) -> list[dict[str, Any]]:
    """Rows of each bucket, counted, and when they make it due."""
    join = "" if hostdb is None else "LEFT JOIN {hostdb} AS h ON r.host = h.host"
    due_at = due.format(due=due_sql("r", None if hostdb is None else "h"))
    query = f"""
        SELECT r.host_bucket, {count}, {_due_columns(due_at)}
        FROM {{rows}} AS r {join} GROUP BY r.host_bucket
    """
    frames = {} if hostdb is None else {"hostdb": hostdb}
    return rows.engine.query(query, rows=rows, **frames).rows()


def merge_summaries(
    known: Mapping[int, Mapping[str, Any]],
    folded: Mapping[int, Mapping[str, Any]],
    waiting: Iterable[Mapping[str, Any]],
    through: int,
    again: int | None = None,
) -> dict[int, dict[str, Any]]:
    """`buckets` rows by bucket: those folded anew, and those whose log rows wait, made due by them.

    through: the number through which all rows are in the log; a bucket without live rows is folded
    through it, so that older files need not be read. A waiting bucket keeps the earlier of the
    times, so it may be looked at in vain, never too late; if rows from the number `again` on wait
    in it, it is folded through no more than those before them.
    """
    waiting = list(waiting)
    idle = {
        b: dict(r) | {"folded_through": max(through, r["folded_through"] or 0)}
        for b, r in known.items()
        if b not in {w["host_bucket"] for w in waiting}
    }
    out = {b: dict(r) for b, r in known.items()} | idle | {b: dict(r) for b, r in folded.items()}
    for r in waiting:
        row = out.setdefault(
            r["host_bucket"], {"host_bucket": r["host_bucket"], "rows": 0, "folded_through": None}
        )
        row["log_rows"] = r["log_rows"]
        row["folded_through"] = fold_limit([row["folded_through"]], again)
        for name in ("next_due_0", "next_due_1", "next_due_2", "next_due_3"):
            row[name] = min((t for t in (row.get(name), r[name]) if t is not None), default=None)
    return out
