"""Parquet data files of Delta tables, and the add actions that put them into a table.

Spark's Python workers write them, or the driver.
"""

from __future__ import annotations

import datetime
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
from deltalake import Field, Schema
from deltalake.schema import ArrayType, PrimitiveType
from deltalake.transaction import AddAction

from crawlkit.adapters.store.open_store import open_objects
from crawlkit.config.operation_sections import S3
from crawlkit.engine.frame import to_batch
from crawlkit.tables.schema import ARROW, Table

STRING_PREFIX = 32  # characters of a string that statistics keep
GROUP_BYTES = 64 << 20  # of a row group
FILE_BYTES = 512 << 20
FILES = pa.schema(
    [
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("modified_ms", pa.int64()),
        ("partition", pa.string()),
        ("stats", pa.string()),
    ]
)


class Where(NamedTuple):
    """The place of a table: a folder or s3://bucket/prefix.

    `spool`: local folder of files on their way to S3.
    """

    place: str
    s3: S3
    spool: Path


class TableWriter:
    """Batches of all of a table's columns as Parquet files below its place.

    Rows of one partition that come apart go to several files.
    """

    def __init__(self, t: Table, where: Where) -> None:
        self._t, self._where = t, where
        self._file: _File | None = None
        self._schema = pa.schema(
            [(c.name, ARROW[c.type]) for c in t.columns if c.name not in t.partition_by]
        )

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yields a row (`FILES`) for each file that is finished by it.

        What the batch lacks of the table's columns is null.
        """
        batch = conform(self._t, batch)
        for values, run in _runs(batch, self._t.partition_by):
            if self._file is not None and (
                self._file.values != values or self._file.written > FILE_BYTES
            ):
                yield from self.close()
            if self._file is None:
                self._file = _File(self._where, self._schema, values)
            self._file.add(run.select(self._schema.names))

    def close(self) -> Iterator[pa.RecordBatch]:
        """Yields the row of the last file, if there is one."""
        if self._file is not None:
            file, self._file = self._file, None
            yield file.close(self._t)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All that there is; yields the rows of the files."""
        for batch in batches:
            yield from self.add(batch)
        yield from self.close()


def write_files(
    t: Table, where: Where, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write batches of all of the table's columns; yields one row (`FILES`) a file."""
    return TableWriter(t, where).write(batches)


def conform(t: Table, batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch with exactly the table's columns, in their order and of their types."""
    have = set(batch.schema.names)
    arrays = [
        batch.column(c.name).cast(ARROW[c.type])
        if c.name in have
        else pa.nulls(batch.num_rows, ARROW[c.type])
        for c in t.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, [c.name for c in t.columns])


def _runs(
    batch: pa.RecordBatch, columns: Sequence[str]
) -> Iterator[tuple[dict[str, str], pa.RecordBatch]]:
    """Slices of equal values in `columns`, with those values."""
    ends = {batch.num_rows}.union(
        *(pa.compute.run_end_encode(batch.column(c)).run_ends.to_pylist() for c in columns)
    )
    start = 0
    for end in sorted(ends - {0}):
        yield (
            {c: str(batch.column(c)[start].as_py()) for c in columns},
            batch.slice(start, end - start),
        )
        start = end


class _File:
    """One Parquet file being written; for S3 on local disk until it is whole."""

    def __init__(self, where: Where, schema: pa.Schema, values: dict[str, str]) -> None:
        below, name = "".join(f"{c}={v}/" for c, v in values.items()), f"{uuid.uuid4().hex}.parquet"
        self.place = below + name
        self.values = values
        self.schema = schema
        self.store = open_objects(where.place, where.s3) if "://" in where.place else None
        self.path = where.spool / name if self.store else Path(where.place, self.place)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.footers: list[pa.parquet.FileMetaData] = []
        self.writer = pa.parquet.ParquetWriter(
            self.path, schema, compression="zstd", metadata_collector=self.footers
        )
        self.held: list[pa.RecordBatch] = []
        self.held_bytes = self.written = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows; a row group is written once GROUP_BYTES are held."""
        self.held.append(batch)
        self.held_bytes += batch.nbytes
        if self.held_bytes > GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self.held:
            self.writer.write_table(pa.Table.from_batches(self.held).cast(self.schema))
            self.written += self.held_bytes
            self.held, self.held_bytes = [], 0

    def close(self, t: Table) -> pa.RecordBatch:
        """Complete the file and store it; its row (FILES)."""
        self._flush()
        self.writer.close()
        size = self.path.stat().st_size
        if self.store:
            self.store.put_file_if_absent(self.place, self.path)
            self.path.unlink()
        row = (
            self.place,
            size,
            int(time.time() * 1000),
            json.dumps(self.values),
            json.dumps(statistics(t, self.footers[0])),
        )
        return pa.RecordBatch.from_arrays(
            [pa.array([v], f.type) for v, f in zip(row, FILES, strict=True)], schema=FILES
        )


def add_action(row: Mapping[str, Any]) -> AddAction:
    """Delta's add action of an `FILES` row."""
    return AddAction(
        row["path"],
        row["bytes"],
        json.loads(row["partition"]),
        row["modified_ms"],
        True,
        row["stats"],
    )


def arrow_table(t: Table, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows (times as Unix s) as Arrow; what a row lacks is null."""
    return pa.Table.from_batches([to_batch(rows, t.columns)])


def statistics(t: Table, footer: pa.parquet.FileMetaData) -> dict[str, Any]:
    """Delta's per-file statistics (protocol, "Per-file Statistics") of the columns `t.stats`."""
    places = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
    least = {}
    most = {}
    nulls = {}
    for name in t.stats:
        groups = [
            footer.row_group(g).column(places[name]).statistics
            for g in range(footer.num_row_groups)
        ]
        if any(s is None or not s.has_null_count for s in groups):
            continue
        nulls[name] = sum(s.null_count for s in groups)
        known = [s for s in groups if s.num_values]
        if not known or not all(s.has_min_max for s in known):
            continue
        least[name] = _bound(min(s.min for s in known), up=False)
        top = _bound(max(s.max for s in known), up=True)
        if top is not None:
            most[name] = top
    return {
        "numRecords": footer.num_rows,
        "minValues": least,
        "maxValues": most,
        "nullCount": nulls,
    }


def _bound(value: Any, up: bool) -> Any:
    """A value as statistics hold it: strings cut, times to the ms; never above the least or below
    the greatest.
    """
    if isinstance(value, datetime.datetime):
        cut = value - datetime.timedelta(microseconds=value.microsecond % 1000)
        if up and cut != value:
            cut += datetime.timedelta(milliseconds=1)
        return cut.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    if isinstance(value, str) and len(value) > STRING_PREFIX:
        if up:  # no character is above U+10FFFF
            return (
                None
                if value[STRING_PREFIX] == "\U0010ffff"
                else value[:STRING_PREFIX] + "\U0010ffff"
            )
        return value[:STRING_PREFIX]
    return value


def delta_schema(t: Table) -> Schema:
    """The Delta schema of a table, with its columns' comments."""
    kinds = {"int": "integer", "bigint": "long"}
    return Schema(
        [
            Field(
                c.name,
                (
                    ArrayType(PrimitiveType("string"), contains_null=True)
                    if c.type == "array<string>"
                    else PrimitiveType(kinds.get(c.type, c.type))
                ),
                nullable=True,
                metadata={"comment": c.comment},
            )
            for c in t.columns
        ]
    )
