"""fetch: the fetch list through slot tasks, exactly one task a slot.

Contract: one Spark action, no shuffle after it. What was fetched is in WARC files and part
manifests; only counts come back.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pyarrow as pa

from crawlkit.engine.frame import Batches, Frame, Tasks
from crawlkit.engine.task_errors import TaskFailed
from crawlkit.model import FetchItem
from crawlkit.tables.ddl import arrow_schema

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
    "not_before": "unix_micros(not_before) / 1e6",
    "depth": "depth",
    "redirects": "redirects",
    "priority_class": "priority_class",
    "sent_url": "sent_url",
    "host_class": "class",
    # validators go out only while the copy that they speak of is stored
    "etag": "CASE WHEN capture_id IS NOT NULL THEN etag END",
    "last_modified": "CASE WHEN capture_id IS NOT NULL THEN last_modified END",
    "prev_payload_digest": "payload_digest",
    "prev_capture_id": "capture_id",
    "prev_fetched_at": "unix_micros(fetched_at) / 1e6",
    "prev_copy_url": "copy_url",
    "robots_status": "robots_status",
    "robots_body": "robots_body",
    "robots_fetched_at": "unix_micros(robots_fetched_at) / 1e6",
    "robots_expires_at": "unix_micros(robots_expires) / 1e6",
    "host_state": "host_state",
    "doc_filename": "doc_filename",
    "doc_offset": "doc_offset",
    "doc_length": "doc_length",
}


def fetch_items(fetchlist: Frame) -> Frame:
    """The columns of FetchItem."""
    return fetchlist.select(*[f"{sql} AS `{name}`" for name, sql in _ITEM.items()])


def fetch(fetch_list: Frame, slots: int, run_slot: RunSlot) -> dict[str, Any]:
    """Run every slot of a fetch list (or of a region's part of it); their counts, summed.

    run_slot: the items of one slot, in their order -> counts. Raises ValueError for a slot number
    beyond `slots`, which Spark would wrap; TaskFailed for an error that trying again does not mend
    (a full disk), once all slots have ended: such a slot is not run again.
    """
    top = fetch_list.select("max(slot) AS top").rows()[0]["top"]
    if top is not None and top >= slots:
        raise ValueError(f"fetch list has slot {top}, expected fewer than {slots}")
    tasks = Tasks(("slot",), ("`rank`",), slots=slots)
    done = fetch_items(fetch_list).map_batches(partial(_run, run_slot), _COUNTS_DDL, tasks).rows()
    if errors := [r["error"] for r in done if r["error"]]:
        raise TaskFailed(errors[0])
    total: Counter[str] = Counter()
    for r in done:
        total.update(dict(zip(r["name"], r["value"], strict=True)))
    counts = {name: int(v) if v == int(v) else v for name, v in total.items()}
    return counts | {"slots": len(done)}


def _run(run_slot: RunSlot, batches: Batches) -> Batches:
    items = (FetchItem(**row) for batch in batches for row in batch.to_pylist())
    first = next(items, None)
    if first is None:
        return
    counts: dict[str, int] = {}
    error = None
    try:
        counts = run_slot(itertools.chain([first], items))
    except Exception as e:
        if getattr(e, "exit_code", 3) == 3:  # not foreseen, or a lock is held
            raise
        error = f"{type(e).__module__}.{type(e).__qualname__}: {e}"
    row = {"name": list(counts), "value": [float(v) for v in counts.values()], "error": error}
    yield pa.RecordBatch.from_pylist([row], arrow_schema(_COUNTS_DDL))


_COUNTS_DDL = "name array<string>, value array<double>, error string"
