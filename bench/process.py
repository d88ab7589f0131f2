"""A command and all its processes, watched from outside: CPU by program and by phase, peak memory,
wall time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Watched:
    """cpu_s: user and system time of the whole tree.

    cpu: phase -> program (java, python, ...) -> s; the last quarter second of a process that nobody
    waits for is not seen.

    peak_bytes: most proportional memory (PSS) of the tree at once. wall: phase -> s. events: JSON
    lines of standard error.
    """

    code: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0
    peak_by_program: dict[str, int] = field(default_factory=dict)
    cpu: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    wall: Counter[str] = field(default_factory=Counter)
    events: list[dict[str, Any]] = field(default_factory=list)
    out: str = ""
    tail: list[str] = field(default_factory=list)


def watch(
    argv: list[str],
    phase_of: Callable[[dict[str, Any]], str | None] = lambda event: None,
    env: dict[str, str] | None = None,
    timeout_s: float = 2400.0,
) -> Watched:
    """Runs the command to its end.

    phase_of: a JSON line of its standard error -> name of the phase that begins with it.
    """
    seen = Watched()
    began = time.perf_counter()
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )
    ticks: dict[tuple[int, str], tuple[int, int, int]] = {}
    lock, phase, done = threading.Lock(), ["start"], threading.Event()
    entered = [began]

    def sample(memory: bool = False) -> None:
        with lock:
            used: Counter[str] = Counter()
            rows = _tree(process.pid)
            alive = {(pid, start) for pid, _, _, start, _, _ in rows}
            gone = [key for key in ticks if key not in alive]
            for pid, parent, program, start, own, waited in rows:
                own_before, waited_before, _ = ticks.get((pid, start), (0, 0, 0))
                # of a child that ended its parent counts all; what was seen of it before was
                # counted then
                ended = (
                    sum(
                        sum(ticks.pop(key)[:2])
                        for key in gone
                        if key in ticks and ticks[key][2] == pid
                    )
                    if waited > waited_before
                    else 0
                )
                seen.cpu[phase[0]][program] += (
                    own - own_before + max(waited - waited_before - ended, 0)
                )
                ticks[pid, start] = (own, waited, parent)
                if memory:
                    used[program] += _pss(pid)
            if sum(used.values()) > seen.peak_bytes:
                seen.peak_bytes, seen.peak_by_program = sum(used.values()), dict(used)

    def follow() -> None:
        for line in process.stderr:  # type: ignore[union-attr]
            try:
                event = json.loads(line)
            except ValueError:
                seen.tail = [*seen.tail[-40:], line]
                continue
            seen.events.append(event)
            if (name := phase_of(event)) is not None:
                sample()
                with lock:
                    seen.wall[phase[0]] += time.perf_counter() - entered[0]  # type: ignore[assignment]
                    phase[0], entered[0] = name, time.perf_counter()

    def tick() -> None:
        n = 0
        while not done.wait(0.25):
            n += 1
            sample(memory=n % 4 == 0)

    reader, ticker = threading.Thread(target=follow), threading.Thread(target=tick)
    reader.start()
    ticker.start()
    killer = threading.Timer(timeout_s, process.kill)
    killer.start()
    seen.out = process.stdout.read()  # type: ignore[union-attr]
    seen.code = process.wait()
    killer.cancel()
    done.set()
    reader.join()
    ticker.join()
    seen.wall_s = time.perf_counter() - began
    seen.wall[phase[0]] += time.perf_counter() - entered[0]  # type: ignore[assignment]
    seen.cpu = {name: Counter({k: v / TICK for k, v in c.items()}) for name, c in seen.cpu.items()}  # type: ignore[misc]
    seen.cpu_s = sum(sum(c.values()) for c in seen.cpu.values())
    if seen.code:
        sys.exit(f"{argv[:4]} ended with {seen.code}:\n{''.join(seen.tail)}")
    return seen


def _processes() -> list[tuple[int, int, str, str, int, int]]:
    """(pid, parent, program, start, CPU ticks of its own, of the children that it waited for) of
    every process.
    """
    out = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            head, _, rest = Path(f"/proc/{entry}/stat").read_text().rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        program = (
            "java"
            if "(java" in head
            else "python"
            if "python" in head or "pyspark" in head
            else "other"
        )
        out.append(
            (
                int(entry),
                int(fields[1]),
                program,
                fields[19],
                int(fields[11]) + int(fields[12]),
                int(fields[13]) + int(fields[14]),
            )
        )
    return out


def _tree(root: int) -> list[tuple[int, int, str, str, int, int]]:
    """`root` and the processes below it, parents first."""
    children: dict[int, list[int]] = defaultdict(list)
    by_pid = {r[0]: r for r in _processes()}
    for pid, parent, *_ in by_pid.values():
        children[parent].append(pid)
    out, todo = [], [root]
    while todo:
        pid = todo.pop()
        if pid in by_pid:
            out.append(by_pid[pid])
            todo += children[pid]
    return out


def _pss(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next(
        (int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0
    )
