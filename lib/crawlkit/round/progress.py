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
    """Takes the events of job.Job, from several threads.

    On a terminal: one live table; else JSON lines on stderr (`as_json`) or plain lines. While two
    rounds are under way, each line begins with its round.
    """

    def __init__(self, as_json: bool, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.console = Console(stderr=True)
        self._live: Live | None = None
        self._line_at: dict[str, float] = {}  # of the next one about a fetch, by round
        self._fetching: dict[str, dict[str, Any]] = {}  # the newest progress, by round
        self._rounds: list[str] = []  # under way at the same time
        self._one_at_a_time = threading.Lock()

    def __call__(self, event: dict[str, Any]) -> None:
        if self.quiet:
            return
        with self._one_at_a_time:
            self._take(event)

    def _take(self, event: dict[str, Any]) -> None:
        round_id = str(event.get("round_id"))
        if event["event"] == "round":
            self._rounds = [*(self._rounds if event.get("beside") else ()), round_id]
        if self.as_json:
            print(json.dumps(event, default=str), file=sys.stderr, flush=True)
        elif event["event"] != "fetch_progress":
            self._fetching.pop(round_id, None)
            self._print(event)
        elif self.console.is_terminal:
            self._fetching[round_id] = event
            if self._live is None:
                self._live = Live(console=self.console, refresh_per_second=4, transient=True)
                self._live.start()
            self._live.update(Group(*map(_fetch_view, self._fetching.values())))
        elif time.monotonic() >= self._line_at.setdefault(
            round_id, time.monotonic() + LINE_EVERY_S
        ):
            self._line_at[round_id] = time.monotonic() + LINE_EVERY_S
            self._print(event)

    def _print(self, event: dict[str, Any]) -> None:
        """A line; a live table that was there comes back with the next progress."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        line = _plain(event)
        if len(self._rounds) > 1 and event["event"] != "round" and "round_id" in event:
            line = f"  {event['round_id']}{line}"
        if self.console.is_terminal:
            self.console.print(line, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the live view."""
        if self._live is not None:
            self._live.stop()


def _plain(event: dict[str, Any]) -> str:
    kind = event["event"]
    if kind == "round":
        return f"round {event['round_id']}{' at the same time' if event.get('beside') else ''}"
    if kind == "fetch_progress":
        return "\n".join(f"    {line}" for line in progress_lines(event, hosts=3))
    if kind == "stage":
        told = STAGE_TEXT.get(event["stage"], "")
        return f"  {event['stage']}{told and ': '}{told} ..."
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
            "left_beside",
            "examples",
            "slowest",
            "alerts",
        }
        facts = ", ".join(
            f"{k} {v if not isinstance(v, dict) else ' '.join(f'{a}={b}' for a, b in v.items())}"
            for k, v in event.items()
            if k not in skip and v not in ({}, [])
        )
        passed = ("duplicates", "comments")  # lines of seeds that are well as they are
        counts = (event.get("rejected") or {}).items()
        rejected = {k: v for k, v in counts if v and k not in passed}
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
