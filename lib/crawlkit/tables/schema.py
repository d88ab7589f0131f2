"""What a table is: columns with types and meaning, key, partition.

Times are UTC; `url_key` is the first 16 bytes of SHA-256 of the canonical URL. A column's comment
is stored in the Delta table too.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

ARROW = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "array<string>": pa.list_(pa.string()),
    "timestamp": pa.timestamp("us", "UTC"),
}


class Column(NamedTuple):
    """A column. type: Spark SQL DDL. comment: its meaning."""

    name: str
    type: str  # Spark SQL DDL
    comment: str


FILES_DDL = (  # what a task tells of each data file that it wrote
    "path string, bytes bigint, modified_ms bigint, partition string, stats string"
)


class Table(NamedTuple):
    """A table. role: one sentence. key: the columns that name a row."""

    name: str
    role: str
    key: tuple[str, ...]
    partition_by: tuple[str, ...]
    columns: tuple[Column, ...]
    also: str = ""  # who reads and writes it beside the stages (their READS and WRITES)

    @property
    def stats(self) -> list[str]:
        """Columns whose least and greatest value each data file keeps; few, since planning over 30
        of them costs seconds a write.
        """
        first = (
            "host_bucket",
            "updated_no",
            "next_fetch",
            "round_no",
            "capture_id",
            "text_sha256",
            "host",
            "url",
        )  # by what readers ask for
        kept = [
            name for name in first if name in self.column_names and name not in self.partition_by
        ][:4]
        return (
            kept
            or [
                c.name
                for c in self.columns
                if c.name not in self.partition_by and c.type not in ("binary", "boolean")
            ][:1]
        )

    @property
    def column_names(self) -> list[str]:
        """In the table's order."""
        return [c.name for c in self.columns]


def _read_columns(text: str) -> tuple[Column, ...]:
    """Columns from lines of `name type | comment`."""
    out = []
    for line in filter(None, text.splitlines()):
        head, comment = line.split("|", 1)
        name, type_ = head.split(None, 1)
        out.append(Column(name, type_.strip(), comment.strip()))
    return tuple(out)


def make_table(
    name: str, role: str, key: str, partition_by: str, columns: str, also: str = ""
) -> Table:
    """A table from words and from lines of `name type | comment`."""
    return Table(
        name,
        role,
        tuple(key.split()),
        tuple(partition_by.split()),
        _read_columns(columns),
        also,
    )
