"""Runs one slot as a process of its own, to be killed: `python -m tests.adapters.slot_child < JSON`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from crawlkit.adapters.slot import run_slot
from crawlkit.config import Config
from tests.adapters.slotweb import plan, slot_io

if __name__ == "__main__":
    given = json.load(sys.stdin)
    print("started", flush=True)
    print(json.dumps(run_slot(plan(given["urls"]), Config.model_validate(given["config"]), slot_io(Path(given["folder"])))), flush=True)
