"""Where the public suites and probes are: files that are read, never copied."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(
    os.environ.get("CRAWLKIT_SHARED") or Path(__file__).resolve().parents[1] / "../shared"
).resolve()


def shared(path: str) -> Path:
    """A file of the shared folder (`CRAWLKIT_SHARED`, default `../shared`); the test is skipped,
    and says so, without it.
    """
    found = ROOT / path
    if not found.exists():
        pytest.skip(f"{path} is not in {ROOT}: set CRAWLKIT_SHARED", allow_module_level=True)
    return found


def shared_rows(path: str) -> list[dict[str, Any]]:
    """The rows of a JSON-lines file of the shared folder."""
    return [json.loads(line) for line in shared(path).read_text("utf-8").splitlines() if line]
