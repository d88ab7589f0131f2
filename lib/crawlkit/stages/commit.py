"""commit: the parts of a round -> captures and robots. Exactly one outcome for each planned row.

A pure function of the pinned part list: the earliest attempt's outcome wins (a real one over a
deferral); a planned row that no part names is deferred as slot_lost; a stored record that lost
keeps its row with is_outcome = false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from crawlkit.model import Capture, RobotsCopy
from crawlkit.outcomes import Outcome, Reason
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.rules.robots import parser
from crawlkit.rules.url.canonical import UrlPolicy
from crawlkit.tables import TABLES

_TIMES = {"started", "ended", "fetched_at", "expires_at"}
_ROBOTS = (
    "origin string, host string, fetched_at double, status int, error string, final_url string,"
    " body binary, expires_at double, capture_id string, sitemaps array<string>"
)
_CAPTURE = ", ".join(
    f"{c.name} {'double' if c.name in _TIMES else c.type}" for c in TABLES["captures"].columns
)
_HOST = "host string, ended double, state_json string"
SCHEMA = (
    f"rec string, attempt int, n int, capture struct<{_CAPTURE}>, robots struct<{_ROBOTS}>, host"
    f" struct<{_HOST}>"
)


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
    """One row for each capture, robots copy and host state of the parts (or for the last alone).

    read(key) yields (attempt, part number, record of records.py or rules.politeness).
    """
    columns = [c.name for c in TABLES["captures"].columns]

    def rows(key: str) -> Iterator[dict[str, object]]:
        for attempt, n, r in read(key):
            base = {
                "rec": None,
                "attempt": attempt,
                "n": n,
                "capture": None,
                "robots": None,
                "host": None,
            }
            if hosts_only and not isinstance(r, HostState):
                continue
            if isinstance(r, Capture):
                yield base | {"rec": "capture", "capture": {c: getattr(r, c) for c in columns}}
            elif isinstance(r, RobotsCopy):
                yield base | {
                    "rec": "robots",
                    "robots": (
                        {f: getattr(r, f) for f in r.__slots__} | {"sitemaps": _sitemaps(r, policy)}
                    ),
                }
            elif isinstance(r, HostState):
                yield base | {
                    "rec": "host",
                    "host": {
                        "host": r.host,
                        "ended": r.last_request_end or 0.0,
                        "state_json": r.to_json(),
                    },
                }

    schema = _arrow_schema(spark)

    def batches(it: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in it:
            for key in batch.column(0).to_pylist():
                chunk: list[dict[str, object]] = []
                for row in rows(key):
                    chunk.append(row)
                    if len(chunk) == 2000:
                        yield pa.RecordBatch.from_pylist(chunk, schema)
                        chunk = []
                if chunk:
                    yield pa.RecordBatch.from_pylist(chunk, schema)

    frame = spark.createDataFrame([(k,) for k in keys], "key string")
    return frame.repartition(
        max(1, min(len(keys), spark.sparkContext.defaultParallelism))
    ).mapInArrow(batches, SCHEMA)


def _arrow_schema(spark: SparkSession) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(spark.createDataFrame([], SCHEMA).schema)


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
