"""The Chromium of the tests, or a skip that says what is missing; and its processes."""

import importlib.util
import os
from pathlib import Path

import pytest
from crawlkit.adapters.browser.processes import find_processes
from crawlkit.adapters.browser.rendering import find_chromium
from crawlkit.config import Render


def chromium() -> str:
    """Its path; skips where there is none."""
    path = find_chromium(Render())
    if path is None or importlib.util.find_spec("playwright") is None:
        pytest.skip("NO CHROMIUM: rendering is not tested here; `make setup-render` gets one")
    return str(path)


def own_processes(mark: str, root: int | None = None) -> set[int]:
    """Processes below one (this one) with an argument; browsers have sessions of their own."""
    below = {root or os.getpid()}
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1])
    for _ in range(10):
        below |= {pid for pid, parent in parents.items() if parent in below}
    return find_processes(mark) & below
