"""Tools of others, each in an environment of its own: found by `CRAWLKIT_<TOOL>`, in .venv-outside
(`make outside`) or on PATH, else the test is skipped and says so.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

WAIT_S = 60
ENVIRONMENT = Path(__file__).resolve().parents[1] / ".venv-outside/bin"


def tool_path(name: str) -> str:
    """Where a tool is; skips the test if it is not there."""
    variable = "CRAWLKIT_" + name.upper().replace("-", "_")
    tool = os.environ.get(variable) or shutil.which(
        name, path=f"{ENVIRONMENT}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    )
    if not tool:
        pytest.skip(
            f"{name} is not installed: `make outside`, put it on PATH or name it by {variable} to"
            " compare with it"
        )
    return tool


def run_tool(name: str, *args: str | Path) -> str:
    """Standard output of a tool; a failure shows what it said."""
    done = subprocess.run(
        [tool_path(name), *map(str, args)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def wayback(folder: Path, warc: Path, index: Path) -> Iterator[str]:
    """The address of a pywb collection of a folder of WARC files and their CDXJ, served from
    `folder`.
    """
    tool, collection = tool_path("wayback"), folder / "collections" / "crawl"
    (collection / "indexes").mkdir(parents=True)
    (collection / "archive").symlink_to(warc)
    shutil.copy(index, collection / "indexes" / "index.cdxj")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [tool, "-b", "127.0.0.1", "-p", str(port), "-d", str(folder)],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            cwd=folder,
        )
    try:
        deadline = time.monotonic() + WAIT_S
        while server.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.2)
        else:
            pytest.fail((folder / "log").read_text("utf-8", "replace")[-2000:])
        yield f"http://127.0.0.1:{port}/crawl"
    finally:
        server.terminate()
        server.wait(20)
