"""Data files that a task writes itself: what it makes then need not travel through Spark, which
costs more than most of the making.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import pyarrow as pa


class Writer(Protocol):
    """adapters.delta_files.TableWriter: takes batches with all of a table's columns, yields a row
    (tables.FILES_DDL) for each finished file.
    """

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]: ...
    def close(self) -> Iterator[pa.RecordBatch]: ...
    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...
