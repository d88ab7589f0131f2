"""The seam between the pipeline and what computes it: frames of rows, and the engine behind them.

A stage is queries over named frames and Python functions over batches of rows, written once; an
engine runs them: Spark (spark_engine.py), or DuckDB and worker processes on this machine
(local_engine.py).

The queries are Spark's SQL as far as DuckDB reads it too, with the functions of `local_engine`'s
MACROS. Both order nulls first (last in DESC), have UTC as their time zone and double for `/`.
`EXCEPT`, `QUALIFY`, structs made in SQL and strings with quotes in them are not among it: values
that are not ours go in as frames.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from crawlkit.tables import ARROW, Column
from crawlkit.tables.ddl import arrow_schema

Batches = Iterator[pa.RecordBatch]
MapBatches = Callable[[Batches], Batches]  # pure, and picklable: a worker process runs it


class Tasks(NamedTuple):
    """How rows are shared out to tasks, and in which order a task gets them.

    by: rows that are equal in these columns go to one task. order: further columns that a task's
    rows are sorted by. slots: the one column of `by` is a number below this, and each number is a
    task of its own; all of them run at the same time. spread: no `by`; as many tasks as can run at
    once, each with a range of `order`. Tasks of `slots` and `spread` are processes of their own:
    one that dies or hangs is run again, TRIES times in all. costly: each row takes long.
    """

    by: Sequence[str] = ()
    order: Sequence[str] = ()
    slots: int = 0
    spread: bool = False
    costly: bool = False


ANY = Tasks()
TRIES = 4
NO_STRINGS = "array_intersect(split('a', ','), split('b', ','))"  # an empty array<string> in SQL


class Frame:
    """Rows of named columns, computed when they are asked for.

    `native` is the engine's own: a Spark DataFrame, the name of a view of DuckDB, or a frame of
    either (driver_engine.py).
    """

    def __init__(self, engine: Engine, native: Any, columns: Sequence[str]) -> None:
        self.engine = engine
        self.native = native
        self.columns = list(columns)
        self.inputs: list[Frame] = []  # frames that must live as long as this one

    def where(self, condition: str) -> Frame:
        """Rows for which a condition in SQL is true."""
        return self.engine.query(f"SELECT * FROM {{rows}} WHERE {condition}", rows=self)

    def select(self, *expressions: str) -> Frame:
        """Expressions in SQL over each row."""
        return self.engine.query(f"SELECT {', '.join(expressions)} FROM {{rows}}", rows=self)

    def union(self, other: Frame) -> Frame:
        """The rows of both, by this frame's columns; those that the other lacks are null."""
        both = [c if c in other.columns else f"NULL AS {c}" for c in self.columns]
        return self.engine.query(
            f"SELECT {', '.join(self.columns)} FROM {{a}} UNION ALL"
            f" SELECT {', '.join(both)} FROM {{b}}",
            a=self,
            b=other,
        )

    def map_batches(self, function: MapBatches, ddl: str, tasks: Tasks = ANY) -> Frame:
        """What a function makes of the batches of each task: rows of the columns `ddl`."""
        return self.engine.map_batches(self, function, ddl, tasks)

    def to_arrow(self) -> pa.Table:
        """All rows, in no order."""
        return self.engine.to_arrow(self)

    def rows(self) -> list[dict[str, Any]]:
        """All rows, in no order; timestamps are Unix s."""
        return to_rows(self.to_arrow())

    def count(self) -> int:
        """The number of rows."""
        n: int = self.select("count(*) AS n").rows()[0]["n"]
        return n


class Engine(ABC):
    """Runs queries and functions over frames."""

    name: str

    @abstractmethod
    def query(self, sql: str, /, **frames: Frame) -> Frame:
        """A SELECT over frames, each named in it as {name}."""

    @abstractmethod
    def from_arrow(self, table: pa.Table) -> Frame:
        """Rows that are in memory."""

    @abstractmethod
    def read_parquet(
        self,
        place: str,
        files: Sequence[str],
        columns: dict[str, str],
        partition_by: Sequence[str],
        n_bytes: int,
    ) -> Frame:
        """Data files below a place, in whose paths the values of `partition_by` stand.

        columns: name -> type (Spark's DDL); one that a file lacks is null. n_bytes: the size of
        all files.
        """

    @abstractmethod
    def is_small(self, n_bytes: int) -> bool:
        """Whether this process itself reads files of so many bytes."""

    def read_delta(self, place: str, columns: dict[str, str], lacks: Collection[str]) -> Frame:
        """A Delta table of very many files; it has none of the columns `lacks`, which are null."""
        raise NotImplementedError

    def from_dataset(self, dataset: Any) -> Frame:
        """An Arrow dataset, read when it is asked for."""
        raise NotImplementedError

    def dataframe(self, frame: Frame) -> Any:
        """The frame as a DataFrame of Spark."""
        raise NotImplementedError

    @abstractmethod
    def map_batches(self, frame: Frame, function: MapBatches, ddl: str, tasks: Tasks) -> Frame:
        """As `Frame.map_batches`."""

    @abstractmethod
    def to_arrow(self, frame: Frame) -> pa.Table:
        """As `Frame.to_arrow`."""

    @abstractmethod
    def keep(self, frame: Frame) -> contextlib.AbstractContextManager[Frame]:
        """The frame computed once, for as long as the context is open."""

    def forget(self) -> None:  # noqa: B027  # what has nothing to forget need not say so
        """Let go of what serves frames that are not used any more; called after each stage."""

    def interrupt(self) -> None:  # noqa: B027  # Spark's tasks are not ended from another thread
        """From another thread: let tasks with processes of their own end in order."""

    @abstractmethod
    def stop(self) -> None:
        """End what the engine has started."""

    def from_rows(self, ddl: str, rows: Sequence[Sequence[Any]]) -> Frame:
        """Rows of the columns `ddl`, without timestamps."""
        schema = arrow_schema(ddl)
        columns: Sequence[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        return self.from_arrow(pa.Table.from_arrays(arrays, schema=schema))


def to_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows of an Arrow table; timestamps are Unix s."""
    times = [f.name for f in table.schema if pa.types.is_timestamp(f.type)]
    for name in times:
        at = table.schema.get_field_index(name)
        us = table.column(at).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        table = table.set_column(at, name, us)
    rows: list[dict[str, Any]] = table.to_pylist()
    for name in times:  # in Python: for a number in an expression pyarrow loads pandas if it can
        for row in rows:
            if row[name] is not None:
                row[name] /= 1e6
    return rows


def to_batch(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> pa.RecordBatch:
    """Rows (times as Unix s) as a batch of columns; what a row lacks is null."""
    schema = pa.schema([(c.name, ARROW[c.type]) for c in columns])
    if not rows:  # pa.array would load pandas, where it is installed
        return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
    arrays = []
    for c in columns:
        values = [row.get(c.name) for row in rows]
        if c.type == "timestamp":
            values = [None if v is None else round(v * 1e6) for v in values]
        arrays.append(pa.array(values, ARROW[c.type]))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
