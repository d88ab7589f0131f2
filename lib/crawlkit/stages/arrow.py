"""What stages share to run Python over rows: times as Unix s, Arrow schemas, data files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn, DataFrame, SparkSession, functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from crawlkit.tables import ARROW, Column

Row = dict[str, Any]
CHUNK_ROWS = 2000


def to_seconds(columns: Sequence[Column]) -> list[SparkColumn]:
    """The columns of a table for `map_rows`: timestamps become Unix s (double)."""
    return [
        (F.col(c.name).cast("double") if c.type == "timestamp" else F.col(c.name)).alias(c.name)
        for c in columns
    ]


def map_rows(
    frame: DataFrame,
    function: Callable[[Iterator[Row]], Iterable[Mapping[str, Any]]],
    columns: Sequence[Column],
) -> DataFrame:
    """Rows of `columns`, which a function makes of the rows of each task.

    Args:
        frame: rows with times as Unix s (`to_seconds`).
        function: rows of a task, in their order -> rows; pure. Times are Unix s; what a row
            lacks is null.
        columns: of the result, whose timestamps are timestamps again.
    """
    types = {c.name: "double" if c.type == "timestamp" else c.type for c in columns}
    schema = pa.schema([(name, ARROW[type_]) for name, type_ in types.items()])

    def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = iter(function(row for batch in batches for row in batch.to_pylist()))
        while chunk := list(itertools.islice(made, CHUNK_ROWS)):
            rows = [{name: row.get(name) for name in types} for row in chunk]
            yield pa.RecordBatch.from_pylist(rows, schema)

    ddl = ", ".join(f"`{name}` {type_}" for name, type_ in types.items())
    times = [c.name for c in columns if c.type == "timestamp"]
    return frame.mapInArrow(apply, ddl).withColumns({t: F.col(t).cast("timestamp") for t in times})


def arrow_schema(spark: SparkSession, ddl: str) -> pa.Schema:
    """The Arrow schema of Spark's DDL."""
    return to_arrow_schema(spark.createDataFrame([], ddl).schema)
