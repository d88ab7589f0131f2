"""Two ways to one result, timed side by side, and their results written as JSON and as a table."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"


def members(path: str, suffix: str = "") -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of the files in an archive of the shared suites (`CRAWLKIT_SHARED`, default
    `../shared`).
    """
    archive = Path(os.environ.get("CRAWLKIT_SHARED") or ROOT / "../shared") / path
    if not archive.exists():
        sys.exit(f"{path} is not in {archive.parent}: set CRAWLKIT_SHARED")
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and member.name.endswith(suffix):
                yield member.name, tar.extractfile(member).read()  # type: ignore[union-attr]


def paired(ways: dict[str, Callable[[], Any]], rounds: int = 7) -> dict[str, dict[str, float]]:
    """CPU and wall seconds of each way (medians of `rounds`), and the first way's CPU and wall as
    multiples of each other's: medians of the ratios within a round, so that a busy machine slows
    both sides of a ratio.
    """
    names = list(ways)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names if turn % 2 else names[::-1]:
            cpu, wall = time.process_time(), time.perf_counter()
            ways[name]()
            taken[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    out = {}
    for name in names:
        cpus, walls = zip(*taken[name], strict=True)
        out[name] = {"cpu_s": statistics.median(cpus), "wall_s": statistics.median(walls)}
        if name != names[0]:
            ratios = [
                [other / own for own, other in zip(mine, theirs, strict=True)]
                for mine, theirs in zip(taken[names[0]], taken[name], strict=True)
            ]
            out[name] |= {
                "cpu_ratio": statistics.median(r[0] for r in ratios),
                "wall_ratio": statistics.median(r[1] for r in ratios),
            }
    return out


def write(name: str, result: dict[str, Any], table: str, packages: tuple[str, ...]) -> None:
    """bench/results/NAME.json and NAME.md; the table goes to the console too."""
    RESULTS.mkdir(exist_ok=True)
    result = {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "packages": {p: version(p) for p in packages},
    } | result
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    versions = ", ".join(f"{p} {v}" for p, v in result["packages"].items())
    text = (
        f"{table}\nPython {result['python']}, {versions}; one core of a machine with"
        f" {result['cpus']}. Written by `python -m bench {name}`.\n"
    )
    (RESULTS / f"{name}.md").write_text(text)
    print(text)
