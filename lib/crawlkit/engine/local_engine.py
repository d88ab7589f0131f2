"""Frames as views of DuckDB in this process; tasks that need a process of their own go to
workers.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from crawlkit.engine.frame import Engine, Frame, MapBatches, Tasks
from crawlkit.engine.workers import Workers
from crawlkit.tables.ddl import arrow_schema

# Functions of Spark's SQL that DuckDB has under other names.
MACROS = (
    "timestamp_micros(n) AS make_timestamptz(n)",
    "unix_micros(t) AS epoch_us(t)",
    "unix_millis(t) AS epoch_us(t) // 1000",
    "unix_timestamp(t) AS CAST(floor(epoch(t)) AS BIGINT)",
    "sha2(x, bits) AS sha256(x)",
    "collect_list(x) AS list(x)",
    "collect_set(x) AS list_distinct(list(x))",
    "array_sort(x) AS list_sort(x)",
    "size(x) AS len(x)",
    "array_union(a, b) AS list_distinct(list_concat(a, b))",
    "array_remove(a, x) AS list_filter(a, lambda y: y <> x)",
    "explode(x) AS unnest(x)",
    "count_if(x) AS count(CASE WHEN x THEN 1 END)",  # its own is null where there are no rows
    "get_json_object(text, path) AS json_extract_string(text, path)",
)
BATCH_ROWS = 1000  # that a function gets at once, as under Spark (runtime/session.py)
_SLOT_ROWS = 64  # of a fetch list, whose rows carry bodies of robots.txt


def prepare(db: duckdb.DuckDBPyConnection) -> None:
    """Let a connection read the common SQL (engine/frame.py)."""
    db.execute("SET TimeZone = 'UTC'")
    db.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    for macro in MACROS:
        db.execute(f"CREATE MACRO {macro}")


class LocalEngine(Engine):
    """Runs queries in DuckDB, in memory and beyond `memory` on disk.

    Functions run here, one after the other; those with `slots` or `spread` in workers.
    """

    name = "local"

    def __init__(self, memory: str, processes: int, scratch: Path) -> None:
        """Opens nothing yet.

        Args:
            memory: that DuckDB may take ("500MB").
            processes: workers and threads that run at the same time; all tasks of `slots` do.
            scratch: folder for what does not fit.
        """
        self._memory, self._processes, self._scratch = memory, processes, scratch
        self._numbers = itertools.count()
        self._db: duckdb.DuckDBPyConnection | None = None
        # kind and name of frames that nobody has any more: they end in whatever thread collects
        # garbage, while the connection may be at work in its own
        self._ended: deque[tuple[str, str]] = deque()
        self._workers = Workers(scratch)

    @property
    def db(self) -> duckdb.DuckDBPyConnection:
        """The connection."""
        if self._db is None:
            self._db = duckdb.connect(
                ":memory:",
                config={
                    "memory_limit": self._memory,
                    "threads": self._processes,
                    "temp_directory": str(self._scratch),
                    "preserve_insertion_order": False,
                },
            )
            prepare(self._db)
        return self._db

    def query(self, sql: str, /, **frames: Frame) -> Frame:
        """As `Engine.query`: a view, which is computed with what reads it."""
        text = sql.format(**{name: frame.native for name, frame in frames.items()})
        made = self._made("VIEW", text)
        made.inputs = list(frames.values())
        return made

    def _made(self, kind: str, sql: str) -> Frame:
        self._drop_ended()
        name = f"f{next(self._numbers)}"
        self.db.execute(f"CREATE {kind} {name} AS {sql}")
        described = self.db.execute(f"DESCRIBE {name}").fetchall()
        frame = Frame(self, name, [row[0] for row in described])
        weakref.finalize(frame, self._ended.append, (kind, name))
        return frame

    def _drop_ended(self) -> None:
        while self._ended:
            kind, name = self._ended.popleft()
            with contextlib.suppress(duckdb.Error):
                if kind:
                    self.db.execute(f"DROP {kind} {name}")
                else:
                    self.db.unregister(name)

    def from_arrow(self, table: pa.Table) -> Frame:
        """As `Engine.from_arrow`."""
        return self._register(table, table.column_names)

    def from_dataset(self, dataset: Any) -> Frame:
        """As `Engine.from_dataset`."""
        return self._register(dataset, dataset.schema.names)

    def _register(self, rows: Any, columns: Sequence[str]) -> Frame:
        self._drop_ended()
        name = f"f{next(self._numbers)}"
        self.db.register(name, rows)
        frame = Frame(self, name, columns)
        weakref.finalize(frame, self._ended.append, ("", name))
        return frame

    def read_parquet(
        self,
        place: str,
        files: Sequence[str],
        columns: dict[str, str],
        partition_by: Sequence[str],
        n_bytes: int,
    ) -> Frame:
        """As `Engine.read_parquet`."""
        paths = ", ".join(_quote(f"{place}/{file}") for file in files)
        types = ", ".join(f"{_quote(c)}: {columns[c].upper()}" for c in partition_by)
        hive = (
            f"hive_partitioning = true, hive_types = {{{types}}}"
            if partition_by
            else ("hive_partitioning = false")
        )
        source = f"read_parquet([{paths}], union_by_name = true, {hive})"
        have = {row[0] for row in self.db.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
        shown = ", ".join(
            f'"{name}"' if name in have else f'CAST(NULL AS {_type(kind)}) AS "{name}"'
            for name, kind in columns.items()
        )
        return self._made("VIEW", f"SELECT {shown} FROM {source}")

    def is_small(self, n_bytes: int) -> bool:
        """As `Engine.is_small`."""
        return True

    def map_batches(self, frame: Frame, function: MapBatches, ddl: str, tasks: Tasks) -> Frame:
        """As `Frame.map_batches`; it runs at once."""
        schema = arrow_schema(ddl)
        if tasks.slots or tasks.spread:
            made = self._workers.run(function, self._shares(frame, tasks), schema)
        else:
            made = list(function(self._batches(frame, [*tasks.by, *tasks.order], BATCH_ROWS)))
        return self.from_arrow(pa.Table.from_batches(made, schema))

    def _batches(self, frame: Frame, order: Sequence[str], rows: int) -> pa.RecordBatchReader:
        sql = f"SELECT * FROM {frame.native}"
        if order:
            sql += f" ORDER BY {', '.join(order)}"
        return self.db.sql(sql).to_arrow_reader(rows)

    def _shares(self, frame: Frame, tasks: Tasks) -> list[list[pa.RecordBatch]]:
        """The rows of each task."""
        rows = pa.Table.from_batches(
            list(self._batches(frame, [*tasks.by, *tasks.order], BATCH_ROWS)),
            schema=self._schema(frame),
        )
        if tasks.slots:
            counts = rows.column(tasks.by[0]).value_counts().to_pylist()
            ends = list(
                itertools.accumulate(c["counts"] for c in sorted(counts, key=lambda c: c["values"]))
            )
        else:
            n = min(self._processes, rows.num_rows)
            ends = [rows.num_rows * (i + 1) // n for i in range(n)]
        starts = [0, *ends[:-1]]
        return [
            rows.slice(start, end - start).to_batches(_SLOT_ROWS if tasks.slots else BATCH_ROWS)
            for start, end in zip(starts, ends, strict=False)
            if end > start
        ]

    def _schema(self, frame: Frame) -> pa.Schema:
        return self.db.sql(f"SELECT * FROM {frame.native} LIMIT 0").to_arrow_table().schema

    def to_arrow(self, frame: Frame) -> pa.Table:
        """As `Frame.to_arrow`."""
        table = self.db.sql(f"SELECT * FROM {frame.native}").to_arrow_table()
        for i, field in enumerate(table.schema):
            if pa.types.is_decimal(field.type):  # sums of whole numbers have 128 bits
                table = table.set_column(i, field.name, table.column(i).cast(pa.int64()))
        return table

    @contextlib.contextmanager
    def keep(self, frame: Frame) -> Iterator[Frame]:
        """As `Engine.keep`: a table of DuckDB."""
        kept = self._made("TABLE", f"SELECT * FROM {frame.native}")
        yield kept

    def interrupt(self) -> None:
        """As `Engine.interrupt`."""
        self._workers.interrupt()

    def stop(self) -> None:
        """As `Engine.stop`."""
        self._workers.stop()
        if self._db is not None:
            self._db.close()
            self._db = None


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _type(kind: str) -> str:
    """DuckDB's name of a type in DDL."""
    kind = re.sub(r"array<(\w+)>", r"\1[]", kind)
    return "timestamptz" if kind == "timestamp" else kind
