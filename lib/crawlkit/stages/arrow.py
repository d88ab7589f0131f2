"""What stages share to run Python over rows: rows as dicts with times as Unix s."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from crawlkit.engine.frame import ANY, Batches, Frame, Tasks, to_batch, to_rows
from crawlkit.tables import Column

Row = dict[str, Any]
RowFunction = Callable[[Iterator[Row]], Iterable[Mapping[str, Any]]]
CHUNK_ROWS = 2000


def map_rows(
    frame: Frame, function: RowFunction, columns: Sequence[Column], tasks: Tasks = ANY
) -> Frame:
    """Rows of `columns`, which a function makes of the rows of each task.

    function: rows of a task, in their order -> rows; pure. Times are Unix s on both sides; what a
        row lacks is null.
    """
    ddl = ", ".join(f"`{c.name}` {c.type}" for c in columns)
    return frame.map_batches(partial(_apply, function, columns), ddl, tasks)


def _apply(function: RowFunction, columns: Sequence[Column], batches: Batches) -> Batches:
    rows = (row for batch in batches for row in to_rows(pa.Table.from_batches([batch])))
    made = iter(function(rows))
    while chunk := list(itertools.islice(made, CHUNK_ROWS)):
        yield to_batch(chunk, columns)
