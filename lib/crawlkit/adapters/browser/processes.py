"""The processes of a browser, found by a mark on its command line; Linux's /proc alone."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

_PROC = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def find_processes(mark: str) -> set[int]:
    """Processes with this argument, and all below them."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    for folder in _PROC.glob("[0-9]*"):
        pid = int(folder.name)
        with contextlib.suppress(OSError, ValueError, IndexError):
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            if stat[0] != "Z":
                parents[pid] = int(stat[1])
                if mark.encode() in (folder / "cmdline").read_bytes():
                    found.add(pid)
    grown = True
    while grown:
        below = {pid for pid, parent in parents.items() if parent in found}
        grown = not below <= found
        found |= below
    return found


def memory_bytes(pids: set[int]) -> int:
    """Memory that these processes hold, without what they share with files."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (_PROC / str(pid) / "statm").read_text().split()
            total += (int(fields[1]) - int(fields[2])) * _PAGE_BYTES
    return total


def kill_processes(mark: str) -> None:
    """End all processes of `find_processes`, those too that they start meanwhile."""
    for _ in range(5):
        pids = find_processes(mark)
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
