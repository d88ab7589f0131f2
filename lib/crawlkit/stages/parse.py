"""parse: WARC records of a round's captures -> pages, links, found rows, rejects.

It never asks the network (G4).

A forked child parses batch after batch, each with a time limit; a batch in which the child dies is
parsed again page by page in children of their own, and the page that kills is a reject (parse_crash
or parse_timeout), never the end of the stage.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from crawlkit.config import Config
from crawlkit.outcomes import Reason
from crawlkit.stages.parse_page import ITEM_SCHEMA, PARSED_SCHEMA, parse_item

BATCH = 64
ReadRecord = Callable[
    [str, int, int], tuple[list[tuple[str, str]], bytes]
]  # (file, offset, length) -> (headers, payload)


def to_parse(
    captures: DataFrame, fetchlist: DataFrame, host_ranks: DataFrame, vouched: DataFrame | None
) -> DataFrame:
    """The round's captures with something to read, each with where its payload stands and its
    frontier row's place.

    A revisit of another URL's copy is read from that copy; a revisit of the URL's own copy is
    unchanged and not read again.
    vouched: url, vouched (parse_sitemap.vouched); None: the round has no sitemaps.
    """
    done = captures.where(
        "is_outcome AND kind <> 'robots' AND outcome IN ('fetched', 'redirected')"
    )
    copies = captures.where("record_type = 'response'").select(
        F.col("capture_id").alias("revisit_of"),
        F.col("warc_filename").alias("c_file"),
        F.col("warc_record_offset").alias("c_offset"),
        F.col("warc_record_length").alias("c_length"),
    )
    at = done.join(F.broadcast(copies), "revisit_of", "left")
    row = fetchlist.where("kind <> 'robots'").select("url_key", "depth", "redirects", "domain")
    own = F.col("record_type") == "response"
    at = at.join(F.broadcast(host_ranks.select("host", "quality")), "host", "left").withColumn(
        "quality", F.coalesce("quality", F.lit(0.5))
    )
    at = (
        at.withColumn("vouched", F.array().cast("array<string>"))
        if vouched is None
        else at.join(F.broadcast(vouched), "url", "left")
    )
    return (
        at.join(row, "url_key")
        .where(own | F.col("c_file").isNotNull())
        .select(
            "capture_id",
            "kind",
            "vouched",
            "url_key",
            "url",
            "host",
            "domain",
            "depth",
            "redirects",
            "outcome",
            "content_type",
            "truncated",
            "redirect_to",
            "quality",
            F.when(own, F.col("warc_filename")).otherwise(F.col("c_file")).alias("file"),
            F.when(own, F.col("warc_record_offset")).otherwise(F.col("c_offset")).alias("offset"),
            F.when(own, F.col("warc_record_length")).otherwise(F.col("c_length")).alias("length"),
        )
    )


def parsed(
    items: DataFrame,
    read: ReadRecord,
    cfg: Config,
    now: float,
    tasks: int,
    out: "Callable[[Iterator[pa.RecordBatch], Given], Iterator[pa.RecordBatch]] | None" = None,
    ddl: str = PARSED_SCHEMA,
) -> DataFrame:
    """One row for each item: page (null for redirects and rejects), links, found, rejects.

    A task tells a link's found row again only when it is a better one.

    out: what a task makes of these rows, and `ddl` its schema (parse_write.py).
    """

    schema = arrow_schema(items.sparkSession)

    def batches(it: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = Given(it)
        yield from parse_batches(given) if out is None else out(parse_batches(given), given)

    def parse_batches(it: Given) -> Iterator[pa.RecordBatch]:
        for n, batch in enumerate(it):
            if n == 0:
                warm_up(cfg, now)
            rows = batch.to_pylist()
            yield from _isolated(
                [rows[i : i + BATCH] for i in range(0, len(rows), BATCH)], read, cfg, now, schema
            )

    spread = items.repartitionByRange(tasks, "file", "offset").sortWithinPartitions(
        "file", "offset"
    )
    return spread.select(*[c.split(" ", 1)[0] for c in ITEM_SCHEMA]).mapInArrow(batches, ddl)


class Given:
    """The batches of a task's input, and how many `rows` they had so far."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches, self.rows = batches, 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


def warm_up(cfg: Config, now: float) -> None:
    """Loads what a first page loads (language model, public suffixes, compiled scope), so that no
    child has to: 0.8 s each.
    """
    row = dict.fromkeys(c.split(" ", 1)[0] for c in ITEM_SCHEMA) | {
        "capture_id": "",
        "kind": "page",
        "url": "http://page.example/",
        "outcome": "fetched",
        "content_type": "text/html",
        "depth": 0,
        "redirects": 0,
        "quality": 0.5,
    }
    parse_item(row, lambda *_: ([], _OWN_PAGE), cfg, now)


_OWN_PAGE = (
    b"<!doctype html><title>A page</title><p>Words enough for the language of a page to be told"
    b' from them.</p><a href="/next">next</a>'
)


def arrow_schema(spark: SparkSession, ddl: str = PARSED_SCHEMA) -> pa.Schema:
    """A schema for Arrow."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(spark.createDataFrame([], ddl).schema)


def _isolated(
    groups: list[list[dict[str, Any]]], read: ReadRecord, cfg: Config, now: float, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Groups of rows parsed in a child, one result a group; the group in which it dies row by row,
    the others in another child.
    """
    while groups:
        done, why = 0, Reason.PARSE_CRASH
        for batch, why in _in_child(groups, read, cfg, now, schema):
            if batch is not None:
                done += 1
                yield batch
        if done == len(groups):
            return
        if len(groups[done]) == 1:
            yield pa.RecordBatch.from_pylist([_rejected(groups[done][0], why)], schema)
        else:
            yield from _isolated([[row] for row in groups[done]], read, cfg, now, schema)
        groups = groups[done + 1 :]


