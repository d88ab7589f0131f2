"""Parsed items as a batch of PARSED_SCHEMA, made column by column: rows of dicts would cost as much
as finding the links does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

from crawlkit.parsing.discovery import ParsedRow


def to_batch(rows: Sequence[ParsedRow], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of `schema`. A list of structs is given as tuples in the order of its fields."""
    columns = []
    for field in schema:
        values = [row[field.name] for row in rows]  # type: ignore[literal-required]
        kind = field.type
        is_rows = pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)
        columns.append(_lists(values, kind) if is_rows else pa.array(values, kind))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _lists(lists: Sequence[Sequence[tuple[Any, ...]]], kind: pa.ListType) -> pa.ListArray:
    fields = list(kind.value_type)
    cells = list(zip(*chain.from_iterable(lists), strict=True)) or [()] * len(fields)
    columns = [pa.array(c, f.type) for c, f in zip(cells, fields, strict=True)]
    offsets = pa.array([0, *accumulate(map(len, lists))], pa.int32())
    return pa.ListArray.from_arrays(
        offsets, pa.StructArray.from_arrays(columns, fields=fields), type=kind
    )
