"""A lock between the processes of one machine, on a local folder.

It serves as the commit lock W and as the driver's hold on a round. The kernel frees it when the
holder dies, at any moment; a frozen holder keeps it. So no expiry is needed and no zombie can write
(stores without flock: lease.LeaseLock).
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType


class LockHeld(RuntimeError):
    """Another process holds the lock; the message names it."""

    exit_code = 3


class FileLock:
    """A lock on `path`; may be entered again by the thread that holds it."""

    def __init__(self, path: Path, what: str, wait_s: float = 0.0) -> None:
        self.path = path
        self.what = what
        self.wait_s = wait_s
        self._file: int | None = None
        self._depth = 0

    def acquire(self) -> None:
        """Raises LockHeld after `wait_s`."""
        if self._depth == 0:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            give_up = time.monotonic() + self.wait_s
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= give_up:
                        holder = os.read(file, 100).decode("ascii", "replace").strip()
                        os.close(file)
                        raise LockHeld(
                            f"{self.what} is held by another process ({holder or 'unknown'}); wait"
                            " for it or end it"
                        ) from None
                    time.sleep(0.05)
            os.ftruncate(file, 0)
            os.write(file, f"pid {os.getpid()}".encode())
            self._file = file
        self._depth += 1

    def release(self) -> None:
        """Leave; the lock is free once every acquire has its release."""
        self._depth -= 1
        if self._depth == 0 and self._file is not None:
            os.close(self._file)
            self._file = None

    def check(self) -> None:
        """Just before a commit.

        Raises LockHeld if the lock is not ours (or its file was removed).
        """
        try:
            ours = self._file is not None and os.fstat(self._file).st_ino == self.path.stat().st_ino
        except FileNotFoundError:
            ours = False
        if not ours:
            raise LockHeld(f"{self.what} is not held: nothing may be written")

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.release()
