"""The views over the tables, registered in a Spark session."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from crawlkit.engine.frame import Batches, Frame
from crawlkit.exports.cc_index import SCHEMA
from crawlkit.observe.views import VIEWS
from crawlkit.round.job import Job
from crawlkit.rules.warc.cc_index_rows import CAPTURE, COLUMNS, PAGE, cc_row
from crawlkit.stages.fold import live_log, reduce_rows
from crawlkit.tables import TABLES


def register_views(job: Job) -> None:
    """Register temporary views of all tables and of VIEWS in the session of a job on Spark.

    `frontier` is base and live log reduced.
    """
    frames = {name: job.read(name) for name in TABLES}
    log = live_log(frames["crawldb_log"], frames["buckets"])
    frames["frontier"] = reduce_rows(frames["crawldb"], log)
    frames["cc_index"] = cc_index(job)
    for name, frame in frames.items():
        job.engine.dataframe(frame).createOrReplaceTempView(name)
    for name, sql in VIEWS.items():
        job.spark.sql(sql).createOrReplaceTempView(name)


def cc_index(job: Job) -> Frame:
    """Stored captures with the columns of Common Crawl's index (rules/warc/cc_index_rows.py).

    exports/cc_index.py writes them as a table.
    """
    of_page = ", ".join(f"p.{name} AS page_{name}" for name in _PAGE)
    query = f"""
        SELECT {", ".join(f"c.{name}" for name in CAPTURE)}, {of_page}
        FROM {{captures}} AS c LEFT JOIN {{pages}} AS p ON c.capture_id = p.capture_id
        WHERE c.warc_filename IS NOT NULL AND c.status IS NOT NULL
    """
    stored = job.engine.query(query, captures=job.read("captures"), pages=job.read("pages"))
    ddl = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    return stored.map_batches(partial(_cc_rows, job.cfg.crawl.id), ddl)


_PAGE = [name for name in PAGE if name != "capture_id"]


def _cc_rows(crawl: str, batches: Batches) -> Batches:
    for batch in batches:
        found = [
            cc_row(row, {name: row[f"page_{name}"] for name in _PAGE}, crawl)
            for row in batch.to_pylist()
        ]
        yield pa.RecordBatch.from_pylist(found, SCHEMA)
