"""rebuild: captures, pages, links and what was injected -> crawldb rows, one for each URL
that they name.

Contract: an event a URL and round from each source; all events of a URL come together in one task,
in order, and rules/frontier/replay.py makes its row of them. Memory is bounded by the events of one
URL.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from pyspark.sql import Column, DataFrame, functions as F

from crawlkit.config import Config
from crawlkit.rules.frontier.replay import FETCHED, ORDERED, READ, replay
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.stages.arrow import Row, map_rows
from crawlkit.stages.update import SEEN_TYPES, seen_of
from crawlkit.tables import TABLES

ROW = TABLES["crawldb"].columns
ROUNDS = "round_id string, no int, now double, settled boolean"
_EVENT = {
    "url_key": "binary",
    "no": "int",
    "phase": "int",
    "seq": "bigint",
    "now": "double",
    "url": "string",
    "source": "string",
    "fetch_kind": "string",
    "depth": "int",
    "redirects": "int",
    "parent_key": "binary",
    "priority_class": "int",
    "boost": "double",
    "due_at": "double",
    "force": "boolean",
    "mode": "string",
    "seen": f"struct<{SEEN_TYPES}>",
}
PLANNED = {
    "depth": "planned_depth",
    "redirects": "planned_redirects",
    "priority_class": "planned_class",
}


def _events(df: DataFrame) -> DataFrame:
    """`df` in the form of an event; what it lacks is null."""
    have = set(df.columns)
    return df.selectExpr(
        *[f"CAST({f'`{n}`' if n in have else 'NULL'} AS {t}) AS `{n}`" for n, t in _EVENT.items()]
    )


def select_plan() -> list[Column]:
    """Columns of a frontier row that a capture keeps, under their names there."""
    return [F.col(kept).alias(name) for name, kept in PLANNED.items()]


def outcomes(captures: DataFrame, pages: DataFrame, rounds: DataFrame) -> DataFrame:
    """Events of fetches.

    rounds (`ROUNDS`): `settled` where the outcomes went into the frontier (not those of an
    abandoned round).
    """
    done = (
        captures.where("is_outcome AND kind <> 'robots'")
        .join(F.broadcast(rounds.where("settled")), "round_id")
        .withColumn("retry_wait_s", F.lit(0.0))
    )
    about = done.select(
        "capture_id", "no", "now", "url", F.col("kind").alias("fetch_kind"), *select_plan()
    )
    seen = seen_of(done, pages, captures)
    return _events(
        seen.join(about, "capture_id").withColumns({"phase": F.lit(FETCHED), "seq": F.lit(0)})
    )


def link_events(links: DataFrame, captures: DataFrame, rounds: DataFrame) -> DataFrame:
    """Events of the links that a page's reading brought into the frontier: of a round's the
    shallowest, as parse chooses.
    """
    page = captures.select(
        "capture_id",
        F.coalesce("planned_depth", F.lit(0)).alias("page_depth"),
        F.coalesce("planned_redirects", F.lit(0)).alias("hops"),
        F.col("kind").alias("page_kind"),
    )
    redirect = F.col("kind") == "redirect"
    named = (
        links.where("refused IS NULL AND to_key IS NOT NULL")
        .join(page, "capture_id")
        .select(
            F.col("to_key").alias("url_key"),
            "round_id",
            F.col("to_url").alias("url"),
            F.when(F.col("kind").isin("redirect", "canonical"), F.col("kind"))
            .otherwise("link")
            .alias("source"),
            (F.col("page_depth") + F.when(redirect, 0).otherwise(1)).alias("depth"),
            F.when(redirect, F.col("hops") + 1).otherwise(0).alias("redirects"),
            F.col("from_key").alias("parent_key"),
            F.when(F.col("kind") == "feed", "feed")
            .when(redirect, F.col("page_kind"))
            .otherwise("page")
            .alias("fetch_kind"),
        )
    )
    best = (
        named.groupBy("url_key", "round_id")
        .agg(
            F.min_by(
                F.struct("url", "source", "depth", "redirects", "parent_key"),
                F.struct("depth", "redirects", "parent_key"),
            ).alias("b"),
            F.max(F.when(F.col("fetch_kind") != "page", F.col("fetch_kind"))).alias("special"),
        )
        .select(
            "url_key", "round_id", "b.*", F.coalesce("special", F.lit("page")).alias("fetch_kind")
        )
    )
    return _events(
        best.join(F.broadcast(rounds), "round_id").withColumns(
            {"phase": F.lit(READ), "seq": F.lit(0)}
        )
    )


def sightings(found: DataFrame, rounds: DataFrame) -> DataFrame:
    """Events of found rows (`crawldb_log`, `injected`)."""
    read = F.col("writer").isin("parse", "rebuild")
    at = (
        found.where("kind = 'found'")
        .drop("now")
        .join(F.broadcast(rounds), "round_id")
        .withColumns(
            {
                "phase": F.when(read, READ).otherwise(ORDERED),
                "due_at": F.col("due_at").cast("double"),
            }
        )
    )
    return _events(at)


def rows_of(events: DataFrame, cfg: Config, tasks: int) -> DataFrame:
    """`crawldb` rows of all events."""

    def rows(events: Iterator[Row]) -> Iterator[Row]:
        for key, of_url in itertools.groupby(events, key=lambda e: e["url_key"]):
            yield replay(key, of_url, cfg)

    ordered = events.repartition(tasks, "url_key").sortWithinPartitions(
        "url_key", "no", "phase", "seq", F.desc("source")
    )
    return map_rows(ordered, rows, ROW)


def plan_of(parts: DataFrame, round_id: str, cfg: Config) -> DataFrame:
    """The round's `fetchlist` as far as its parts know it: rows with an outcome."""
    outcomes = (
        parts.where("rec = 'capture' AND capture.is_outcome")
        .select("capture.*")
        .dropDuplicates(["url_key", "kind"])
        .withColumns({name: F.col(kept) for name, kept in PLANNED.items()})
    )

    def add_domain(rows: Iterator[Row]) -> Iterator[Row]:
        for r in rows:
            domain = registered_domain(r["host"])
            yield r | {
                "domain": domain,
                "host_bucket": host_bucket(domain, cfg.frontier.buckets),
            }

    kept = ("url_key", "url", "host", "kind", "slot", "depth", "redirects", "priority_class")
    columns = [c for c in TABLES["fetchlist"].columns if c.name in (*kept, "domain", "host_bucket")]
    made = map_rows(outcomes.select(*kept), add_domain, columns)
    return made.withColumn("round_id", F.lit(round_id))
