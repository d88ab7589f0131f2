"""Tools of others, each in an environment of its own: found by `CRAWLKIT_<TOOL>` or on PATH, else the test is skipped and says so."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def tool_path(name: str) -> str:
    """Where a tool is; skips the test if it is not there."""
    variable = "CRAWLKIT_" + name.upper().replace("-", "_")
    tool = os.environ.get(variable) or shutil.which(name)
    if not tool:
        pytest.skip(f"{name} is not installed: put it on PATH or name it by {variable} to compare with it")
    return tool


def run_tool(name: str, *args: str | Path) -> str:
    """Standard output of a tool; a failure shows what it said."""
    done = subprocess.run([tool_path(name), *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
