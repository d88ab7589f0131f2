"""update, second part: what a round learned of its hosts -> rows of hostdb."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column, DataFrame, functions as F

from crawlkit.config import Config
from crawlkit.model import Round
from crawlkit.rules.frontier.regions import region_of
from crawlkit.rules.frontier.schedule import host_class
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.rules.politeness.hostdb_columns import hostdb_columns
from crawlkit.stages.arrow import Row, map_rows
from crawlkit.tables import TABLES

COLUMNS = TABLES["hostdb"].columns


def _times_as_seconds() -> dict[str, Column]:
    return {c.name: F.col(c.name).cast("double") for c in COLUMNS if c.type == "timestamp"}


def host_rows(
    hostdb: DataFrame,
    planned: DataFrame,
    captures: DataFrame,
    states: DataFrame,
    round_: Round,
    clock_now: float,
    cfg: Config,
) -> DataFrame:
    """hostdb rows of the round's hosts, and all other rows of their buckets unchanged.

    Args:
        hostdb: rows of the touched buckets only.
        planned, captures: of the round. states: host, state_json of its slots.
        clock_now: real time (Unix s), for the pace; the round's nominal time is `first_seen`.
    """
    hosts = planned.select("host", "domain", "host_bucket").dropDuplicates(["host"])
    counts = captures.groupBy("host").agg(
        F.count(
            F.when((F.col("kind") == "page") & F.col("outcome").isin("fetched", "not_modified"), 1)
        ).alias("new_pages"),
        F.count("started").alias("new_requests"),
    )
    joined = (
        hosts.join(states, "host", "left")
        .join(counts, "host", "left")
        .join(
            hostdb.drop("domain", "host_bucket").withColumnRenamed("state_json", "old_state"),
            "host",
            "left",
        )
    )
    number, now = round_.no, round_.now

    def next_rows(rows: Iterator[Row]) -> Iterator[Row]:
        for r in rows:
            yield next_host_row(r, number, now, clock_now, cfg)

    fresh = map_rows(joined.withColumns(_times_as_seconds()), next_rows, COLUMNS)
    return fresh.unionByName(
        hostdb.join(F.broadcast(hosts.select("host")), "host", "left_anti").select(fresh.columns)
    )


def next_host_row(
    row: Row, round_no: int, now: float, clock_now: float, cfg: Config
) -> dict[str, Any]:
    """A host's row of hostdb after the round.

    The round's counts are added once, whether this is its first run or a repeat (N2).
    """
    text = row["state_json"] or row["old_state"]
    state = HostState.from_json(text) if text else HostState(row["host"])
    counted = row["updated_no"] is not None and row["updated_no"] >= round_no
    return {
        **row,
        **hostdb_columns(state, clock_now, cfg),
        "state_json": text,
        "class": host_class(row["host"], cfg.schedule),
        "region": region_of(row["domain"], cfg.fetch),
        "pages": (row["pages"] or 0) + (0 if counted else row["new_pages"] or 0),
        "requests": (row["requests"] or 0) + (0 if counted else row["new_requests"] or 0),
        "blacklisted": bool(row["blacklisted"]) or state.barred,
        "first_seen": now if row["first_seen"] is None else row["first_seen"],
        "updated_no": round_no,
    }
