"""The Delta tables of one crawl: read, replace a part, append nothing twice.

Every write replaces whole partitions (those of the round and writer, or of buckets) or the whole table, so each can be
repeated. The tasks write data files under names of their own below the table and tell the driver of them; then one commit to the Delta log adds them and removes those they replace. A task that is tried again and a write that
dies leave files that no reader sees and VACUUM removes. docs/decisions/007-delta-commits.md says why Spark's Delta
writer is not used.
Writers hold the commit lock W (adapters/lease.py); `guard` is called just before each commit.
"""

from __future__ import annotations

import functools
import math
import operator
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset

from crawlkit.adapters.delta_files import ADDED_DDL, add_action, arrow_table, delta_schema, write_files
from crawlkit.tables import TABLES, Table

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction
    from pyspark.sql import DataFrame, SparkSession

Part = Mapping[str, Sequence[str | int]]  # partition column -> its values
DIRECT_FILES = 1000


class TableError(RuntimeError):
    """A table is missing, damaged or not ours; the message names it."""


class Tables:
    """The tables below the folder `root`."""

    def __init__(self, spark: "Callable[[], SparkSession]", root: str, guard: Callable[[], None] = lambda: None) -> None:
        """spark: gives the session, asked for when a DataFrame is wanted."""
        self._spark, self.root, self.guard = spark, root.rstrip("/"), guard

    @functools.cached_property
    def spark(self) -> "SparkSession":
        return self._spark()

    def path(self, name: str) -> str:
        return f"{self.root}/{TABLES[name].name}"

    def exists(self, name: str) -> bool:
        log = Path(self.path(name), "_delta_log")  # a first write that died leaves it empty
        return next(log.glob("[0-9]*.json"), None) is not None or next(log.glob("[0-9]*.parquet"), None) is not None

    def read(self, name: str, part: Part | None = None) -> "DataFrame":
        """The table, or some partitions of it; an empty frame of its schema if there are none. Raises TableError."""
        from py4j.protocol import Py4JNetworkError

        spark = self.spark  # that it does not start says nothing about the table
        if not self.exists(name):
            return self._empty(name)
        try:
            log = self._log(name)
            self._check_columns(name, [f.name for f in log.schema().fields])
            files = [f"{self.path(name)}/{path}" for path, _, _ in self._files(log, part)]
            if not files:
                return self._empty(name)
            if len(files) <= DIRECT_FILES:  # Delta's own scan runs a Spark job on its log for each table of a query
                return spark.read.schema(", ".join(f"`{c.name}` {c.type}" for c in TABLES[name].columns)).option("basePath", self.path(name)).parquet(*files)
            df = spark.read.format("delta").load(self.path(name))
            return df.where(" AND ".join(in_list(c, values) for c, values in (part or {}).items()) or "true")
        except (OSError, Py4JNetworkError):  # the JVM has died: that says nothing about the table
            raise
        except Exception as e:
            raise self._unreadable(name, e) from None

    def _empty(self, name: str) -> "DataFrame":
        nulls = ", ".join(f"CAST(NULL AS {c.type}) AS `{c.name}`" for c in TABLES[name].columns)
        return self.spark.sql(f"SELECT {nulls} WHERE false")  # a local relation: no task is started for it

    def rows(self, name: str, columns: Sequence[str], part: Part | None = None) -> list[dict[str, Any]]:
        """Rows of a small table or partition, read without Spark; timestamps are Unix s. Raises TableError."""
        if not self.exists(name):
            return []
        try:
            dataset = self._log(name).to_pyarrow_dataset()
            self._check_columns(name, dataset.schema.names)
            wanted = [pyarrow.dataset.field(c).isin(list(values)) for c, values in (part or {}).items()]
            table = dataset.to_table(columns=list(columns), filter=functools.reduce(operator.and_, wanted) if wanted else None)
        except Exception as e:
            raise self._unreadable(name, e) from None
        for i, field in enumerate(table.schema):
            if pa.types.is_timestamp(field.type):
                seconds = pa.compute.divide(table.column(i).cast(pa.timestamp("us", "UTC")).cast(pa.int64()).cast(pa.float64()), 1e6)
                table = table.set_column(i, field.name, seconds)
        return table.to_pylist()

    def count(self, name: str, part: Part | None = None) -> int:
        """Rows of some partitions (None: of the table), from the log alone."""
        return sum(n for _, _, n in self._files(self._log(name), part)) if self.exists(name) else 0

    def bytes(self, name: str) -> int:
        """Size of the table's current files."""
        return sum(size for _, size, _ in self._files(self._log(name), None)) if self.exists(name) else 0

    def replace(self, name: str, data: "DataFrame | Sequence[Mapping[str, Any]]", part: Part | None = None) -> None:
        """Put `data` in place of the rows of some partitions (None: of the whole table).

        data: a frame, or rows with times as Unix s; columns that it lacks are null. All its rows must lie in `part`.
        """
        t = TABLES[name]
        several = [c for c in t.partition_by if len((part or {}).get(c, ())) != 1]
        if isinstance(data, Sequence):
            adds = self._write(t, sorted(data, key=lambda r: [str(r.get(c)) for c in several]))
        else:
            frame = self.conform(name, data)
            if several:  # a partition in one task, so in one file, in the order of its key
                frame = frame.repartition(*several).sortWithinPartitions(*several, *t.key)
            adds = [add_action(r.asDict()) for r in frame.mapInArrow(functools.partial(write_files, t, Path(self.path(name))), ADDED_DDL).collect()]
        if stray := [a for a in adds if part is not None and any(a.partition_values[c] not in map(str, values) for c, values in part.items())]:
            raise TableError(f"table {name}: rows of {stray[0].partition_values} were given for {dict(part or {})}; nothing was committed")
        self._commit(t, adds, part)

    def append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows (times as Unix s) to an unpartitioned table; another writer's rows stay."""
        t = TABLES[name]
        self._commit(t, self._write(t, rows), None, keep=True)

    def _write(self, t: Table, rows: Sequence[Mapping[str, Any]]) -> "list[AddAction]":
        return [add_action(r) for b in write_files(t, Path(self.path(t.name)), arrow_table(t, rows).to_batches()) for r in b.to_pylist()]

    def _commit(self, t: Table, adds: "list[AddAction]", part: Part | None, keep: bool = False) -> None:
        from deltalake import CommitProperties
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import RemoveAction, create_table_with_add_actions

        done = CommitProperties(max_commit_retries=5 if keep else 0)  # two writers at once are a breach of W: the second fails; an addition meets at most a compaction
        if not self.exists(t.name):
            self.guard()
            settings = {"delta.checkpointInterval": "100", "delta.dataSkippingStatsColumns": ",".join(t.stats)}
            create_table_with_add_actions(self.path(t.name), delta_schema(t), adds, partition_by=list(t.partition_by), configuration=settings, commit_properties=done)
            return
        log = self._log(t.name)
        now_ms = round(time.time() * 1000)
        gone = [] if keep else [RemoveAction(path, True, now_ms, size, None) for path, size, _ in self._files(log, part)]
        if adds or gone:
            self.guard()
            try:
                log.create_write_transaction([*adds, *gone], "append", log.schema(), list(t.partition_by), commit_properties=done)
            except CommitFailedError:
                raise TableError(f"table {t.name} at {self.path(t.name)} was written by another process at the same time; nothing was committed here: end the other one and run the same command again") from None

    def _log(self, name: str) -> "DeltaTable":
        from deltalake import DeltaTable

        return DeltaTable(self.path(name))

    def _files(self, log: "DeltaTable", part: Part | None) -> Iterator[tuple[str, int, int]]:
        """(path, bytes, rows) of the current files of some partitions."""
        actions = pa.table(log.get_add_actions(flatten=True))
        wanted = {f"partition.{c}": {str(v) for v in values} for c, values in (part or {}).items()}
        values = [actions.column(c).to_pylist() for c in wanted]
        for i, (path, size, rows) in enumerate(zip(*(actions.column(c).to_pylist() for c in ("path", "size_bytes", "num_records")), strict=True)):
            if all(str(column[i]) in allowed for column, allowed in zip(values, wanted.values(), strict=True)):
                yield path, size, rows

    def conform(self, name: str, df: "DataFrame") -> "DataFrame":
        """`df` with exactly the table's columns, in order, cast; what it lacks is null."""
        have = set(df.columns)
        return df.selectExpr(*[f"CAST({f'`{c.name}`' if c.name in have else 'NULL'} AS {c.type}) AS `{c.name}`" for c in TABLES[name].columns])

    def compact(self, name: str, vacuum_hours: float) -> None:
        """Join small files, then remove files that no version younger than `vacuum_hours` names."""
        if self.exists(name):
            self.guard()
            log = self._log(name)
            log.optimize.compact()
            log.vacuum(math.ceil(vacuum_hours), dry_run=False, enforce_retention_duration=False, full=True)

    def _check_columns(self, name: str, have: Sequence[str]) -> None:
        if lacks := [c for c in TABLES[name].column_names if c not in have]:
            raise TableError(f"it has no column {', '.join(lacks)}")

    def _unreadable(self, name: str, e: Exception) -> TableError:
        return TableError(f"table {name} at {self.path(name)} cannot be read: {str(e).splitlines()[0]:.300}; restore the folder from a copy")


def quote(value: str) -> str:
    """A SQL string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def in_list(column: str, values: Sequence[str | int]) -> str:
    """`column IN (...)`, never empty (an empty list matches nothing)."""
    return f"{column} IN ({', '.join(quote(v) if isinstance(v, str) else str(v) for v in sorted(values))})" if values else "false"
