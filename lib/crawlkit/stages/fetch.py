"""fetch: the fetch list through slot tasks, exactly one task a slot.

What was fetched stands in WARC files and parts; only counts come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from crawlkit.model import FetchItem

RunSlot = Callable[[Iterable[FetchItem]], dict[str, int]]
_ITEM = {
    "round_id": "round_id",
    "url_key": "url_key",
    "url": "url",
    "host": "host",
    "domain": "domain",
    "slot": "slot",
    "rank": "rank",
    "kind": "kind",
    "not_before": "cast(not_before as double)",
    "depth": "depth",
    "redirects": "redirects",
    "priority_class": "priority_class",
    "etag": "etag",
    "last_modified": "last_modified",
    "prev_payload_digest": "payload_digest",
    "prev_capture_id": "capture_id",
    "prev_fetched_at": "cast(fetched_at as double)",
    "prev_copy_url": "copy_url",
    "robots_status": "robots_status",
    "robots_body": "robots_body",
    "robots_fetched_at": "cast(robots_fetched_at as double)",
    "robots_expires_at": "cast(robots_expires as double)",
    "host_state": "host_state",
}


def fetch_items(fetchlist: DataFrame) -> DataFrame:
    """The columns of FetchItem.

    Validators go out only while the copy that they speak of is stored.
    """
    df = fetchlist.select(*[F.expr(e).alias(n) for n, e in _ITEM.items()])
    for name in ("etag", "last_modified"):
        df = df.withColumn(name, F.when(F.col("prev_capture_id").isNotNull(), F.col(name)))
    return df


def run_slots(fetchlist: DataFrame, slots: int, run_slot: RunSlot) -> list[dict[str, Any]]:
    """Run every slot; the counts of each.

    A slot id beyond `slots` is refused (repartitionById would wrap it).
    """
    top = fetchlist.agg(F.max("slot")).first()[0]
    if top is not None and top >= slots:
        raise ValueError(f"fetch list has slot {top}, expected fewer than {slots}")

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        items = (FetchItem(**row) for batch in batches for row in batch.to_pylist())
        first = next(items, None)
        if first is None:
            return

        def all_items() -> Iterator[FetchItem]:
            yield first
            yield from items

        counts = run_slot(all_items())
        yield pa.RecordBatch.from_pydict(
            {
                "slot": pa.array([first.slot], pa.int32()),
                "name": pa.array([list(counts)], pa.list_(pa.string())),
                "value": pa.array([[float(v) for v in counts.values()]], pa.list_(pa.float64())),
            }
        )

    out = (
        fetch_items(fetchlist)
        .repartitionById(slots, F.col("slot"))
        .sortWithinPartitions("rank")
        .mapInArrow(task, "slot int, name array<string>, value array<double>")
    )
    return [{"slot": r.slot, **dict(zip(r.name, r.value, strict=True))} for r in out.collect()]
