"""The rows of a table, view or query, to be had as the frame that a program works with."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from crawlkit.adapters.lake.duckdb_reader import find, lock, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN_ROWS = 20
MAX_CELL_CHARS = 60
Connect = Callable[[str], duckdb.DuckDBPyConnection]
AskSpark = Callable[[str, "SparkSession | None"], "DataFrame"]


class MissingPackage(ImportError):
    """A package that is an extra is not installed; the message says how to get it."""

    exit_code = 2


class Rows:
    """Rows that are read when they are asked for, each time as the tables are then.

    Iterating gives dicts in bounded memory. `arrow`, `polars` and `pandas` hold all rows in memory:
    name the columns that you need, or use `batches`.
    """

    def __init__(
        self, sql: str, connect: Connect, ask_spark: AskSpark, spark_sql: str | None = None
    ) -> None:
        """Reads nothing yet.

        Args:
            sql: a SELECT. connect: gives a connection to DuckDB with its tables.
            ask_spark: gives the DataFrame of a SELECT.
            spark_sql: what Spark is asked in its place; None: the same.
        """
        self.sql = sql
        self._spark_sql = spark_sql or sql
        self._connect, self._ask_spark = connect, ask_spark

    def batches(self, rows: int = 10_000) -> Iterator[pa.RecordBatch]:
        """Record batches of at most so many rows; memory is bounded by a few of them.

        An empty answer is one batch without rows. Raises QueryError, TableError.
        """
        with self._connect(self.sql) as db:
            lock(db)
            yield from stream(db, self.sql, rows)

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table. Raises QueryError, TableError."""
        return pa.Table.from_batches(list(self.batches()))

    def polars(self) -> Any:
        """All rows as a polars DataFrame. Raises MissingPackage, QueryError, TableError."""
        return _need("polars").from_arrow(self.arrow())

    def pandas(self) -> Any:
        """All rows as a pandas DataFrame. Raises MissingPackage, QueryError, TableError."""
        _need("pandas")
        return self.arrow().to_pandas()

    def duckdb(self) -> duckdb.DuckDBPyRelation:
        """A relation of DuckDB, in a connection of its own; read lazily.

        Unlike the other forms its SQL may read and write files. Raises QueryError, TableError.
        """
        return find(self._connect(self.sql), self.sql)

    def spark(self, session: SparkSession | None = None) -> DataFrame:
        """A DataFrame of Spark, in a session of the caller or in one that is started.

        Raises MissingPackage, SessionError, and Spark's own errors.
        """
        _need("pyspark", "spark")
        return self._ask_spark(self._spark_sql, session)

    def count(self) -> int:
        """How many rows there are. Raises QueryError, TableError."""
        # the statement stands on lines of its own: it may end with a comment
        counted = Rows(
            f"SELECT count(*) AS n FROM (\n{self.sql}\n)", self._connect, self._ask_spark
        )
        return int(next(iter(counted))["n"])

    @property
    def columns(self) -> list[str]:
        """The names of the columns. Raises QueryError, TableError."""
        with self._connect(self.sql) as db:
            lock(db)
            return list(find(db, self.sql).columns)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.batches(1000):
            yield from batch.to_pylist()

    def __repr__(self) -> str:
        """The first rows as a table of text, for a notebook or an interpreter."""
        rows: list[dict[str, Any]] = []
        names: list[str] = []
        for batch in self.batches(SHOWN_ROWS + 1):
            names = batch.schema.names
            rows += batch.to_pylist()
            if len(rows) > SHOWN_ROWS:
                break
        cells = [names, *([_cell(v) for v in r.values()] for r in rows[:SHOWN_ROWS])]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
            for line in cells
        ]
        lines.insert(1, "  ".join("-" * w for w in widths))
        return "\n".join(lines + (["..."] if len(rows) > SHOWN_ROWS else []))


def _cell(value: Any) -> str:
    """A value in a line of text; what could steer a terminal is escaped."""
    if value is None:
        return ""
    text = value.hex() if isinstance(value, bytes) else str(value)
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: MAX_CELL_CHARS + 1])
    return shown if len(shown) <= MAX_CELL_CHARS else shown[: MAX_CELL_CHARS - 3] + "..."


def _need(package: str, extra: str | None = None) -> Any:
    """An optional package, loaded. Raises MissingPackage."""
    try:
        return importlib.import_module(package)
    except ImportError as e:
        raise MissingPackage(
            f"{package} cannot be loaded ({e}): pip install 'crawlkit[{extra or package}]'"
        ) from None
