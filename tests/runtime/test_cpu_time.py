"""CPU time of a process tree: by hand-made trees, and of a child that burns a known time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from crawlkit.runtime.cpu_time import Used, cpu_s, process_tree

TICK = os.sysconf("SC_CLK_TCK")


def test_by_hand():
    before = {
        1: Used(0, 0, 100, 50),
        2: Used(5, 1, 30, 0),
        3: Used(6, 1, 40, 0),
        4: Used(7, 3, 500, 0),
    }
    # 2 goes on; 3 has ended and was waited for with 10 more ticks; 4, its orphan, was waited for by
    # nobody; 5 is new and has had children
    now = {1: Used(0, 0, 110, 100), 2: Used(5, 1, 33, 0), 5: Used(9, 1, 7, 2)}
    assert cpu_s(before, now) == (10 + (100 - 50 - 40) + 3 + 7 + 2) / TICK
    assert (
        cpu_s(before, {1: Used(0, 0, 100, 50)}) == 0.0
    )  # all ended, nobody waited: unknown, not negative
    assert (
        cpu_s({1: Used(0, 0, 9, 0)}, {1: Used(3, 0, 4, 0)}) == 4 / TICK
    )  # the pid was given to another process


@pytest.mark.waits
def test_a_child_counts_while_it_runs_and_after_it_ended():
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    before = process_tree()
    with subprocess.Popen(
        [sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        during = cpu_s(before, process_tree())
        child.communicate(b"\n")
    after = cpu_s(before, process_tree())
    assert 0.25 <= during <= after + 2 / TICK and after < 10
