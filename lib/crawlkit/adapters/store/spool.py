"""The spool between a slot and its stores: finished files wait on local disk.

Role: a thread that ships in order, a WARC file always before the part that names it, so what
readers find is whole. While the store does not answer it keeps trying; the slot goes on meanwhile,
within bounds of bytes and time, and fails beyond them: then no part names the rows, and they are
the next attempt's. Nothing is marked fetched that is not stored.
"""

from __future__ import annotations

import hashlib
import io
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from crawlkit.adapters.store.objects import ObjectMissing, Objects, StoreUnavailable
from crawlkit.adapters.store.parts import write_part
from crawlkit.adapters.warc.writer import Finished

log = logging.getLogger(__name__)
_PAUSE_S = 1.0  # between tries while the store is down


@dataclass(eq=False)
class _Load:
    """One part, its file on local disk, and the WARC file that it names."""

    key: str
    path: Path
    warc: Finished | None
    size: int
    stored: Future[None] = field(default_factory=Future)


class Spool:
    """Ships for one attempt of a slot. `check` raises LeaseLost if nothing may be written any more.

    `max_bytes`, `max_s`: what may wait, and for how long, while the store does not answer.
    """

    def __init__(
        self,
        parts: Objects,
        warcs: Objects,
        folder: Path,
        check: Callable[[], None],
        *,
        max_bytes: int,
        max_s: float,
    ) -> None:
        self._parts = parts
        self._warcs = warcs
        self._folder = folder
        self._check = check
        self._max_bytes, self._max_s = max_bytes, max_s
        self._loads: deque[_Load] = deque()
        self._moved = threading.Condition()
        self._failed: BaseException | None = None
        self._down: StoreUnavailable | None = None
        self._closed = False
        self._n = 0
        self._thread = threading.Thread(target=self._run, name="spool", daemon=True)
        self._thread.start()

    def ship(self, key: str, data: bytes, warc: Finished | None) -> Future[None]:
        """Take a part and the closed file that it names; the future is done when both are stored.

        Waits for room if the store is only slow. Raises what ended the spool: StoreUnavailable,
        LeaseLost, FileExistsError, OSError.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        load = _Load(
            key, self._folder / f"part-{self._n}.json", warc, len(data) + (warc.size if warc else 0)
        )
        self._n += 1
        load.path.write_bytes(data)
        with self._moved:
            while (
                self._loads
                and self.waiting_bytes + load.size > self._max_bytes
                and self._failed is None
            ):
                if self._down is not None:
                    raise StoreUnavailable(
                        f"{self._max_bytes} bytes wait for the store, which does not answer:"
                        f" {self._down}"
                    )
                self._moved.wait(_PAUSE_S)
            self.check()
            self._loads.append(load)
            self._moved.notify_all()
        return load.stored

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are not stored yet."""
        return sum(load.size for load in self._loads)

    def check(self) -> None:
        """Raises what ended the spool, if it has ended."""
        if self._failed is not None:
            raise self._failed

    def drain(self) -> None:
        """Returns when all is stored. Raises what ended the spool."""
        with self._moved:
            self._moved.wait_for(lambda: not self._loads or self._failed is not None)
            self.check()

    def close(self) -> None:
        """Stop; what was not shipped is dropped."""
        with self._moved:
            self._closed = True
            self._moved.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._moved:
                self._moved.wait_for(lambda: self._loads or self._closed)
                if self._closed:
                    self._give_up(StoreUnavailable("the slot ended before this was stored"))
                    return
                load = self._loads[0]
            try:
                self._ship(load)
            except BaseException as e:
                with self._moved:
                    self._give_up(e)
                return
            with self._moved:
                self._loads.popleft()
                self._moved.notify_all()
            load.stored.set_result(None)

    def _ship(self, load: _Load) -> None:
        """Try until it is stored, the time is over or the lease is lost."""
        since = None
        while True:
            try:
                self._check()  # also ends the wait when the lease ends
                if load.warc is not None:
                    _store(self._warcs, load.warc)
                    load.warc.path.unlink()
                    load.warc = None
                    self._check()
                write_part(self._parts, load.key, load.path.read_bytes())
                load.path.unlink()
                self._down = None
                return
            except StoreUnavailable as e:
                now = time.monotonic()
                since, self._down = since or now, e
                if now - since > self._max_s:
                    raise
                log.warning("%d bytes wait for the store: %s", self.waiting_bytes, e)
            with self._moved:
                if self._moved.wait_for(lambda: self._closed, _PAUSE_S):
                    raise self._down

    def _give_up(self, error: BaseException) -> None:
        self._failed = error
        for load in self._loads:
            load.stored.set_exception(error)
        self._moved.notify_all()


def _store(warcs: Objects, warc: Finished) -> None:
    """Raises FileExistsError if another file has the name.

    Our own is there if the answer to its put was lost.
    """
    if warcs.put_file_if_absent(warc.filename, warc.path):
        return
    try:
        with warcs.open_range(warc.filename) as there, open(warc.path, "rb") as here:
            same = (
                hashlib.file_digest(cast(io.BufferedReader, there), "sha256").digest()
                == hashlib.file_digest(here, "sha256").digest()
            )
    except ObjectMissing:
        same = False
    if not same:
        raise FileExistsError(f"{warc.filename} exists in the WARC store")
