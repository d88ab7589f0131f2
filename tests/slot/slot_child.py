"""Runs one slot as a process of its own, to be killed: `python -m tests.slot.slot_child <
JSON`.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from crawlkit.config import Config
from crawlkit.slot.run import run_slot

from tests.slot.slotweb import plan, s3_io, slot_io

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given = json.load(sys.stdin)
    print("started", flush=True)
    cfg, folder = Config.model_validate(given["config"]), Path(given["folder"])
    io = s3_io(given["place"], cfg.s3, folder) if "place" in given else slot_io(folder)
    print(json.dumps(run_slot(plan(given["urls"]), cfg, io)), flush=True)
