from __future__ import annotations

import importlib
import sys

NAMES = ("rules", "maintext", "fetch", "rounds")
LONG = (
    "dedup",
    "known",
    "overlap",
    "polite",
    "render",
    "soak",
    "verb_runs",
    "zipf",
)  # only by name


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in NAMES + LONG]
    if unknown:
        print(
            f"no such benchmark: {', '.join(unknown)}; there are {', '.join(NAMES + LONG)}",
            file=sys.stderr,
        )
        return 2
    for name in names or NAMES:
        try:
            module = importlib.import_module(f"bench.{name}")
        except ModuleNotFoundError as e:
            print(
                f"bench {name} compares with {e.name}, which is not installed: `make bench"
                f" NAME={name}`, or pip install --no-deps -r conf/bench.lock",
                file=sys.stderr,
            )
            return 2
        module.main()
    return 0


sys.exit(main(sys.argv[1:]))
