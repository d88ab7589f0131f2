"""What the fetch tasks of a round say of themselves, added up (slot/live_figures.py)."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from crawlkit.adapters.store.objects import ObjectMissing, Objects
from crawlkit.model import RECENT_S

SUMS = ("queued", "in_flight", "done", "failed", "bytes")
SHOWN = 10  # hosts


def read_progress(
    objects: Objects, round_id: str, now: float, slots: Collection[int] | None = None
) -> dict[str, Any] | None:
    """The sums of a round's fetch tasks; None before the first has said something.

    queued, in_flight, done, failed (rows), bytes; slots; at (Unix s, the newest); elapsed_s;
    pages_per_s and bytes_per_s of the last half minute (`recent`) and in the mean; eta_s; slowest
    [{host, ms}]; waiting [{host, urls, delay_s, why, next_at, wait_s}], the longest queues.

    Args:
        now: Unix s.
        slots: those that count; None: all.

    Raises OSError.
    """
    rows = list(_rows(objects, round_id, slots))
    if not rows:
        return None
    total: dict[str, Any] = {name: sum(int(r.get(name, 0)) for r in rows) for name in SUMS}
    began = min(float(r.get("began", now)) for r in rows)
    last = max(float(r.get("at", now)) for r in rows)
    elapsed_s = max(last - began, 0.001)
    recent = [*_recent(rows, last)]
    waiting = sorted(_waiting(rows), key=lambda w: (-w["wait_s"], -w["urls"], w["host"]))[:SHOWN]
    slowest = sorted(
        ((float(ms), str(host)) for r in rows for host, ms in r.get("slowest", ())), reverse=True
    )
    rates = {
        "recent": {
            "pages_per_s": round(sum(n / s for s, n, _ in recent), 2),
            "bytes_per_s": round(sum(b / s for s, _, b in recent)),
        },
        "pages_per_s": round(total["done"] / elapsed_s, 2),
        "bytes_per_s": round(total["bytes"] / elapsed_s),
    }
    return {
        **total,
        "slots": len(rows),
        "at": last,
        "elapsed_s": round(elapsed_s, 1),
        **rates,
        "eta_s": _eta_s(total["queued"], rates, waiting),
        "slowest": [{"host": h, "ms": ms} for ms, h in slowest[:5]],
        "waiting": waiting,
    }


def _recent(rows: list[dict[str, Any]], last: float) -> Iterator[tuple[float, int, int]]:
    """Seconds, rows and bytes of the last half minute; a task that has ended does nothing since."""
    for row in rows:
        seconds, done, size = row.get("recent") or (0.0, 0, 0)
        idle_s = last - float(row.get("at", last))
        if seconds > 0 and idle_s < RECENT_S:
            yield seconds + idle_s, done, size


def _eta_s(queued: int, rates: dict[str, Any], waiting: list[dict[str, Any]]) -> float | None:
    """Seconds to go: what the longest queue takes at its pace; where that is none, or URLs are in
    other queues than the longest, no less than all take at the present rate.
    """
    if not queued:
        return 0.0
    longest = max((w["wait_s"] for w in waiting), default=0.0)
    others = queued - sum(w["urls"] for w in waiting if w["wait_s"] > 0)
    pace = rates["recent"]["pages_per_s"] or rates["pages_per_s"]
    if others > 0 and pace <= 0.01:
        return None
    return round(max(longest, others / pace if others > 0 else 0.0), 1)


def _waiting(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        for host, urls, delay_s, why, next_at in row.get("waiting", ()):
            yield {
                "host": host,
                "urls": urls,
                "delay_s": delay_s,
                "why": why,
                "next_at": next_at,
                "wait_s": round(urls * delay_s, 1),
            }


def _rows(
    objects: Objects, round_id: str, slots: Collection[int] | None
) -> Iterator[dict[str, Any]]:
    for key in objects.list(f"progress/{round_id}/"):
        if slots is None or int(re.findall(r"[0-9]+", key)[-1]) in slots:
            try:
                row = json.loads(objects.get(key)[0])
            except (ObjectMissing, ValueError):
                continue
            if isinstance(row, dict):
                yield row


def progress_lines(f: dict[str, Any], hosts: int = 5) -> list[str]:
    """The progress for a person. hosts: queues shown."""
    rows = f["done"] + f["queued"] + f["in_flight"]
    now, mean = f["recent"], (f["pages_per_s"], f["bytes_per_s"])
    to_go = "" if f["eta_s"] is None else f", {duration_text(f['eta_s'])} to go"
    lines = [
        f"fetching: {f['done']:,} of {rows:,} URLs, {f['in_flight']} under way, {f['failed']:,}"
        f" failed, {bytes_text(f['bytes'])}{to_go}",
        f"rate: {now['pages_per_s']:g} pages/s, {bytes_text(now['bytes_per_s'])}/s of late;"
        f" {mean[0]:g} pages/s, {bytes_text(mean[1])}/s in the mean",
    ]
    waiting = [
        f"{w['host']} {w['urls']:,} URLs × {w['delay_s']:g} s, {w['why']}"
        for w in f["waiting"][:hosts]
    ]
    return [*lines, *(f"waits for: {w}" for w in waiting)]


def duration_text(seconds: float) -> str:
    """90.0 -> 1 min 30 s."""
    s = round(seconds)
    if s < 60:
        return f"{s} s"
    return f"{s // 60} min {s % 60} s" if s < 3600 else f"{s // 3600} h {s % 3600 // 60} min"


def bytes_text(n: float) -> str:
    """1536 -> 1.5 KiB."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while n >= 1024 and len(units) > 1:
        n, units = n / 1024, units[1:]
    return f"{n:.0f} B" if units[0] == "B" else f"{n:.1f} {units[0]}"


def clock_text(at: float) -> str:
    """Unix s -> 12:01:05 UTC."""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%H:%M:%S UTC")
