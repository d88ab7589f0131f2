"""Bounds on CPU time: that a parser is linear shows in seconds, and those are not the same on each
machine or at each hour.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LOOP_S = 0.018  # `_loop` on the machine that the limits are written for
TRIES = 4
BESIDE = (
    2.0 if "PYTEST_XDIST_WORKER" in os.environ else 1.0
)  # another process of tests shares caches and memory, which a plain loop does not feel


def _loop() -> float:
    start, total = time.process_time(), 0
    for n in range(300_000):
        total += n
    return time.process_time() - start


def within(limit_s: float, call: Callable[[], T]) -> T:
    """What `call` gives; fails if each of a few tries takes more CPU than the limit.

    The limit holds for the machine of LOOP_S. A slower one, or one whose processors are shared at
    that moment, gets as much more as a plain loop takes there, before or after the try; and with
    other tests beside, twice.
    """
    taken = []
    for _ in range(TRIES):
        before = _loop()
        start = time.process_time()
        result = call()
        took = time.process_time() - start
        slower = BESIDE * max(1.0, max(before, _loop()) / LOOP_S)
        if took < limit_s * slower:
            return result
        taken.append(f"{took:.2f} s where {limit_s * slower:.2f} s are allowed")
    raise AssertionError("; ".join(taken))
