"""fetch: the fetch list through slot tasks, exactly one task a slot.

Contract: one Spark action, no shuffle after it. What was fetched is in WARC files and part
manifests; only counts come back.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from crawlkit.model import FetchItem

READS = ("fetchlist",)
WRITES = ()  # WARC files and parts

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


def fetch(fetch_list: DataFrame, slots: int, run_slot: RunSlot) -> dict[str, Any]:
    """Run every slot of a fetch list (or of a region's part of it); their counts, summed.

    run_slot: the items of one slot, in their order -> counts. Raises ValueError for a slot number
    beyond `slots`, which repartitionById would wrap.
    """
    top = fetch_list.agg(F.max("slot")).collect()[0][0]
    if top is not None and top >= slots:
        raise ValueError(f"fetch list has slot {top}, expected fewer than {slots}")

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        items = (FetchItem(**row) for batch in batches for row in batch.to_pylist())
        first = next(items, None)
        if first is None:
            return
        counts = run_slot(itertools.chain([first], items))
        names, values = list(counts), [float(v) for v in counts.values()]
        yield pa.RecordBatch.from_pylist([{"name": names, "value": values}], _COUNTS)

    done = (
        fetch_items(fetch_list)
        .repartitionById(slots, F.col("slot"))
        .sortWithinPartitions("rank")
        .mapInArrow(run, "name array<string>, value array<double>")
        .collect()
    )
    total: Counter[str] = Counter()
    for r in done:
        total.update(dict(zip(r.name, r.value, strict=True)))
    counts = {name: int(v) if v == int(v) else v for name, v in total.items()}
    return counts | {"slots": len(done)}


_COUNTS = pa.schema([("name", pa.list_(pa.string())), ("value", pa.list_(pa.float64()))])