def _rejected(row: dict[str, Any], reason: Reason) -> dict[str, Any]:
    detail = f"{row['file']} at {row['offset']}"
    return {
        "capture_id": row["capture_id"],
        "page": None,
        "links": [],
        "found": [],
        "rejects": [{"item": row["url"], "reason": str(reason), "detail": detail}],
    }


def _in_child(
    groups: list[list[dict[str, Any]]], read: ReadRecord, cfg: Config, now: float, schema: pa.Schema
) -> Iterator[tuple[pa.RecordBatch | None, Reason]]:
    """Each group's result as it comes; then None and why there are no more, if the child did not
    end well.
    """
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(r)
            # else each collection writes to all the memory that is shared with the parent
            gc.freeze()
            with os.fdopen(w, "wb") as f:
                told: Told = {}
                for rows in groups:
                    out = pa.RecordBatch.from_pylist(
                        [_untold(parse_item(row, read, cfg, now), told) for row in rows], schema
                    ).serialize()
                    f.write(len(out).to_bytes(8, "little"))
                    f.write(out)
                    f.flush()
            status = 0
        finally:
            os._exit(status)
    os.close(w)
    reason = Reason.PARSE_CRASH
    try:
        with os.fdopen(r, "rb", buffering=0) as f:
            for rows in groups:
                deadline = time.monotonic() + cfg.parse.page_timeout_s * (1 + len(rows) / 8)
                size = _read(f, 8, deadline)
                out = size and _read(f, int.from_bytes(size, "little"), deadline)
                if not out:
                    if time.monotonic() >= deadline:
                        reason = Reason.PARSE_TIMEOUT
                    break
                yield pa.ipc.read_record_batch(pa.py_buffer(out), schema), reason
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # has given all, has failed, or the caller wants no more
        os.waitpid(pid, 0)
    yield None, reason


def _read(f: BinaryIO, size: int, deadline: float) -> bytes | None:
    """Exactly `size` bytes of a pipe; None if it ends or the deadline passes before."""
    chunks: list[bytes] = []
    while size:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([f], [], [], left)[0]:
            return None
        chunk = f.read(min(size, 1 << 20))
        if not chunk:
            return None
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


Told = dict[
    tuple[bytes, str, float | None], tuple[int, int, bytes]
]  # (url_key, fetch_kind, due_at) -> (depth, redirects, parent_key) of the best found row
MOST_TOLD = 200_000


def _untold(row: dict[str, Any], told: Told) -> dict[str, Any]:
    """A row of PARSED_SCHEMA without the found rows that `found_of` would drop for one told before:
    the pages of a site link to the same URLs.
    """
    if len(told) > MOST_TOLD:
        told.clear()
    kept = []
    for f in row["found"]:
        key, rank = (
            (f["url_key"], f["fetch_kind"], f["due_at"]),
            (f["depth"], f["redirects"], f["parent_key"] or b""),
        )
        if key not in told or rank < told[key]:
            told[key] = rank
            kept.append(f)
    row["found"] = kept
    return row


def rejects_of(rows: DataFrame, round_id: str) -> DataFrame:
    """`rejects` of the stage."""
    return (
        rows.select("capture_id", F.posexplode("rejects").alias("n", "r"))
        .select("capture_id", F.col("n").cast("bigint").alias("n"), "r.*")
        .withColumns({"round_id": F.lit(round_id), "stage": F.lit("parse")})
    )


def found_in(rows: DataFrame) -> DataFrame:
    """The found rows of PARSED_SCHEMA's rows."""
    return rows.select(F.explode("found").alias("f")).select("f.*")


def found_of(flat: DataFrame, round_id: str, round_no: int, now: float) -> DataFrame:
    """Found rows of crawldb_log: one for each distinct target, from the shallowest page (then the
    smallest key).
    """
    rest = [c for c in flat.columns if c not in ("url_key", "due_at", "fetch_kind")]
    special = F.coalesce(
        F.max(F.when(F.col("fetch_kind") != "page", F.col("fetch_kind"))), F.lit("page")
    )
    best = (
        flat.groupBy("url_key")
        .agg(
            F.min_by(F.struct(*rest), F.struct("depth", "redirects", "parent_key")).alias("b"),
            special.alias("fetch_kind"),
            F.max("due_at").alias("due"),
        )
        .select(
            "url_key",
            "b.*",
            "fetch_kind",
            F.timestamp_micros((F.col("due") * 1e6).cast("bigint")).alias("due_at"),
        )
    )
    at = F.timestamp_micros(F.lit(round(now * 1e6)))
    return best.withColumns(
        {
            "state": F.lit("queued"),
            "priority_class": F.when(F.col("fetch_kind") == "page", 2).otherwise(1),
            "boost": F.lit(0.0),
            "first_seen": at,
            "next_fetch": at,
            "retries": F.lit(0),
            "n_fetch": F.lit(0).cast("bigint"),
            "n_change": F.lit(0).cast("bigint"),
            "history": F.lit(""),
            "flags": F.array().cast("array<string>"),
            "updated_no": F.lit(round_no),
            "round_id": F.lit(round_id),
            "writer": F.lit("parse"),
            "kind": F.lit("found"),
            "seq": F.lit(0).cast("bigint"),
            "force": F.lit(False),
            "mode": F.lit("keep"),
        }
    )
