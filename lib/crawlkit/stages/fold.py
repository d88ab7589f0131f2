"""update, third part: the fold. crawldb and its log reduced to one row a key, and `buckets`.

The order (updated_no, writer, seq) decides, never the place of a row, so a log row that is already
in the base changes nothing, and half a fold is harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, functions as F

from crawlkit.tables import TABLES

ROW = [c for c in TABLES["crawldb"].column_names if c != "url_key"]
_SIGNALS = ("kind", "writer", "seq", "due_at", "force", "mode")


def reduce_rows(base: DataFrame, log: DataFrame, few: bool = False) -> DataFrame:
    """crawldb rows as they are once `log` is folded into `base`: one row for each url_key.

    The newest state row wins; a key without one takes its first found row. Found rows newer than
    the state lower the
    depth, tell a sitemap or feed from a page, make the URL due (`due_at`; `force` wakes the dead
    and refused too) and change priority as their mode says.
    few: the log's keys fit into each task's memory, so rows of the base that it does not name are
        not moved at all.
    """
    named = log.select("url_key").distinct()
    named = F.broadcast(named) if few else named
    rest = (
        base.select("url_key", *ROW)
        .join(named, "url_key", "left_anti")
        .withColumn("fetch_kind", F.coalesce("fetch_kind", F.lit("page")))
    )
    return _reduce(base.join(named, "url_key", "left_semi"), log).unionByName(rest)


SMALL_TABLE_BYTES = 64 << 20
FEW_ROWS = 1_000_000  # of the log: their keys are some 100 MB in a task


def _reduce(base: DataFrame, log: DataFrame) -> DataFrame:
    as_log = base.select(
        "url_key",
        *ROW,
        F.lit("state").alias("kind"),
        F.lit("").alias("writer"),
        F.lit(-1).cast("bigint").alias("seq"),
        F.lit(None).cast("timestamp").alias("due_at"),
        F.lit(False).alias("force"),
        F.lit(None).cast("string").alias("mode"),
    )
    rows = as_log.unionByName(log.select("url_key", *ROW, *_SIGNALS))
    state, found = F.col("kind") == "state", F.col("kind") == "found"
    whole = F.struct(*ROW)
    order = F.struct("updated_no", "writer", "seq")
    grouped = rows.groupBy("url_key").agg(
        F.max_by(F.when(state, whole), F.when(state, order)).alias("state"),
        F.min_by(F.when(found, whole), F.when(found, order)).alias("first"),
        F.min("depth").alias("min_depth"),
        F.coalesce(
            F.max(F.when(F.col("fetch_kind") != "page", F.col("fetch_kind"))), F.lit("page")
        ).alias("named_kind"),
        F.max(
            F.when(found & F.col("due_at").isNotNull(), F.struct("updated_no", "due_at", "force"))
        ).alias("signal"),
        F.max(
            F.when(
                found & F.col("mode").isin("update", "overwrite"),
                F.struct("updated_no", "seq", "mode", "priority_class", "boost"),
            )
        ).alias("change"),
    )
    row = F.coalesce("state", "first")
    kept = [row[c].alias(c) for c in ROW]
    out = grouped.select(
        "url_key",
        *kept,
        "min_depth",
        "named_kind",
        "signal",
        "change",
        F.col("state").isNotNull().alias("known"),
    )
    return _with_signals(out).select("url_key", *ROW)


def _with_signals(out: DataFrame) -> DataFrame:
    newer = F.col("signal").isNotNull() & (
        ~F.col("known") | (F.col("signal.updated_no") > F.col("updated_no"))
    )
    asleep = F.col("state").isin("dead", "refused")
    forced = newer & F.coalesce(F.col("signal.force"), F.lit(False))
    woken = (
        newer
        & ~asleep
        & (F.col("last_fetch").isNull() | (F.col("signal.due_at") > F.col("last_fetch")))
    )
    due: Column = (
        F.when(forced, F.col("signal.due_at"))
        .when(woken, F.least("next_fetch", "signal.due_at"))
        .otherwise(F.col("next_fetch"))
    )
    mode = F.col("change.mode")
    cls = (
        F.when(mode == "overwrite", F.col("change.priority_class"))
        .when(mode == "update", F.least("priority_class", "change.priority_class"))
        .otherwise(F.col("priority_class"))
    )
    boost = (
        F.when(mode == "overwrite", F.col("change.boost"))
        .when(mode == "update", F.greatest("boost", "change.boost"))
        .otherwise(F.col("boost"))
    )
    return out.withColumns(
        {
            "next_fetch": due,
            "state": F.when(forced & asleep, F.lit("queued")).otherwise(F.col("state")),
            "retries": F.when(forced, F.lit(0)).otherwise(F.col("retries")),
            "priority_class": cls,
            "boost": boost,
            "depth": F.least("depth", "min_depth"),
            "fetch_kind": F.col("named_kind"),
        }
    )


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


def live_log(log: DataFrame, buckets: DataFrame, again: int | None = None) -> DataFrame:
    """Log rows that are not in the base yet, by each bucket's `folded_through`, and those from the
    number `again` on: what is folded twice changes nothing.
    """
    through = F.broadcast(buckets.select("host_bucket", "folded_through"))
    return (
        log.join(through, "host_bucket", "left")
        .where(
            F.col("folded_through").isNull()
            | (F.col("updated_no") > F.least("folded_through", F.lit(again and again - 1)))
        )
        .drop("folded_through")
    )


def _due_columns(at: Column) -> list[Column]:
    return [
        F.min(F.when(F.col("priority_class") == c, at)).cast("double").alias(f"next_due_{c}")
        for c in range(4)
    ]


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


def bucket_summary(rows: DataFrame, folded_through: int | None) -> DataFrame:
    """`buckets` rows (times as Unix s) of freshly folded crawldb rows."""
    return (
        rows.groupBy("host_bucket")
        .agg(F.count("*").alias("rows"), *_due_columns(F.col("next_fetch")))
        .withColumns({"log_rows": F.lit(0), "folded_through": F.lit(folded_through)})
    )


def log_summary(log: DataFrame) -> DataFrame:
    """Live log rows of each bucket and when they make it due (Unix s)."""
    return log.groupBy("host_bucket").agg(
        F.count("*").alias("log_rows"), *_due_columns(F.coalesce("due_at", "next_fetch"))
    )


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
