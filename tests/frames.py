"""Frames of rows for tests, and their rows again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crawlkit.adapters.lake.parquet import arrow_table
from crawlkit.engine.frame import Engine, Frame
from crawlkit.tables import TABLES


class Record(dict[str, Any]):
    """A row whose columns are attributes too."""

    __getattr__ = dict.__getitem__


def frame(engine: Engine, table: str, rows: Sequence[Mapping[str, Any]]) -> Frame:
    """Rows (times as Unix s) as a frame of a table's schema."""
    return engine.from_arrow(arrow_table(TABLES[table], rows))


def collect(frame: Frame) -> list[Record]:
    """Its rows, times as Unix s."""
    return [Record(row) for row in frame.rows()]
