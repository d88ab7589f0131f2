"""Rows of a table or query as CSV, JSON Lines or Parquet, in batches of bounded memory.

Times are ISO 8601 in UTC, binary values hexadecimal. In CSV (RFC 4180, UTF-8, a line of names
first) lists are JSON, null is nothing and an empty text is `""`; in JSON what is no number is null.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from crawlkit.exports.files import atomic

Batches = Iterable[pa.RecordBatch]  # at least one, which tells the columns
FORMS = ("csv", "jsonl", "parquet")
_QUOTED = re.compile(r'[",\r\n]')


class Limited:
    """The first rows of batches; `more` says, once they are read, whether there were others."""

    def __init__(self, batches: Batches, limit: int | None) -> None:
        """limit: None for all."""
        self._batches, self._limit = batches, limit
        self.rows, self.more = 0, False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            left = batch.num_rows if self._limit is None else self._limit - self.rows
            self.more = batch.num_rows > left
            kept = batch.slice(0, left)
            self.rows += kept.num_rows
            yield kept.rename_columns(_different(kept.schema.names))
            if self.more:
                break


def _different(names: list[str]) -> list[str]:
    """The names of columns, with a number at those that another has before it: url, url_2."""
    found: list[str] = []
    for name in names:
        numbered = (f"{name}_{n}" if n > 1 else name for n in itertools.count(1))
        found.append(next(n for n in numbered if n not in found and (n == name or n not in names)))
    return found


def write_rows(batches: Batches, form: str, out: Path) -> int:
    """Write a file, whole or not at all; the number of rows. form: one of FORMS."""
    rows = Limited(batches, None)
    if form == "parquet":
        with atomic(out) as f:
            _write_parquet(rows, f)
    else:
        with atomic(out, "w") as f:
            f.writelines(lines(rows, form))
    return rows.rows


def _write_parquet(batches: Batches, file: Any) -> None:
    writer = None
    for batch in batches:
        writer = writer or pq.ParquetWriter(file, batch.schema, compression="zstd")
        writer.write_batch(batch)
    if writer is not None:
        writer.close()


def lines(batches: Batches, form: str) -> Iterator[str]:
    """The lines of a file, with their ends. form: csv or jsonl."""
    is_first = True
    for batch in batches:
        if form == "csv" and is_first:
            yield csv_line(batch.schema.names)
        is_first = False
        for row in plain_rows(batch):
            yield csv_line(row.values()) if form == "csv" else to_json(row)


def plain_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch with values that JSON has."""
    return [{name: plain(v) for name, v in row.items()} for row in batch.to_pylist()]


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):  # what sum() gives
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            return value.isoformat()
        return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [plain(v) for v in value]
    return str(value)


def to_json(row: Mapping[str, Any]) -> str:
    """A row as a line of JSON."""
    return json.dumps(row, ensure_ascii=False) + "\n"


def csv_line(values: Iterable[Any]) -> str:
    """Values as a line of CSV."""
    cells = [_cell(v) for v in values]
    return (",".join(cells) if cells != [""] else '""') + "\n"  # readers skip an empty line


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return '"' + text.replace('"', '""') + '"' if not text or _QUOTED.search(text) else text
