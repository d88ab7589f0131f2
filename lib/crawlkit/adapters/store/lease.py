"""Leases on compare-and-swap objects: the commit lock W of a crawl and the lease L of a slot.

A lease is a small JSON object: holder, expiry (Unix s), released or not. It is renewed in the
background. The holder judges its own lease on a monotonic clock that also runs while the machine
sleeps, from the moment *before* the renewal was sent; so a frozen or cut-off holder always stops
before a successor may start (it fails closed). A taker waits for the expiry plus the margin.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crawlkit.adapters.store.flock import LockHeld
from crawlkit.adapters.store.objects import ObjectMissing, Objects
from crawlkit.config import ConfigError, Lease as LeaseConfig

log = logging.getLogger(__name__)


class LeaseHeld(Exception):
    """Another holder has it. `until`: Unix s of its expiry, margin included."""

    exit_code = 3

    def __init__(self, key: str, holder: str, until: float) -> None:
        super().__init__(
            f"{key} is held by {holder} for {max(until - time.time(), 0):.0f} s more unless renewed"
        )
        self.holder = holder
        self.until = until


class LeaseLost(Exception):
    """The lease expired or another took it: nothing may be sent or written any more."""


def monotonic() -> float:
    """Seconds on a clock that never steps back and, where it can, counts suspended time."""
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True)
class Predecessor:
    """How the holder before ended: cleanly, or somewhere before `end` (Unix s)."""

    end: float
    clean: bool


class Lease:
    """One lease, held from `acquire` to `release`.

    Use as a context manager; safe to ask from any thread.
    """

    def __init__(
        self, objects: Objects, key: str, holder: str, cfg: LeaseConfig, request_s: float = 0.0
    ) -> None:
        """`holder` is unique to this process and use.

        `request_s`: longest request that it must cover.

        Raises ConfigError if the lease could not cover one.
        """
        need = request_s + 2 * cfg.renew_s + 2 * cfg.margin_s
        if cfg.ttl_s < need - 1e-9:
            raise ConfigError(
                f"lease.ttl_s is {cfg.ttl_s:g} but must be at least {need:g}: request, two"
                " renewals, two margins"
            )
        self.key, self.holder = key, holder
        self._objects, self._cfg = objects, cfg
        self._born = time.time()
        self._etag: str | None = None
        self._end = -float("inf")  # monotonic
        self._lost = threading.Event()
        self._stop = threading.Event()
        self._swap = threading.Lock()
        self._thread: threading.Thread | None = None

    def acquire(
        self, wait_s: float = 0.0, sleep: Callable[[float], None] = time.sleep
    ) -> Predecessor | None:
        """Take the lease, waiting up to `wait_s` for the holder's expiry.

        Returns how the last holder ended.

        Raises LeaseHeld. A holder that is alive keeps renewing, so waiting longer than ttl + margin
        seldom helps.
        """
        give_up = monotonic() + wait_s
        while True:
            found, etag = self._read()
            until = (
                0.0 if found is None or found["released"] else found["expires"] + self._cfg.margin_s
            )
            left = until - time.time()
            if left <= 0:
                before = monotonic()
                self._etag = self._objects.compare_and_swap(self.key, self._content(), etag)
                if self._etag is not None:
                    self._end = before + self._cfg.ttl_s
                    self._thread = threading.Thread(
                        target=self._renew, name=f"lease {self.key}", daemon=True
                    )
                    self._thread.start()
                    return (
                        None
                        if found is None
                        else Predecessor(found["expires"], bool(found["clean"]))
                    )
                left = 0.05  # another taker was quicker: look again
            if monotonic() + min(left, 1.0) > give_up:
                raise LeaseHeld(self.key, found["holder"] if found else "another", until)
            sleep(min(left, 1.0))

    def may_send(self, request_s: float = 0.0) -> bool:
        """Whether a request of at most `request_s` would end well before the lease does."""
        return not self._lost.is_set() and monotonic() + request_s < self._end - self._cfg.margin_s

    @property
    def lost(self) -> bool:
        """Over for good: it expired, or another took it."""
        return self._lost.is_set() or monotonic() >= self._end

    def check(self) -> None:
        """Just before a commit: still ours, by the clock and in the store. Raises LeaseLost."""
        if not self.may_send() or not self._ours(self._read()[0]):
            self._lost.set()
            raise LeaseLost(f"{self.key} is no longer held by {self.holder}")

    def release(self, clean: bool = True) -> None:
        """Give it back at once.

        Not `clean`: the holder may have sent something until now that no part names.
        """
        self._stop_renewing()
        with self._swap:
            if self._etag is not None and not self._lost.is_set():
                self._put_over(self._content(released=True, clean=clean))
            self._lost.set()

    def abandon(self) -> None:
        """Let it run out: the successor waits for its end."""
        self._stop_renewing()
        self._lost.set()

    def _stop_renewing(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        """An interrupt gives it back too: all but what was under way is in the parts. An error
        leaves the lease to its end: what was sent last, and by which delay, may be in no part, as
        after a kill.
        """
        if kind is None or issubclass(kind, KeyboardInterrupt):
            self.release(clean=kind is None)
        else:
            self.abandon()

    def _renew(self) -> None:
        while not self._stop.wait(self._cfg.renew_s):
            with self._swap:
                before = monotonic()
                if before >= self._end:
                    self._lost.set()
                    return
                try:
                    etag = self._put_over(self._content())
                except OSError as e:
                    log.warning("lease %s not renewed: %s", self.key, e)
                    continue  # until the end comes
                if etag is None:
                    self._lost.set()
                    return
                self._etag, self._end = etag, before + self._cfg.ttl_s

    def _put_over(self, content: bytes) -> str | None:
        """Replace our own lease, also one of which we have not heard (the answer to a renewal was
        lost). New etag, or None.
        """
        etag = self._objects.compare_and_swap(self.key, content, self._etag)
        if etag is None:
            found, current = self._read()
            if self._ours(found):
                etag = self._objects.compare_and_swap(self.key, content, current)
        return etag

    def _ours(self, found: dict[str, Any] | None) -> bool:
        """Whether what the store holds is our lease, in force; a holder's name is used once."""
        return found is not None and found["holder"] == self.holder and not found["released"]

    def _content(self, released: bool = False, clean: bool = False) -> bytes:
        now = time.time()
        row = {
            "holder": self.holder,
            "expires": now if released else now + self._cfg.ttl_s,
            "released": released,
            "clean": clean,
        }
        return json.dumps(row).encode()

    def _read(self) -> tuple[dict[str, Any] | None, str | None]:
        try:
            data, etag = self._objects.get(self.key)
        except ObjectMissing:
            return None, None
        try:
            row = json.loads(data)
            found = {
                "holder": str(row["holder"]),
                "expires": float(row["expires"]),
                "released": row["released"] is True,
                "clean": row["clean"] is True,
            }
        except (ValueError, KeyError, TypeError):
            # damaged by another hand; whoever held it can do so for one ttl more at most
            found = {
                "holder": "unknown",
                "expires": self._born + self._cfg.ttl_s,
                "released": False,
                "clean": False,
            }
        return found, etag


