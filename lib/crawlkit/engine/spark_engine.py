"""Frames as Spark's DataFrames."""

from __future__ import annotations

import contextlib
import itertools
import re
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
        self._views: dict[Frame, str] = {}

    def frame(self, df: DataFrame) -> Frame:
        """A DataFrame as a frame."""
        return Frame(self, df, df.columns)

    def dataframe(self, frame: Frame) -> DataFrame:
        """As `Engine.dataframe`."""
        df: DataFrame = frame.native
        return df

    def is_small(self, n_bytes: int) -> bool:
        """As `Engine.is_small`."""
        return False

    def query(self, sql: str, /, **frames: Frame) -> Frame:
        """As `Engine.query`.

        Each named part of a WITH becomes a view too: Spark's analyser would else copy all of them
        into each other with every query that is built on top, which took seconds.
        """
        names = {name: self._view_of(frame) for name, frame in frames.items()}
        parts, last = split_with(sql.format(**names))
        views = {name: f"crawlkit_{next(self._numbers)}" for name, _ in parts}
        named = re.compile(rf"\b({'|'.join(views)})\b") if views else None
        try:
            for name, part in parts:
                self._sql(part, named, views).createOrReplaceTempView(views[name])
            return self.frame(self._sql(last, named, views))
        finally:
            for name in views.values():
                self.session.catalog.dropTempView(name)

    def _view_of(self, frame: Frame) -> str:
        """The temporary view of a frame. It stays until `forget`: with a view Spark drops what it
        has cached of the same plan, and a frame that is kept would be computed again.
        """
        if frame not in self._views:
            self._views[frame] = f"crawlkit_{next(self._numbers)}"
            frame.native.createOrReplaceTempView(self._views[frame])
        return self._views[frame]

    def forget(self) -> None:
        """As `Engine.forget`."""
        for name in self._views.values():
            self.session.catalog.dropTempView(name)
        self._views.clear()

    def _sql(self, text: str, named: re.Pattern[str] | None, views: dict[str, str]) -> DataFrame:
        """A SELECT with the views of the parts that it names, under their names there."""
        if named is not None:
            text = _SOURCES.sub(lambda m: m[1] + _alias(m[2], m[3], views), text)
        return self.session.sql(text)

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
        n_bytes: int,
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


_SOURCES = re.compile(r"\b((?:FROM|JOIN)\s+)(\w+)((?:\s+AS\b)?)", re.IGNORECASE)


def _alias(name: str, has_alias: str, views: dict[str, str]) -> str:
    if name not in views:
        return name + has_alias
    return views[name] + (has_alias or f" AS {name}")


def split_with(sql: str) -> tuple[list[tuple[str, str]], str]:
    """The named parts of a query that begins with WITH, and the SELECT behind them."""
    text = sql.strip()
    parts: list[tuple[str, str]] = []
    if not text.startswith("WITH "):
        return parts, text
    at = len("WITH ")
    while m := _PART.match(text, at):
        depth, end = 1, m.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        parts.append((m[1], text[m.end() : end - 1]))
        at = end
    return parts, text[at:]


_PART = re.compile(r",?\s*(\w+)\s+AS\s+\(")


def to_ddl(kind: pa.DataType) -> str:
    """Spark's name of an Arrow type."""
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{f.name}: {to_ddl(f.type)}' for f in kind)}>"
    if pa.types.is_list(kind):
        return f"array<{to_ddl(kind.value_type)}>"
    return _DDL[kind]
