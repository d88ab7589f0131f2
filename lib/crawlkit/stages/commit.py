"""commit: the parts of a round -> captures and robots.

Contract: exactly one outcome for each planned row. A pure function of the pinned part list: the
earliest attempt's outcome wins (a real one over a deferral); a planned row that no part names is
deferred as slot_lost; a stored record that lost keeps its row with is_outcome = false.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window, functions as F

from crawlkit.model import Capture, RobotsCopy
from crawlkit.outcomes import Outcome, Reason
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.rules.robots import parser
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.stages.arrow import CHUNK_ROWS, arrow_schema
from crawlkit.tables import TABLES

READS = ("fetchlist",)  # and the parts of the round
WRITES = ("captures", "robots")

_TIMES = {"started", "ended", "fetched_at", "expires_at"}
_ROBOTS = (
    "origin string, host string, fetched_at double, status int, error string, final_url string,"
    " body binary, expires_at double, capture_id string, sitemaps array<string>"
)
_CAPTURE = ", ".join(
    f"{c.name} {'double' if c.name in _TIMES else c.type}" for c in TABLES["captures"].columns
)
_CAPTURE_NAMES = TABLES["captures"].column_names
_HOST = "host string, ended double, state_json string"
SCHEMA = (
    f"rec string, attempt int, n int, capture struct<{_CAPTURE}>, robots struct<{_ROBOTS}>, host"
    f" struct<{_HOST}>"
)


class Committed(NamedTuple):
    """captures, robots: rows of the tables of these names."""

    captures: DataFrame
    robots: DataFrame


def commit(planned: DataFrame, parts: DataFrame, round_id: str) -> Committed:
    """Rows of a round's parts (`read_parts`). planned: its fetch list."""
    return Committed(captures_of(planned, parts, round_id), robots_of(parts, round_id))


def count_outcomes(captures: DataFrame) -> dict[str, int]:
    """Planned rows by "outcome (reason)"."""
    counted = captures.where("is_outcome").groupBy("outcome", "reason").count().collect()
    return {r.outcome + (f" ({r.reason})" if r.reason else ""): r["count"] for r in counted}


def _sitemaps(copy: RobotsCopy, policy: UrlPolicy) -> list[str]:
    if copy.status is None or copy.status // 100 != 2 or not copy.body:
        return []
    return list(parser.parse(copy.body).sitemap_urls(f"{copy.origin}/robots.txt", policy))


def read_parts(
    spark: SparkSession,
    keys: list[str],
    read: Callable[[str], Iterable[tuple[int, int, object]]],
    policy: UrlPolicy,
    hosts_only: bool = False,
) -> DataFrame:
    """One row (SCHEMA) for each capture, robots copy and host state of the parts.

    Args:
        keys: of the part manifests.
        read: key -> (attempt, part number, record of model.py or host_state.py) of each record.
        policy: of the sitemap URLs that robots.txt names.
        hosts_only: host states alone.
    """
    schema = arrow_schema(spark, SCHEMA)

    def rows(key: str) -> Iterator[dict[str, object]]:
        for attempt, n, record in read(key):
            if isinstance(record, HostState) or not hosts_only:
                row = _part_row(record, policy)
                if row is not None:
                    yield {"attempt": attempt, "n": n, **row}

    def batches(it: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in it:
            for key in batch.column(0).to_pylist():
                of_part = rows(key)
                while chunk := list(itertools.islice(of_part, CHUNK_ROWS)):
                    yield pa.RecordBatch.from_pylist(chunk, schema)

    tasks = max(1, min(len(keys), spark.sparkContext.defaultParallelism))
    frame = spark.createDataFrame([(k,) for k in keys], "key string")
    return frame.repartition(tasks).mapInArrow(batches, SCHEMA)


def _part_row(record: object, policy: UrlPolicy) -> dict[str, object] | None:
    """The columns of SCHEMA of one record of a part; None for records that have none."""
    if isinstance(record, Capture):
        return {"rec": "capture", "capture": {c: getattr(record, c) for c in _CAPTURE_NAMES}}
    if isinstance(record, RobotsCopy):
        copy = {f: getattr(record, f) for f in record.__slots__}
        return {"rec": "robots", "robots": copy | {"sitemaps": _sitemaps(record, policy)}}
    if isinstance(record, HostState):
        state = {"ended": record.last_request_end or 0.0, "state_json": record.to_json()}
        return {"rec": "host", "host": {"host": record.host, **state}}
    return None


def captures_of(planned: DataFrame, parts: DataFrame, round_id: str) -> DataFrame:
    """The round's `captures`: outcomes of all planned rows, and stored records beside them."""
    got = parts.where("rec = 'capture'").select("capture.*")
    real = F.col("outcome") != str(Outcome.DEFERRED)
    order = Window.partitionBy("url_key", "kind", "is_outcome").orderBy(
        F.desc(real), "attempt", "seq"
    )
    ranked = got.withColumn("place", F.row_number().over(order))
    outcome = F.col("is_outcome") & (F.col("place") == 1)
    kept = (
        ranked.withColumn("is_outcome", outcome)
        .where(F.col("is_outcome") | F.col("warc_filename").isNotNull())
        .drop("place")
    )
    named = kept.where("is_outcome").select("url_key", "kind")
    lost = planned.join(named, ["url_key", "kind"], "left_anti").select(
        F.concat(
            F.lit(f"{round_id}-"),
            F.col("slot"),
            F.lit("-x-"),
            "kind",
            F.lit("-"),
            F.lower(F.hex("url_key")),
        ).alias("capture_id"),
        F.lit(round_id).alias("round_id"),
        "url_key",
        "url",
        "kind",
        "host",
        "slot",
        F.lit(-1).alias("attempt"),
        F.lit(0).cast("bigint").alias("seq"),
        F.lit(str(Outcome.DEFERRED)).alias("outcome"),
        F.lit(str(Reason.SLOT_LOST)).alias("reason"),
        F.lit(True).alias("is_outcome"),
    )
    return kept.unionByName(lost, allowMissingColumns=True)


def robots_of(parts: DataFrame, round_id: str) -> DataFrame:
    """The round's `robots`: one row for each fetched version."""
    return (
        parts.where("rec = 'robots'")
        .select("robots.*")
        .withColumns({"expires": F.col("expires_at"), "round_id": F.lit(round_id)})
        .dropDuplicates(["origin", "fetched_at"])
    )


def host_states(parts: DataFrame) -> DataFrame:
    """The newest politeness state of each host: host, state_json."""
    newest = Window.partitionBy("host.host").orderBy(
        F.desc("host.ended"), F.desc("attempt"), F.desc("n")
    )
    return (
        parts.where("rec = 'host'")
        .withColumn("place", F.row_number().over(newest))
        .where("place = 1")
        .select("host.host", "host.state_json")
    )
