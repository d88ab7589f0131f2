"""A slot: one fetch task, from taking its lease to releasing it."""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import random
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from crawlkit.adapters.store.lease import Lease
from crawlkit.adapters.store.local_objects import sweep
from crawlkit.adapters.store.open_store import open_objects
from crawlkit.adapters.store.spool_folder import spool_folder
from crawlkit.config import Config
from crawlkit.model import FetchItem
from crawlkit.slot.inputs import EarlierAttempts, SlotIO, claim_attempt, read_earlier, round_about
from crawlkit.slot.ledger import Ledger
from crawlkit.slot.recorder import Attempt, Recorder
from crawlkit.slot.setup import SlotSetup
from crawlkit.slot.task import run_attempt


def run_slot_in(
    items: Iterable[FetchItem], *, cfg: Config, state_root: str, warc_root: str, seed: int
) -> dict[str, int]:
    """run_slot on the stores at these places: what the Spark task calls."""
    spool = spool_folder(cfg, warc_root)
    # what fetch tasks that were killed on this machine have left
    sweep(spool, time.time() - cfg.maintain.orphan_hours * 3600)
    io = SlotIO(open_objects(state_root, cfg.s3), open_objects(warc_root, cfg.s3), spool)
    return run_slot(items, cfg, io, seed=seed)


def run_slot(
    items: Iterable[FetchItem],
    cfg: Config,
    io: SlotIO,
    *,
    seed: int = 0,
    stop: threading.Event | None = None,
) -> dict[str, int]:
    """Fetch the rows of one slot: every row gets one outcome, in the parts.

    Returns counts of outcomes, requests, bytes.

    Run again it fetches nothing twice; it waits for the lease of a killed predecessor, and then
    keeps the gaps to what that one may have sent last. `stop` ends the round early: what is left is
    deferred.

    Raises LeaseHeld (another attempt is alive), LeaseLost, StoreFull, StoreUnavailable (for longer
    than the spool holds out), PartDamaged, OSError, Refused (WARC_DAMAGED): rows that are in no
    part are the next attempt's.
    """
    items = list(items)
    if not items:
        return {}
    _keep_heap_whole()
    round_id, slot = items[0].round_id, items[0].slot
    holder = f"{socket.gethostname()}-{os.getpid()}-{random.SystemRandom().getrandbits(48):012x}"
    key = f"leases/{round_id}/{slot:05d}.json"
    lease = Lease(io.objects, key, holder, cfg.lease, cfg.fetch.timeout_s)
    predecessor = lease.acquire(wait_s=2 * cfg.lease.ttl_s + cfg.lease.margin_s)
    quiet_since = -math.inf if predecessor is None or predecessor.clean else predecessor.end
    with lease:
        earlier = read_earlier(io.objects, round_id, slot)
        left = [i for i in items if (i.url_key, i.kind) not in earlier.done]
        counts = {"planned": len(items), "done_before": len(items) - len(left)}
        if quiet_since > -math.inf:
            counts["lease_expiries"] = 1
        if not left:
            return counts
        attempt = claim_attempt(io.objects, round_id, slot, holder)
        recorder = _open_recorder(items[0], attempt, io.spool / holder, cfg, io, lease, earlier)
        ledger = Ledger(recorder, attempt, len(left))
        chance = random.Random(seed * 1_000_003 + slot)
        setup = SlotSetup(left, cfg, io, lease, earlier, ledger, quiet_since, chance, stop)
        try:
            asyncio.run(run_attempt(setup))
        finally:
            ledger.close()
            recorder.close()
        return counts | {str(name): n for name, n in ledger.counts.items()}


def _open_recorder(
    item: FetchItem,
    attempt: int,
    folder: Path,
    cfg: Config,
    io: SlotIO,
    lease: Lease,
    earlier: EarlierAttempts,
) -> Recorder:
    """The writer of an attempt. `item`: any row of the slot. `folder`: for open WARC files."""
    return Recorder(
        io.objects,
        io.warcs,
        folder,
        cfg,
        Attempt(item.round_id, item.slot, attempt),
        earlier.stored,
        lease.check,
        round_about(io.objects, item.round_id),
    )


# malloc.h
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


def _keep_heap_whole() -> None:
    """Give large buffers mappings of their own, and all threads one heap.

    Else glibc moves its threshold up with each large buffer that is freed, buffers end up between
    small objects, and a worker that fetches round after round grows by tens of MiB.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # macOS and others have none
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 128 * 1024)
        mallopt(_M_ARENA_MAX, 1)
