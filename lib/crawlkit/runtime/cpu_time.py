"""CPU time of a process tree between two looks at /proc, whatever begins or ends in between; and
its memory.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple


class Used(NamedTuple):
    """Of one process: when it began (ticks), its parent, CPU ticks of its own, and of the children
    that it has waited for.
    """

    start: int
    parent: int
    own: int
    waited: int


def process_tree(root: int | None = None) -> dict[int, Used]:
    """A process (None: this one) and all below it, by pid; empty where /proc is missing."""
    every: dict[int, Used] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parent, utime, stime, cutime, cstime = map(int, (fields[1], *fields[11:15]))
        every[int(entry.name)] = Used(int(fields[19]), parent, utime + stime, cutime + cstime)
        children.setdefault(parent, []).append(int(entry.name))
    out, todo = {}, [root or os.getpid()]
    while todo:
        pid = todo.pop()
        if pid in every:
            out[pid] = every[pid]
        todo += children.get(pid, [])
    return out


def peak_memory_bytes() -> int:
    """The most resident memory of each process of the tree, summed; 0 where /proc is missing."""
    total = 0
    for pid in process_tree():
        with contextlib.suppress(OSError, ValueError):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            total += sum(int(t.split()[1]) * 1024 for t in lines if t.startswith("VmHWM:"))
    return total


def cpu_s(before: dict[int, Used], now: dict[int, Used]) -> float:
    """CPU time used between two `process_tree`s, s.

    Never negative: what an orphan used that nobody waited for is missing.
    """
    stayed = {pid for pid, u in now.items() if pid in before and before[pid].start == u.start}
    ticks = sum(
        u.own - before[pid].own if pid in stayed else u.own + u.waited for pid, u in now.items()
    )
    # ticks that a parent's `waited` takes over from children that were there before
    gone: dict[int, int] = {}
    for pid, u in before.items():
        if pid not in stayed:
            gone[u.parent] = gone.get(u.parent, 0) + u.own + u.waited
    ticks += sum(max(0, now[pid].waited - before[pid].waited - gone.get(pid, 0)) for pid in stayed)
    return ticks / os.sysconf("SC_CLK_TCK")
