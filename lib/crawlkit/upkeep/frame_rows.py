"""What the upkeep asks of frames in several places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlkit.engine.frame import Frame


def distinct(rows: Frame, *columns: str) -> list[tuple[Any, ...]]:
    """The different values of some columns, ascending; none of them may be null."""
    found = rows.engine.query(f"SELECT DISTINCT {', '.join(columns)} FROM {{rows}}", rows=rows)
    return sorted(tuple(r[c] for c in columns) for r in found.rows())


def is_empty(rows: Frame) -> bool:
    """Whether there is no row; it looks for one alone."""
    return not rows.engine.query("SELECT 1 AS n FROM {rows} LIMIT 1", rows=rows).rows()


def change(rows: Frame, values: Mapping[str, str]) -> Frame:
    """The same columns, some of them with the value of an expression in SQL."""
    return rows.select(*[f"{values[c]} AS {c}" if c in values else c for c in rows.columns])
