"""What a slot reads from outside, what its earlier attempts left, and its small control objects."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from crawlkit.adapters.browser.rendering import Renders, open_browsers
from crawlkit.adapters.net.address_guard import Resolves
from crawlkit.adapters.net.connection import Budget
from crawlkit.adapters.net.engine import Engine
from crawlkit.adapters.net.requests_engine import RequestsEngine
from crawlkit.adapters.store.lease import monotonic
from crawlkit.adapters.store.objects import ObjectMissing, Objects
from crawlkit.adapters.store.parts import read_slot, slot_prefix
from crawlkit.config import Config, Fetch
from crawlkit.model import Answer, Capture, FetchRequest, RobotsCopy
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.slot.recorder import Stored


class Fetches(Protocol):
    """The seam to the network (engine.Engine)."""

    resolver: Resolves
    budget: Budget

    async def fetch(
        self,
        request: FetchRequest,
        *,
        deadline_s: float | None = None,
        content_types: tuple[str, ...] | None = None,
        max_body_bytes: int | None = None,
    ) -> Answer:
        """Send a request; limits that are None are as configured. No answer raises an error."""

    async def close(self) -> None:
        """Close all connections."""


def make_browsers(cfg: Config) -> Renders:
    """The browsers of a slot. Raises BrowserMissing."""
    return open_browsers(cfg.render, cfg.agent)


def make_engine(fetch: Fetch) -> Fetches:
    """The engine that config.Fetch.engine names."""
    return Engine(fetch) if fetch.engine == "native" else RequestsEngine(fetch)


@dataclass
class SlotIO:
    """Everything outside that a slot touches. `objects`: leases, parts, progress, stop list.

    `spool`: local folder for open WARC files.
    """

    objects: Objects
    warcs: Objects
    spool: Path
    engine: Callable[[Fetch], Fetches] = make_engine
    browsers: Callable[[Config], Renders] = make_browsers
    progress_s: float = 1.0
    stop_list_s: float = 10.0

    @property
    def places(self) -> tuple[Path | str, ...]:
        """Where something is written."""
        return self.objects.root, self.warcs.root, self.spool


class SlotClock:
    """Unix seconds that never step: read once, then carried on by the monotonic clock."""

    def __init__(self) -> None:
        self._offset = time.time() - monotonic()

    def __call__(self) -> float:
        return monotonic() + self._offset


@dataclass
class EarlierAttempts:
    """What the parts of a slot's earlier attempts hold."""

    done: set[tuple[bytes, str]] = field(default_factory=set)  # (url_key, kind) with an outcome
    states: dict[str, HostState] = field(default_factory=dict)
    robots: dict[str, RobotsCopy] = field(default_factory=dict)  # by origin
    stored: dict[str, Stored] = field(default_factory=dict)  # by payload digest


def round_about(objects: Objects, round_id: str) -> bytes:
    """Name, number, nominal time, seed and rules of a round as JSON. Raises OSError.

    For the log records of its WARC files.
    """
    try:
        row = json.loads(objects.get(f"rounds/{round_id}/round.json")[0])
    except ObjectMissing:  # a single URL, fetched outside of a crawl
        row = {"id": round_id}
    return json.dumps(
        {
            k: row[k]
            for k in ("id", "no", "now", "seed", "config_digest", "opened_at", "rules")
            if k in row
        },
        separators=(",", ":"),
    ).encode()


def read_earlier(objects: Objects, round_id: str, slot: int) -> EarlierAttempts:
    """Raises PartDamaged, OSError."""
    e = EarlierAttempts()
    for part in read_slot(objects, round_id, slot):
        for r in part.records:
            if isinstance(r, Capture):
                if r.is_outcome:
                    e.done.add((r.url_key, r.kind))
                if (
                    r.record_type == "response"
                    and r.payload_digest
                    and r.body_bytes
                    and not r.truncated
                    and r.started is not None
                ):
                    e.stored.setdefault(
                        r.payload_digest,
                        Stored(
                            r.capture_id,
                            r.sent_url or r.url,
                            r.started,
                            r.warc_filename or "",
                            r.warc_record_offset or 0,
                            r.warc_record_length or 0,
                        ),
                    )
            elif isinstance(r, HostState):
                e.states[r.host] = r
            elif isinstance(r, RobotsCopy):
                e.robots[r.origin] = r
    return e


def claim_attempt(objects: Objects, round_id: str, slot: int, holder: str) -> int:
    """The first attempt number (1, 2, ...) that nobody has taken, now taken."""
    prefix = slot_prefix(round_id, slot)
    taken = [
        int(m[1])
        for key in objects.list(prefix)
        if (m := re.match(r"([0-9]+)/", key[len(prefix) :]))
    ]
    attempt = max(taken, default=0) + 1
    while not objects.put_if_absent(
        f"{prefix}{attempt:03d}/begun.json", json.dumps({"holder": holder}).encode()
    ):
        attempt += 1
    return attempt


def put_progress(objects: Objects, round_id: str, slot: int, row: dict[str, object]) -> None:
    """Replace `progress/{round_id}/{slot}.json` for the live view. Raises OSError."""
    objects.put(f"progress/{round_id}/{slot}.json", json.dumps(row).encode())
