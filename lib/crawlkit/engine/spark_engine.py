"""Frames as Spark's DataFrames."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from crawlkit.engine.frame import Engine, Frame, MapBatches, Tasks
from crawlkit.tables.schema import ARROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DDL = {kind: ddl for ddl, kind in ARROW.items()}


class SparkEngine(Engine):
    """Runs everything in one session."""

    name = "spark"

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._numbers = itertools.count()

    def frame(self, df: DataFrame) -> Frame:
        """A DataFrame as a frame."""
        return Frame(self, df, df.columns)

    def query(self, sql: str, /, **frames: Frame) -> Frame:
        """As `Engine.query`; the temporary views are gone once the query is analysed."""
        names = {name: f"crawlkit_{next(self._numbers)}" for name in frames}
        for name, frame in frames.items():
            frame.native.createOrReplaceTempView(names[name])
        try:
            return self.frame(self.session.sql(sql.format(**names)))
        finally:
            for name in names.values():
                self.session.catalog.dropTempView(name)

    def from_arrow(self, table: pa.Table) -> Frame:
        """As `Engine.from_arrow`. No rows are a local relation: no task is started for it."""
        if table.num_rows:
            return self.frame(self.session.createDataFrame(table))
        nulls = ", ".join(f"CAST(NULL AS {to_ddl(f.type)}) AS `{f.name}`" for f in table.schema)
        return self.frame(self.session.sql(f"SELECT {nulls} WHERE false"))

    def read_parquet(
        self,
        place: str,
        files: Sequence[str],
        columns: dict[str, str],
        partition_by: Sequence[str],
    ) -> Frame:
        """As `Engine.read_parquet`; Spark finds the partition columns in the paths."""
        schema = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
        reader = self.session.read.schema(schema).option("basePath", place)
        return self.frame(reader.parquet(*[f"{place}/{file}" for file in files]))

    def read_delta(self, place: str, columns: dict[str, str], lacks: Collection[str]) -> Frame:
        """As `Engine.read_delta`."""
        shown = [
            f"CAST(NULL AS {t}) AS `{c}`" if c in lacks else f"`{c}`" for c, t in columns.items()
        ]
        return self.frame(self.session.read.format("delta").load(place).selectExpr(*shown))

    def map_batches(self, frame: Frame, function: MapBatches, ddl: str, tasks: Tasks) -> Frame:
        """As `Frame.map_batches`. repartitionById gives exactly one task a slot (Spark 4.1)."""
        df: DataFrame = frame.native
        if tasks.slots:
            df = df.repartitionById(tasks.slots, df[tasks.by[0]])
        elif tasks.spread:
            n = self.session.sparkContext.defaultParallelism
            df = df.repartitionByRange(n, *tasks.order)
        elif tasks.by:
            df = df.repartition(*tasks.by)
        order = [*(() if tasks.slots else tasks.by), *tasks.order]
        if order:
            df = df.sortWithinPartitions(*order)
        return self.frame(df.mapInArrow(function, ddl))

    def to_arrow(self, frame: Frame) -> pa.Table:
        """As `Frame.to_arrow`."""
        df: DataFrame = frame.native
        return df.toArrow()

    @contextlib.contextmanager
    def keep(self, frame: Frame) -> Iterator[Frame]:
        """As `Engine.keep`: persisted."""
        kept = frame.native.persist()
        try:
            yield self.frame(kept)
        finally:
            kept.unpersist()

    def stop(self) -> None:
        """As `Engine.stop`: the session belongs to whoever made it."""


def to_ddl(kind: pa.DataType) -> str:
    """Spark's name of an Arrow type."""
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{f.name}: {to_ddl(f.type)}' for f in kind)}>"
    if pa.types.is_list(kind):
        return f"array<{to_ddl(kind.value_type)}>"
    return _DDL[kind]
