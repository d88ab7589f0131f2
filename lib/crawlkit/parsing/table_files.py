"""What a task of parse does with its parsed rows: pages, links and rejects go into the tables'
files there and then, and only found rows and counts travel on. Rows that Spark carried to the
writers cost more than parsing them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TABLES = ("pages", "links", "rejects")


class Writer(Protocol):
    """Writes a table's data files in a task (adapters/lake/parquet.py, TableWriter).

    What comes out are batches of FILES_DDL (tables.py), a row for each finished file.
    """

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take a batch of the table's columns; yields the files that it finished."""

    def close(self) -> Iterator[pa.RecordBatch]:
        """Yields the last file, if there is one."""

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take all batches and close."""


class CountedBatches:
    """The batches of a task's input, and how many `rows` they had so far."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches, self.rows = batches, 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


def write_tables(
    batches: Iterator[pa.RecordBatch],
    given: CountedBatches,
    writers: Mapping[str, Callable[[], Writer]],
    round_id: str,
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Rows of PARSED_SCHEMA -> rows of WRITTEN_SCHEMA (`schema`), in each of which one struct is
    not null.

    writers: of TABLES. counted: `items` (rows given), `pages`, `redirects`, `links`; `rejected` and
    `refused` by reason: items that are no page, and entries of pages.
    """
    open_ = {name: make() for name, make in writers.items()}
    counts: Counter[tuple[str, str]] = Counter()
    for batch in batches:
        flat = flatten(batch, round_id)
        _count(batch, flat["rejects"], counts)
        for name, writer in open_.items():
            yield from _report_files(name, writer.add(flat[name]), schema)
        if len(found := batch.column("found").flatten()):
            yield _only("found", found, schema)
    for name, writer in open_.items():
        yield from _report_files(name, writer.close(), schema)
    counts["items", ""] = given.rows
    yield _only(
        "counted",
        [{"what": what, "reason": reason, "n": n} for (what, reason), n in sorted(counts.items())],
        schema,
    )


def flatten(batch: pa.RecordBatch, round_id: str) -> dict[str, pa.RecordBatch]:
    """Rows of the tables `pages`, `links` and `rejects` in a batch of PARSED_SCHEMA."""
    captures = batch.column("capture_id")
    page = batch.column("page")
    there = page.is_valid()
    links, of_link = batch.column("links").flatten(), pc.list_parent_indices(batch.column("links"))
    rejects, of_reject = (
        batch.column("rejects").flatten(),
        pc.list_parent_indices(batch.column("rejects")),
    )
    place = np.arange(len(of_reject)) - np.searchsorted(of_reject, of_reject)
    return {
        "pages": _rows(
            {"capture_id": captures.filter(there)} | _fields(page.filter(there)), round_id
        ),
        "links": _rows({"capture_id": captures.take(of_link)} | _fields(links), round_id),
        "rejects": _rows(
            {"capture_id": captures.take(of_reject), "n": pa.array(place, pa.int64())}
            | _fields(rejects)
            | {"stage": pa.array(["parse"] * len(rejects), pa.string())},
            round_id,
        ),
    }


def _fields(structs: pa.StructArray) -> dict[str, pa.Array]:
    return {structs.type.field(i).name: column for i, column in enumerate(structs.flatten())}


def _rows(columns: dict[str, pa.Array], round_id: str) -> pa.RecordBatch:
    n = len(columns["capture_id"])
    return pa.RecordBatch.from_pydict(columns | {"round_id": pa.array([round_id] * n, pa.string())})


def _count(
    batch: pa.RecordBatch, rejects: pa.RecordBatch, counts: Counter[tuple[str, str]]
) -> None:
    read = batch.column("page").is_valid().to_numpy(zero_copy_only=False)
    refused = np.asarray(pc.list_value_length(batch.column("rejects"))) > 0
    counts["pages", ""] += int(read.sum())
    counts["others", ""] += int((~read & ~refused).sum())
    counts["links", ""] += len(batch.column("links").flatten())
    of_page = read[np.asarray(pc.list_parent_indices(batch.column("rejects")))]
    for reason, page in zip(rejects.column("reason").to_pylist(), of_page.tolist(), strict=True):
        counts["refused" if page else "rejected", reason] += 1


def _report_files(
    table: str, files: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for file in files:
        yield _only("added", [{"table": table} | row for row in file.to_pylist()], schema)


def _only(name: str, values: Any, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of `schema` in which only this struct is not null."""
    values = values if isinstance(values, pa.Array) else pa.array(values, schema.field(name).type)
    return pa.RecordBatch.from_arrays(
        [values if f.name == name else pa.nulls(len(values), f.type) for f in schema], schema=schema
    )
