"""What a slot says of itself while it fetches: `progress/{round_id}/{slot}.json`.

Fields: queued, in_flight, done, failed (rows), bytes (of bodies), began and at (Unix s), recent
(seconds, rows and bytes of about the last RECENT_S), slowest ([host, mean ms]) and waiting (the
longest queues: [host, URLs, delay s, what sets it, when it may be asked next]).
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from crawlkit.model import RECENT_S
from crawlkit.rules.politeness.pacer import Pacer
from crawlkit.slot.ledger import Ledger

SHOWN = 10  # hosts


class LiveFigures:
    """Of one attempt of a slot that has `rows` to fetch."""

    def __init__(self, rows: int, ledger: Ledger, pacer: Pacer, began: float) -> None:
        self._rows, self._ledger, self._pacer, self._began = rows, ledger, pacer, began
        self._samples = deque([(began, 0, 0)])

    def row(self, hosts: set[str], in_flight: int, now: float) -> dict[str, Any]:
        """The fields. hosts: those that were asked. in_flight: requests under way."""
        pacer, ledger = self._pacer, self._ledger
        done, body_bytes = self._rows - ledger.left, ledger.counts["bytes"]
        slowest = heapq.nlargest(5, ((pacer.state(h).avg_ms or 0.0, h) for h in hosts))
        return {
            "queued": max(ledger.left - in_flight, 0),
            "in_flight": in_flight,
            "done": done,
            "failed": ledger.failed,
            "bytes": body_bytes,
            "began": self._began,
            "at": now,
            "recent": self._recent(now, done, body_bytes),
            "slowest": [[h, round(ms)] for ms, h in slowest],
            "waiting": [list(w) for w in pacer.longest_queues(SHOWN, now)],
        }

    def _recent(self, now: float, done: int, body_bytes: int) -> list[float]:
        """Seconds since the first sample that is not too old, and what was done since."""
        self._samples.append((now, done, body_bytes))
        while len(self._samples) > 2 and self._samples[1][0] <= now - RECENT_S:
            self._samples.popleft()
        at, done_then, bytes_then = self._samples[0]
        return [now - at, done - done_then, body_bytes - bytes_then]