class LeaseLock:
    """A lock on a lease, with the methods of flock.FileLock.

    It serves as the commit lock W and as the hold on a round where the state is in S3. `wait_s` is
    at least what a killed holder's lease may still run.
    """

    def __init__(
        self, objects: Objects, key: str, what: str, cfg: LeaseConfig, wait_s: float = 0.0
    ) -> None:
        self._objects = objects
        self._key = key
        self._what = what
        self._cfg = cfg
        self._wait_s = max(wait_s, cfg.ttl_s + cfg.margin_s + 1.0)
        self._lease: Lease | None = None
        self._depth = 0

    def acquire(self) -> None:
        """Raises LockHeld."""
        if self._depth == 0:
            lease = Lease(
                self._objects,
                self._key,
                f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:12]}",
                self._cfg,
            )
            try:
                lease.acquire(self._wait_s)
            except LeaseHeld as e:
                raise LockHeld(
                    f"{self._what} is held by another process ({e.holder}); wait for it or end it"
                ) from None
            self._lease = lease
        self._depth += 1

    def release(self) -> None:
        """Leave; the lease is released once every acquire has its release."""
        self._depth -= 1
        if self._depth == 0 and self._lease is not None:
            self._lease.release()
            self._lease = None

    def check(self) -> None:
        """Just before a commit. Raises LockHeld if the lock is not ours any more."""
        if self._lease is None:
            raise LockHeld(f"{self._what} is not held: nothing may be written")
        try:
            self._lease.check()
        except LeaseLost:
            raise LockHeld(
                f"{self._what} was lost (it could not be renewed in time): nothing may be written;"
                " run the same command again"
            ) from None

    def __enter__(self) -> LeaseLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
