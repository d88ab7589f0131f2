"""Spark for what is large; what is small is computed in its driver by DuckDB.

Spark plans a query for longer than small inputs take to compute. Both engines read the same SQL
and make the same rows, so a query whose inputs are all small runs in the driver, and its rows go
to Spark once they meet a large input or need tasks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from crawlkit.engine.frame import Engine, Frame, MapBatches, Tasks
from crawlkit.engine.local_engine import LocalEngine
from crawlkit.engine.spark_engine import SparkEngine

KEPT_ROWS = 100_000  # of a frame that Spark has computed: so many are kept in the driver
COSTLY_ROWS = 16  # that a task takes long for: more of them go to Spark


class DriverEngine(Engine):
    """Frames whose `native` is a frame of one of the two engines."""

    name = "spark"

    def __init__(self, spark: SparkEngine, local: LocalEngine, small_bytes: int) -> None:
        """small_bytes: inputs that are larger are Spark's."""
        self._spark, self._local, self._small_bytes = spark, local, small_bytes
        self._given: dict[Frame, Frame] = {}  # small frames that Spark has been given

    def _made(self, frame: Frame) -> Frame:
        return Frame(self, frame, frame.columns)

    def _is_small(self, frame: Frame) -> bool:
        return frame.native.engine is self._local

    def _on_spark(self, frame: Frame) -> Frame:
        """The frame as one of Spark's."""
        inner: Frame = frame.native
        if not self._is_small(frame):
            return inner
        if frame not in self._given:
            self._given[frame] = self._spark.from_arrow(inner.to_arrow())
        return self._given[frame]

    def dataframe(self, frame: Frame) -> Any:
        """As `Engine.dataframe`."""
        return self._spark.dataframe(self._on_spark(frame))

    def query(self, sql: str, /, **frames: Frame) -> Frame:
        """As `Engine.query`."""
        if all(map(self._is_small, frames.values())):
            return self._made(
                self._local.query(sql, **{name: f.native for name, f in frames.items()})
            )
        return self._made(
            self._spark.query(sql, **{name: self._on_spark(f) for name, f in frames.items()})
        )

    def from_arrow(self, table: pa.Table) -> Frame:
        """As `Engine.from_arrow`."""
        engine = self._local if table.nbytes <= self._small_bytes else self._spark
        return self._made(engine.from_arrow(table))

    def from_dataset(self, dataset: Any) -> Frame:
        """As `Engine.from_dataset`."""
        return self._made(self._local.from_dataset(dataset))

    def is_small(self, n_bytes: int) -> bool:
        """As `Engine.is_small`."""
        return n_bytes <= self._small_bytes

    def read_parquet(
        self,
        place: str,
        files: Sequence[str],
        columns: dict[str, str],
        partition_by: Sequence[str],
        n_bytes: int,
    ) -> Frame:
        """As `Engine.read_parquet`."""
        engine: Engine = self._local if self.is_small(n_bytes) else self._spark
        return self._made(engine.read_parquet(place, files, columns, partition_by, n_bytes))

    def read_delta(self, place: str, columns: dict[str, str], lacks: Collection[str]) -> Frame:
        """As `Engine.read_delta`."""
        return self._made(self._spark.read_delta(place, columns, lacks))

    def map_batches(self, frame: Frame, function: MapBatches, ddl: str, tasks: Tasks) -> Frame:
        """As `Frame.map_batches`; tasks that are processes of their own are Spark's."""
        here = self._is_small(frame) and not (tasks.slots or tasks.spread)
        if here and tasks.costly:
            here = frame.count() <= COSTLY_ROWS
        if here:
            return self._made(self._local.map_batches(frame.native, function, ddl, tasks))
        return self._made(self._spark.map_batches(self._on_spark(frame), function, ddl, tasks))

    def to_arrow(self, frame: Frame) -> pa.Table:
        """As `Frame.to_arrow`."""
        inner: Frame = frame.native
        return inner.to_arrow()

    @contextlib.contextmanager
    def keep(self, frame: Frame) -> Iterator[Frame]:
        """As `Engine.keep`: few rows in the driver, whoever has computed them."""
        inner: Frame = frame.native
        with inner.engine.keep(inner) as kept:
            if not self._is_small(frame) and kept.count() <= KEPT_ROWS:
                kept = self._local.from_arrow(kept.to_arrow())
            yield self._made(kept)

    def forget(self) -> None:
        """As `Engine.forget`."""
        self._given.clear()
        self._spark.forget()

    def stop(self) -> None:
        """As `Engine.stop`."""
        self._local.stop()
        self._spark.stop()
