"""The log of a slot's requests, a line each, written while it fetches.

Columns, one space between them, after Heritrix's crawl.log: time of the answer (ISO 8601, UTC),
status (or the reason for which there is none), bytes of the body, URL, kind and depth, media type,
slot, start and duration in ms, outcome. What is unknown is `-`.

On a folder the lines are appended to `logs/{round_id}/{slot}-{attempt}.log`; in S3 they are objects
`logs/{round_id}/{slot}-{attempt}-{n}.log`, one each SEGMENT_S.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from pathlib import Path

from crawlkit.adapters.store.objects import Objects
from crawlkit.model import Capture

SEGMENT_S = 10.0
FLUSH_LINES = 1000


class RequestLog:
    """The log of one attempt; lives in the writer's thread."""

    def __init__(
        self, objects: Objects, attempt: tuple[str, int, int], ship: Callable[[str, bytes], object]
    ) -> None:
        """attempt: round, slot and number. ship: sends an object on its way to the store, without
        waiting for it.
        """
        round_id, slot, number = attempt
        self._ship = ship
        self._key = f"logs/{round_id}/{slot:05d}-{number:03d}"
        self._path: Path | None = objects.local_path(f"{self._key}.log")
        self._lines: list[str] = []
        self._segments = 0
        self._wrote = time.monotonic()

    def add(self, capture: Capture) -> None:
        """Note a request. Raises OSError."""
        if capture.started is None or capture.ended is None:
            return
        self._lines.append(log_line(capture))
        if self._path is not None or len(self._lines) >= FLUSH_LINES:
            self.flush()

    def flush_if_due(self) -> None:
        """Store the lines of the last SEGMENT_S. Raises OSError."""
        if self._lines and time.monotonic() - self._wrote >= SEGMENT_S:
            self.flush()

    def flush(self) -> None:
        """Store what was noted. Raises OSError."""
        if not self._lines:
            return
        text = "".join(self._lines).encode()
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(self._path, "ab", buffering=0) as file:
                file.write(text)
        else:
            self._ship(f"{self._key}-{self._segments:05d}.log", text)
        self._segments += 1
        self._lines, self._wrote = [], time.monotonic()


def log_line(c: Capture) -> str:
    """The line of a request that was sent."""
    assert c.started is not None and c.ended is not None
    media_type = (c.content_type or "-").partition(";")[0].strip().replace(" ", "") or "-"
    columns = (
        _iso(c.ended),
        c.status or c.reason or "-",
        "-" if c.body_bytes is None else c.body_bytes,
        c.url,
        f"{c.kind}:{'-' if c.planned_depth is None else c.planned_depth}",
        media_type.encode("ascii", "replace").decode()[:80],
        f"#{c.slot}",
        f"{_iso(c.started)}+{round((c.ended - c.started) * 1000)}",
        c.outcome,
    )
    return " ".join(map(str, columns)) + "\n"


def _iso(at: float) -> str:
    text = datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
