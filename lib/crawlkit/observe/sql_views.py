"""The views over the tables, registered in a Spark session."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from crawlkit.exports.cc_index import SCHEMA
from crawlkit.observe.views import VIEWS
from crawlkit.round.job import Job
from crawlkit.rules.warc.cc_index_rows import CAPTURE, COLUMNS, PAGE, cc_row
from crawlkit.stages.fold import live_log, reduce_rows
from crawlkit.tables import TABLES


def register_views(job: Job) -> None:
    """Register temporary views of all tables and of VIEWS in the job's session.

    `frontier` is base and live log reduced.
    """

    for name in TABLES:
        job.read(name).createOrReplaceTempView(name)
    reduce_rows(
        job.read("crawldb"), live_log(job.read("crawldb_log"), job.read("buckets"))
    ).createOrReplaceTempView("frontier")
    for name, sql in VIEWS.items():
        job.spark.sql(sql).createOrReplaceTempView(name)
    cc_index(job).createOrReplaceTempView("cc_index")


def cc_index(job: Job) -> DataFrame:
    """Stored captures with the columns of Common Crawl's index (rules/warc/cc_index_rows.py).

    exports/cc_index.py writes them as a table.
    """
    crawl = job.cfg.crawl.id
    captures = (
        job.read("captures")
        .where("warc_filename IS NOT NULL AND status IS NOT NULL")
        .select(*CAPTURE)
    )
    pages = job.read("pages").selectExpr(
        "capture_id", *[f"{name} AS page_{name}" for name in PAGE if name != "capture_id"]
    )

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:

        for batch in batches:
            found = (
                cc_row(
                    row, {name: row[f"page_{name}"] for name in PAGE if name != "capture_id"}, crawl
                )
                for row in batch.to_pylist()
            )
            yield pa.RecordBatch.from_pylist(list(found), SCHEMA)

    return captures.join(pages, "capture_id", "left").mapInArrow(
        rows, ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    )
