"""Progress of a crawl for a person (a live view) or a program (JSON lines), and the watcher of a
running fetch stage.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Collection
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from crawlkit.adapters.store.objects import Objects
from crawlkit.crawl.fetch_progress import progress_lines, read_progress

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
            self._live.update(_fetch_view(event))
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
        return "\n".join(f"    {line}" for line in progress_lines(event, hosts=3))
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


def _fetch_view(e: dict[str, Any]) -> Group:
    """The live view of a fetch."""
    rows = e["done"] + e["queued"] + e["in_flight"]
    bar = ProgressBar(total=max(rows, 1), completed=e["done"], width=40)
    lines = progress_lines(e, hosts=0)
    table = Table(show_header=True, box=None, pad_edge=False)
    for name, side in (("waits for", "left"), ("URLs", "right"), ("delay", "right")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]  # one of rich's words
    table.add_column("set by")
    for w in e["waiting"][:5]:
        table.add_row(w["host"], f"{w['urls']:,}", f"{w['delay_s']:g} s", w["why"])
    slow = ", ".join(f"{h['host']} {h['ms']:.0f} ms" for h in e["slowest"])
    texts = [Text(f"round {e['round_id']}"), *map(Text, lines)]
    return Group(texts[0], bar, *texts[1:], table, Text(f"slowest: {slow}" if slow else ""))


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
        while not self._stop.wait(1.0):
            try:
                found = read_progress(self._objects, self._round_id, time.time(), self._slots)
            except OSError:
                continue
            if found is not None:
                self._say({"event": "fetch_progress", "round_id": self._round_id, **found})
