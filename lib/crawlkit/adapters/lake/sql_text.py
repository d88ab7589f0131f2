"""Values and places in the SQL of Spark and DuckDB."""

from __future__ import annotations

from collections.abc import Sequence


def spark_place(place: str) -> str:
    """A place as Spark names it: its file system for S3 is s3a."""
    return place.replace("s3://", "s3a://", 1) if place.startswith("s3://") else place


def quote(value: str) -> str:
    """A SQL string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def in_list(column: str, values: Sequence[str | int | bytes]) -> str:
    """`column IN (...)`, never empty (an empty list matches nothing)."""
    if not values:
        return "false"
    literals = (quote(v) if isinstance(v, str) else str(v) for v in sorted(values))
    return f"{column} IN ({', '.join(literals)})"
