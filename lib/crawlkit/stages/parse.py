"""parse: WARC records of a round's captures -> pages, links, found rows and rejects.

Contract: it never asks the network (G4); items in = pages + redirects + rejects by reason. The
tasks write the tables' data files themselves (parsing/table_files.py), and only found rows, counts
and the names of the files travel through Spark.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, functions as F

from crawlkit.config import Config
from crawlkit.parsing.capture import ReadRecord
from crawlkit.parsing.child import parse_isolated, warm_up
from crawlkit.parsing.discovery import ParseRules
from crawlkit.parsing.schemas import ITEM_COLUMNS, PARSED_SCHEMA, WRITTEN_SCHEMA
from crawlkit.parsing.sitemap import read_robots_sitemaps
from crawlkit.parsing.table_files import CountedBatches, Writer, write_tables
from crawlkit.stages.arrow import arrow_schema

READS = ("captures", "crawldb_log", "fetchlist", "host_ranks", "robots")  # and WARC records
WRITES = ("crawldb_log", "links", "pages", "rejects")
BATCH = 64


def to_parse(
    captures: DataFrame, fetchlist: DataFrame, host_ranks: DataFrame, vouching: DataFrame | None
) -> DataFrame:
    """The round's captures with something to read (ITEM_COLUMNS): each with where its payload is
    stored and its place in the frontier.

    A revisit of another URL's copy is read from that copy; a revisit of the URL's own copy is
    unchanged and not read again.

    Args:
        captures, fetchlist: of the round.
        vouching: `vouching_origins`; None: the round has no sitemaps.
    """
    done = captures.where(
        "is_outcome AND kind <> 'robots' AND outcome IN ('fetched', 'redirected')"
    )
    place = {"file": "filename", "offset": "record_offset", "length": "record_length"}
    copies = captures.where("record_type = 'response'").select(
        F.col("capture_id").alias("revisit_of"),
        *[F.col(f"warc_{stored}").alias(f"copy_{name}") for name, stored in place.items()],
    )
    ranks = host_ranks.select("host", "quality")
    at = (
        done.join(F.broadcast(copies), "revisit_of", "left")
        .join(F.broadcast(ranks), "host", "left")
        .withColumn("quality", F.coalesce("quality", F.lit(0.5)))
    )
    if vouching is None:
        at = at.withColumn("vouched", F.array().cast("array<string>"))
    else:
        at = at.join(F.broadcast(vouching), "url", "left")
    row = fetchlist.where("kind <> 'robots'").select("url_key", "depth", "redirects", "domain")
    own = F.col("record_type") == "response"
    stored_at = {
        name: F.when(own, F.col(f"warc_{stored}")).otherwise(F.col(f"copy_{name}"))
        for name, stored in place.items()
    }
    columns = [c.split(" ", 1)[0] for c in ITEM_COLUMNS]
    return (
        at.join(row, "url_key")
        .where(own | F.col("copy_file").isNotNull())
        .withColumns(stored_at)
        .select(*columns)
    )


def parse(
    items: DataFrame,
    read: ReadRecord,
    cfg: Config,
    now: float,
    writers: Mapping[str, Callable[[], Writer]],
    round_id: str,
) -> DataFrame:
    """Rows of WRITTEN_SCHEMA: the data files of pages, links and rejects, counts and found rows.

    Args:
        items: `to_parse`.
        read: of stored records (parsing/capture.py).
        now: nominal time of the round, Unix s.
        writers: of the tables pages, links and rejects.
    """
    schema = arrow_schema(items.sparkSession, WRITTEN_SCHEMA)
    rows = _parse_batches(items, read, cfg, now)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counted = CountedBatches(batches)
        yield from write_tables(rows(iter(counted)), counted, writers, round_id, schema)

    return _spread(items).mapInArrow(write, WRITTEN_SCHEMA)


def parse_rows(items: DataFrame, read: ReadRecord, cfg: Config, now: float) -> DataFrame:
    """Rows of PARSED_SCHEMA, one for each item; nothing is written.

    A task reports a link's found row again only when it is a better one.
    """
    rows = _parse_batches(items, read, cfg, now)
    return _spread(items).mapInArrow(lambda batches: rows(batches), PARSED_SCHEMA)


def _parse_batches(
    items: DataFrame, read: ReadRecord, cfg: Config, now: float
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    schema = arrow_schema(items.sparkSession, PARSED_SCHEMA)

    def parse_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rules = None
        for batch in batches:
            if rules is None:
                rules = ParseRules(cfg, now)
                warm_up(rules)
            rows = batch.to_pylist()
            groups = [rows[i : i + BATCH] for i in range(0, len(rows), BATCH)]
            yield from parse_isolated(groups, read, rules, schema)

    return parse_batches


def _spread(items: DataFrame) -> DataFrame:
    """Items in the order of their records, spread over as many tasks as can run at once."""
    tasks = items.sparkSession.sparkContext.defaultParallelism
    spread = items.repartitionByRange(tasks, "file", "offset")
    columns = [c.split(" ", 1)[0] for c in ITEM_COLUMNS]
    return spread.sortWithinPartitions("file", "offset").select(*columns)


def parse_robots_sitemaps(
    robots: DataFrame, fetchlist: DataFrame, cfg: Config, now: float
) -> DataFrame:
    """Rows of PARSED_SCHEMA, one for each robots.txt read in the round: the sitemaps it names.

    A sitemap is as deep as the origin's shallowest page of the round. An unavailable robots.txt
    (5xx, no answer) names none.
    """
    depth = fetchlist.where("kind <> 'robots'").groupBy("host").agg(F.min("depth").alias("depth"))
    read = (
        robots.where("status BETWEEN 200 AND 499 AND status <> 429")
        .join(F.broadcast(depth), "host", "left")
        .select("origin", "capture_id", "sitemaps", F.coalesce("depth", F.lit(0)).alias("depth"))
    )
    schema = arrow_schema(robots.sparkSession, PARSED_SCHEMA)

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rules = ParseRules(cfg, now)
        for batch in batches:
            found = [read_robots_sitemaps(r, rules) for r in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(found, schema)

    return read.mapInArrow(rows, PARSED_SCHEMA)


def vouching_origins(robots: DataFrame) -> DataFrame:
    """url, vouched: the origins whose robots.txt names this sitemap (sitemaps.org, "Sitemaps &
    Cross Submits").
    """
    return (
        robots.select("origin", F.explode("sitemaps").alias("url"))
        .groupBy("url")
        .agg(F.collect_set("origin").alias("vouched"))
    )


def rejects_of(rows: DataFrame, round_id: str) -> DataFrame:
    """`rejects` of the stage."""
    return (
        rows.select("capture_id", F.posexplode("rejects").alias("n", "r"))
        .select("capture_id", F.col("n").cast("bigint").alias("n"), "r.*")
        .withColumns({"round_id": F.lit(round_id), "stage": F.lit("parse")})
    )


def explode_found(rows: DataFrame) -> DataFrame:
    """The found rows of PARSED_SCHEMA's rows."""
    return rows.select(F.explode("found").alias("f")).select("f.*")


def keep_found(flat: DataFrame, round_id: str, round_no: int, now: float) -> DataFrame:
    """Found rows of crawldb_log: one for each distinct target, from the shallowest page (then the
    smallest key).
    """
    rest = [c for c in flat.columns if c not in ("url_key", "due_at", "fetch_kind")]
    special = F.coalesce(
        F.max(F.when(F.col("fetch_kind") != "page", F.col("fetch_kind"))), F.lit("page")
    )
    best = (
        flat.groupBy("url_key")
        .agg(
            F.min_by(F.struct(*rest), F.struct("depth", "redirects", "parent_key")).alias("b"),
            special.alias("fetch_kind"),
            F.max("due_at").alias("due"),
        )
        .select(
            "url_key",
            "b.*",
            "fetch_kind",
            F.timestamp_micros((F.col("due") * 1e6).cast("bigint")).alias("due_at"),
        )
    )
    at = F.timestamp_micros(F.lit(round(now * 1e6)))
    return best.withColumns(
        {
            "state": F.lit("queued"),
            "priority_class": F.when(F.col("fetch_kind") == "page", 2).otherwise(1),
            "boost": F.lit(0.0),
            "first_seen": at,
            "next_fetch": at,
            "retries": F.lit(0),
            "n_fetch": F.lit(0).cast("bigint"),
            "n_change": F.lit(0).cast("bigint"),
            "history": F.lit(""),
            "flags": F.array().cast("array<string>"),
            "updated_no": F.lit(round_no),
            "round_id": F.lit(round_id),
            "writer": F.lit("parse"),
            "kind": F.lit("found"),
            "seq": F.lit(0).cast("bigint"),
            "force": F.lit(False),
            "mode": F.lit("keep"),
        }
    )


def count_parsed(counted: Iterable[Row]) -> dict[str, Any]:
    """The stage's counts from those of its tasks (what, reason, n)."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for r in counted:
        counts[r.what][r.reason] += r.n
    pages, redirects = counts["pages"][""], counts["redirects"][""]
    return {
        "rows_in": counts["items"][""],
        "rows_out": pages + redirects,
        "rejected": dict(counts["rejected"]),
        "pages": pages,
        "links": counts["links"][""],
        "entries_refused": dict(counts["refused"]),
    }
