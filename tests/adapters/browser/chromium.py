"""The Chromium of the tests, or a skip that says what is missing; and its processes."""

import contextlib
import importlib.util
import os
from pathlib import Path

import pytest
from crawlkit.adapters.browser.processes import find_processes
from crawlkit.adapters.browser.rendering import find_chromium
from crawlkit.config import Render
from crawlkit.runtime.cpu_time import process_tree


def chromium() -> str:
    """Its path; skips where there is none."""
    path = find_chromium(Render())
    if path is None or importlib.util.find_spec("playwright") is None:
        pytest.skip("NO CHROMIUM: rendering is not tested here; `make setup-render` gets one")
    return str(path)


def own_processes(mark: str, root: int | None = None) -> set[int]:
    """Processes below one (this one) with an argument; browsers have sessions of their own."""
    return find_processes(mark) & process_tree(root).keys()


def left_processes(mark: str) -> set[int]:
    """Processes with an argument that this worker of pytest has begun, orphans too."""
    name = f"PYTEST_XDIST_WORKER={os.environ.get('PYTEST_XDIST_WORKER', '')}".encode()
    left = set()
    for pid in find_processes(mark):
        with contextlib.suppress(OSError):
            environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if name in environ or name.endswith(b"="):
                left.add(pid)
    return left
