"""The Delta tables of one crawl: read, replace a part, append nothing twice.

Every write is a replaceWhere on the round (and writer) or on buckets, or a whole overwrite, so each can be
repeated. Writers hold the commit lock W (adapters/lease.py); `guard` is called just before each commit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from crawlkit.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TableError(RuntimeError):
    """A table is missing, damaged or not ours; the message names it."""


class Tables:
    """The tables below `root` (a local folder or a URI that Spark can write)."""

    def __init__(self, spark: "SparkSession", root: str, guard: Callable[[], None] = lambda: None) -> None:
        self.spark, self.root, self.guard = spark, root.rstrip("/"), guard

    def path(self, name: str) -> str:
        return f"{self.root}/{TABLES[name].name}"

    def exists(self, name: str) -> bool:
        if "://" not in self.root:  # a look at the folder is some hundred times cheaper than Spark's
            log = Path(self.path(name), "_delta_log")  # a first write that died leaves it empty
            return next(log.glob("[0-9]*.json"), None) is not None or next(log.glob("[0-9]*.parquet"), None) is not None
        from delta.tables import DeltaTable

        return DeltaTable.isDeltaTable(self.spark, self.path(name))

    def read(self, name: str) -> "DataFrame":
        """The table, or an empty frame of its schema. Raises TableError."""
        from py4j.protocol import Py4JNetworkError

        if not self.exists(name):
            nulls = ", ".join(f"CAST(NULL AS {c.type}) AS `{c.name}`" for c in TABLES[name].columns)
            return self.spark.sql(f"SELECT {nulls} WHERE false")  # a local relation: no task is started for it
        try:
            df = self.spark.read.format("delta").load(self.path(name))
            if lacks := [c for c in TABLES[name].column_names if c not in df.columns]:
                raise TableError(f"it has no column {', '.join(lacks)}")
            return df
        except (OSError, Py4JNetworkError):  # the JVM has died: that says nothing about the table
            raise
        except Exception as e:
            raise TableError(f"table {name} at {self.path(name)} cannot be read: {str(e).splitlines()[0]:.300}; restore the folder from a copy") from None

    def conform(self, name: str, df: "DataFrame") -> "DataFrame":
        """`df` with exactly the table's columns, in order, cast, with their comments; what it lacks is null."""
        from pyspark.sql import functions as F

        have = set(df.columns)
        return df.select(*[(F.col(c.name) if c.name in have else F.lit(None)).cast(c.type).alias(c.name, metadata={"comment": c.comment}) for c in TABLES[name].columns])

    def replace(self, name: str, df: "DataFrame", where: str | None = None) -> None:
        """Put `df` in place of the rows for which `where` holds (None: of the whole table)."""
        t = TABLES[name]
        writer = self.conform(name, df).write.format("delta").mode("overwrite")
        if not self.exists(name):
            writer = writer.option("delta.checkpointInterval", "100").option("delta.dataSkippingStatsColumns", ",".join(t.stats)).option("overwriteSchema", "true")
        elif where is not None:
            writer = writer.option("replaceWhere", where)
        if t.partition_by:
            writer = writer.partitionBy(*t.partition_by)
        self.guard()
        writer.save(self.path(name))

    def delete(self, name: str, where: str) -> None:
        """Remove the rows for which `where` holds."""
        from delta.tables import DeltaTable

        if self.exists(name):
            self.guard()
            DeltaTable.forPath(self.spark, self.path(name)).delete(where)

    def compact(self, name: str, vacuum_hours: float) -> None:
        """OPTIMIZE, then VACUUM of files no longer referenced for `vacuum_hours`."""
        from delta.tables import DeltaTable

        if self.exists(name):
            self.guard()
            t = DeltaTable.forPath(self.spark, self.path(name))
            t.optimize().executeCompaction()
            t.vacuum(vacuum_hours)

    def bytes(self, name: str) -> int:
        """Size of the table's current files."""
        if not self.exists(name):
            return 0
        return int(self.spark.sql(f"DESCRIBE DETAIL delta.`{self.path(name)}`").select("sizeInBytes").first()[0] or 0)


def quote(value: str) -> str:
    """A SQL string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def in_list(column: str, values: list[int]) -> str:
    """`column IN (...)`, never empty (an empty list matches nothing)."""
    return f"{column} IN ({', '.join(map(str, sorted(values)))})" if values else "false"
