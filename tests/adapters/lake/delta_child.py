"""A process that writes one generation of a table, and may kill itself on the way; started by
test_delta_crash.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from crawlkit.adapters.lake import parquet
from crawlkit.adapters.lake.delta import Tables

BUCKETS, HOSTS = 4, 40
POINTS = ("in a file", "between files", "before the commit", "after the commit")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def rows(generation: int) -> list[dict[str, Any]]:
    return [
        {"host": f"h{n}.example", "host_bucket": n % BUCKETS, "updated_no": generation}
        for n in range(HOSTS)
    ]


def kill_at(point: str) -> None:
    close, commit = parquet._File.close, Tables._commit
    closed = []

    def close_and_die(file, *args):
        if point == "in a file" and closed:
            file._flush()
            die()  # the rows are in the file, its footer is not
        if point == "between files" and closed:
            die()
        closed.append(file.path)
        return close(file, *args)

    def commit_and_die(*args, **kw):
        if point == "before the commit":
            die()
        commit(*args, **kw)
        if point == "after the commit":
            die()

    parquet._File.close, Tables._commit = close_and_die, commit_and_die


def write(root: str, generation: int, point: str | None, ready) -> None:
    if point is not None:
        kill_at(point)
    ready.set()
    Tables(lambda: None, root).replace("hostdb", rows(generation), {"host_bucket": range(BUCKETS)})
