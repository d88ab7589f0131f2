"""bad-input: a seed file through the injector."""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path

from crawlkit.cli.settings import read_seeds
from crawlkit.config import Config
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.stages.inject import read_lines


def answer(given: dict, folder: Path) -> dict:
    with tempfile.NamedTemporaryFile(delete=False) as f:
        f.write(base64.b64decode(given["seed_file_b64"]))
    try:
        rows, rejects, counts = read_lines(
            read_seeds(f.name), now=0.0, buckets=8, policy=UrlPolicy.of(Config().urls)
        )
    finally:
        os.unlink(f.name)
    added = [r["url"] for r in rows]
    accounted = (
        counts["lines"]
        == len(added) + counts["duplicates"] + counts["refused"] + counts["comments"]
        and len(rejects) == counts["refused"]
    )
    return {
        "added": added,
        "duplicates": counts["duplicates"],
        "refused": counts["refused"],
        "all_lines_accounted": accounted,
    }
