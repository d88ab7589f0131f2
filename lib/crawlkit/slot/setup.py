"""What one attempt of a slot works with."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_network

from crawlkit.adapters.store.lease import Lease
from crawlkit.config import Config
from crawlkit.model import FetchItem
from crawlkit.rules.url.ip_ranges import Network
from crawlkit.slot.inputs import EarlierAttempts, SlotIO
from crawlkit.slot.ledger import Ledger


@dataclass(frozen=True)
class SlotSetup:
    """The rows of one attempt and everything it needs to fetch them.

    `items`: at least one row, all of one round and slot. `quiet_since`: Unix s after which no
    request of an earlier attempt ended. `chance` makes the jitter. `stop` ends the round early.
    """

    items: list[FetchItem]
    cfg: Config
    io: SlotIO
    lease: Lease
    earlier: EarlierAttempts
    ledger: Ledger
    quiet_since: float
    chance: random.Random
    stop: threading.Event | None = None

    @property
    def round_id(self) -> str:
        """The round of the rows."""
        return self.items[0].round_id

    @property
    def slot(self) -> int:
        """The number of the slot."""
        return self.items[0].slot

    @cached_property
    def allow_private(self) -> tuple[Network, ...]:
        """Private networks that may be fetched from (fetch.allow_private)."""
        return tuple(ip_network(n) for n in self.cfg.fetch.allow_private)
