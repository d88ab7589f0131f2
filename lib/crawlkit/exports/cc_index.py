"""`cc_index` as a Delta table that any engine reads; its rows are rules/warc/cc_index_rows.py's."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import write_deltalake

from crawlkit.exports.source import BATCH_ROWS, Source
from crawlkit.rules.warc.cc_index_rows import CAPTURE, COLUMNS, PAGE, cc_row

_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
}
SCHEMA = pa.schema([(name, _ARROW[kind]) for name, kind in COLUMNS.items()])


def export_cc_index(source: Source, out: str) -> dict[str, Any]:
    """Write (or replace) this crawl's rows in the Delta table at `out`; its place and their number.

    The table is partitioned by crawl and subset.
    """
    # letters, digits, _ and - by the id's pattern
    where = f"crawl = '{source.cfg.crawl.id}'" if source.is_table(out) else None
    with tempfile.NamedTemporaryFile(
        suffix=".parquet"
    ) as staged:  # delta-rs cannot read tables while it writes one
        with pq.ParquetWriter(staged, SCHEMA) as writer:
            for batch in cc_batches(source):
                writer.write_batch(batch)
        staged.flush()
        rows = pq.read_metadata(staged.name).num_rows
        batches = pq.ParquetFile(staged.name).iter_batches(BATCH_ROWS)
        reader = pa.RecordBatchReader.from_batches(SCHEMA, batches)
        write_deltalake(
            out,
            reader,
            partition_by=["crawl", "subset"],
            mode="overwrite",
            predicate=where,
            storage_options=source.options(out),
        )
    return {"table": out, "rows": rows}


def cc_table(source: Source) -> pa.Table:
    """All rows of the crawl, in memory."""
    return pa.Table.from_batches(cc_batches(source), SCHEMA)


def cc_batches(source: Source) -> Iterator[pa.RecordBatch]:
    """All rows of the crawl, round by round."""
    for round_id in source.rounds():
        here = pc.field("round_id") == round_id
        pages = {r["capture_id"]: r for r in source.rows("pages", PAGE, here)}
        rows: list[dict[str, Any]] = []
        for capture in source.rows(
            "captures",
            CAPTURE,
            here & pc.field("warc_filename").is_valid() & pc.field("status").is_valid(),
        ):
            rows.append(cc_row(capture, pages.get(capture["capture_id"]), source.cfg.crawl.id))
            if len(rows) == BATCH_ROWS:
                yield pa.RecordBatch.from_pylist(rows, SCHEMA)
                rows = []
        if rows:
            yield pa.RecordBatch.from_pylist(rows, SCHEMA)
