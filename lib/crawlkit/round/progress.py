"""Progress of a crawl for a person (a live view) or a program (JSON lines), and the watcher of a
running fetch stage.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Collection
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from crawlkit.adapters.store.objects import ObjectMissing, Objects

STAGE_TEXT = {
    "inject": "adding URLs",
    "generate": "choosing what is due",
    "fetch": "fetching",
    "commit": "recording outcomes",
    "parse": "reading pages",
    "dedup": "comparing texts",
    "update": "updating the frontier",
    "rank": "counting links",
    "report": "writing the report",
    "maintain": "maintaining",
}
LINE_EVERY_S = 60.0  # of a fetch, where there is no terminal


class Progress:
    """Takes the events of job.Job.

    On a terminal: one live table; else JSON lines on stderr (`as_json`) or plain lines.
    """

    def __init__(self, as_json: bool, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.console = Console(stderr=True)
        self._live: Live | None = None
        self._line_at = time.monotonic() + LINE_EVERY_S

    def __call__(self, event: dict[str, Any]) -> None:
        if self.quiet:
            return
        if self.as_json or not self.console.is_terminal:
            if event["event"] == "fetch_progress" and not self.as_json:
                if time.monotonic() < self._line_at:
                    return
                self._line_at = time.monotonic() + LINE_EVERY_S
            print(
                json.dumps(event, default=str) if self.as_json else _plain(event),
                file=sys.stderr,
                flush=True,
            )
            return
        if event["event"] == "fetch_progress":
            if self._live is None:
                self._live = Live(console=self.console, refresh_per_second=4, transient=True)
                self._live.start()
            self._live.update(_fetch_table(event))
            return
        if self._live is not None:
            self._live.stop()
            self._live = None
        self.console.print(_plain(event), highlight=False)

    def close(self) -> None:
        """End the live view."""
        if self._live is not None:
            self._live.stop()


def _plain(event: dict[str, Any]) -> str:
    kind = event["event"]
    if kind == "round":
        return f"round {event['round_id']}"
    if kind == "fetch_progress":
        eta = "" if event["eta_s"] is None else f", {event['eta_s']:.0f} s to go"
        return (
            f"    fetching: {event['queued']} queued, {event['in_flight']} in flight,"
            f" {event['done']} done, {event['failed']} failed, {event['bytes'] / 1e6:.1f} MB{eta}"
        )
    if kind == "stage":
        return f"  {event['stage']}: {STAGE_TEXT.get(event['stage'], '')} ..."
    if kind == "begin":
        text: str = event["text"]
        return text
    if kind == "step":
        return f"  {event['text']} ..."
    if kind == "stage_done":
        skip = {
            "event",
            "stage",
            "round_id",
            "started",
            "ended",
            "cpu_s",
            "rows_in",
            "rows_out",
            "rejected",
            "buckets",
            "examples",
            "slowest",
            "alerts",
        }
        facts = ", ".join(
            f"{k} {v if not isinstance(v, dict) else ' '.join(f'{a}={b}' for a, b in v.items())}"
            for k, v in event.items()
            if k not in skip and v not in ({}, [])
        )
        rejected = {k: v for k, v in (event.get("rejected") or {}).items() if v}
        refused = (
            f"; refused: {', '.join(f'{k} {v}' for k, v in rejected.items())}" if rejected else ""
        )
        return (
            f"    done in {event['ended'] - event['started']:.1f} s:"
            f" {facts or 'nothing to do'}{refused}"
        )
    return f"  {event}"


def _fetch_table(e: dict[str, Any]) -> Table:
    table = Table(title=f"round {e['round_id']}: fetching", show_header=True)
    for name in ("queued", "in flight", "done", "failed", "MB", "KB/s", "ETA", "slowest hosts"):
        table.add_column(name, justify="right")
    eta = "-" if e["eta_s"] is None else f"{e['eta_s']:.0f} s"
    table.add_row(
        str(e["queued"]),
        str(e["in_flight"]),
        str(e["done"]),
        str(e["failed"]),
        f"{e['bytes'] / 1e6:.1f}",
        f"{e['bytes_per_s'] / 1e3:.0f}",
        eta,
        "\n".join(e["slowest"]),
    )
    return table


class FetchWatch:
    """Reads the slots' progress objects about once a second and says what they add up to."""

    def __init__(
        self, objects: Objects, round_id: str, say: Any, slots: Collection[int] | None = None
    ) -> None:
        """slots: those that count (None: all)."""
        self._objects, self._round_id, self._say, self._slots = objects, round_id, say, slots
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fetch watch", daemon=True)

    def __enter__(self) -> FetchWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        last_bytes, last_done, last_at = 0, 0, time.monotonic()
        rate = done_rate = 0.0
        while not self._stop.wait(1.0):
            total: dict[str, Any] = {
                "queued": 0,
                "in_flight": 0,
                "done": 0,
                "failed": 0,
                "bytes": 0,
            }
            slowest: list[tuple[float, str]] = []
            try:
                keys = [
                    k
                    for k in self._objects.list(f"progress/{self._round_id}/")
                    if self._slots is None or int(re.findall(r"[0-9]+", k)[-1]) in self._slots
                ]
            except OSError:
                continue
            for key in keys:
                try:
                    row = json.loads(self._objects.get(key)[0])
                    for name in total:
                        total[name] += int(row.get(name, 0))
                    slowest += [(float(ms), str(host)) for host, ms in row.get("slowest", [])]
                except (ObjectMissing, ValueError, TypeError, OSError):
                    continue
            at = time.monotonic()
            rate = 0.7 * rate + 0.3 * max(0, total["bytes"] - last_bytes) / (at - last_at)
            done_rate = 0.7 * done_rate + 0.3 * max(0, total["done"] - last_done) / (at - last_at)
            last_bytes, last_done, last_at = total["bytes"], total["done"], at
            eta = total["queued"] / done_rate if done_rate > 0.01 else None
            self._say(
                {
                    "event": "fetch_progress",
                    "round_id": self._round_id,
                    **total,
                    "bytes_per_s": round(rate),
                    "eta_s": eta,
                    "slowest": [
                        f"{host} {ms:.0f} ms" for ms, host in sorted(slowest, reverse=True)[:5]
                    ],
                }
            )
