"""Which host buckets a round takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

DUE_COLUMNS = tuple(f"next_due_{c}" for c in range(4))  # of the table buckets, by priority class


def add_due(
    summaries: Iterable[Mapping[str, Any]], buckets: Iterable[int], now: float
) -> list[dict[str, Any]]:
    """`buckets` rows in which some buckets are due at `now`: they just got rows."""
    rows = {r["host_bucket"]: dict(r) for r in summaries}
    for b in buckets:
        row = rows.setdefault(b, {"host_bucket": b, **dict.fromkeys(DUE_COLUMNS)})
        row["next_due_1"] = min(row["next_due_1"] or now, now)
    return list(rows.values())


def choose_buckets(
    rows: Iterable[Mapping[str, Any]], now: float, limit: int, taken: set[int]
) -> list[int]:
    """At most `limit` unclaimed buckets with something due: those with due class 0 first, then the
    longest overdue.
    """
    due = []
    for r in rows:
        times = [r[name] for name in DUE_COLUMNS]
        first = min((t for t in times if t is not None), default=None)
        if first is not None and first <= now and r["host_bucket"] not in taken:
            urgent = times[0] is not None and times[0] <= now
            due.append((not urgent, first, r["host_bucket"]))
    return sorted(b for *_, b in sorted(due)[:limit])
