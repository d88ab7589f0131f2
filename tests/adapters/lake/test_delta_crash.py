"""A writer killed at any moment: readers see whole versions, the write can be repeated, what it
left is swept up when it is old.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from crawlkit.adapters.lake.delta import Tables
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from tests.adapters.lake.delta_child import BUCKETS, HOSTS, POINTS, rows, write

pytestmark = pytest.mark.waits

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["tests.adapters.lake.delta_child", "deltalake", "deltalake.transaction", "pyarrow.dataset"]
)
HOUR_S = 3600


def generation_of(path: Path, version: int | None = None) -> int:
    """The generation that a reader sees, 0 before the first; fails if it sees a part of one or of
    two.
    """
    try:
        got = Counter(
            DeltaTable(str(path), version=version)
            .to_pyarrow_table(columns=["updated_no"])
            .column(0)
            .to_pylist()
        )
    except TableNotFoundError:
        return 0
    assert list(got.values()) in ([], [HOSTS]), f"half a version: {got}"
    return next(iter(got), 0)


class Reader(threading.Thread):
    """Reads the newest version over and over."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path, self.seen, self.failed, self.over = path, [], None, threading.Event()

    def run(self) -> None:
        try:
            while not self.over.is_set():
                self.seen.append(generation_of(self.path))
        except Exception as e:
            self.failed = e

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()

    def __enter__(self) -> Reader:
        self.start()
        return self


def run_writer(
    root: Path, generation: int, point: str | None = None, after_s: float | None = None
) -> int:
    """Write a generation in a process of its own, killed at a point, some time after it began, or
    not at all; its exit code.
    """
    ready = PROCESSES.Event()
    process = PROCESSES.Process(target=write, args=(str(root), generation, point, ready))
    process.start()
    if after_s is not None:
        assert ready.wait(60)
        time.sleep(after_s)
        process.kill()
    process.join(60)
    return process.exitcode


def files(path: Path) -> set[str]:
    return {
        p.relative_to(path).as_posix()
        for p in path.rglob("*.parquet")
        if "_delta_log" not in p.parts
    }


def named(path: Path) -> set[str]:
    """Files that any version names."""
    return {f for v in range(DeltaTable(str(path)).version() + 1) for f in in_use(path, v)}


def in_use(path: Path, version: int | None = None) -> list[str]:
    return (
        pa.table(DeltaTable(str(path), version=version).get_add_actions(flatten=True))
        .column("path")
        .to_pylist()
    )


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.slow)])
def test_a_writer_killed_at_any_moment(tmp_path, kills):
    path, rng = tmp_path / "hostdb", random.Random(kills)
    with Reader(path) as reader:
        assert run_writer(tmp_path, 1) == 0
        begun = time.monotonic()
        assert run_writer(tmp_path, 1) == 0
        write_s = time.monotonic() - begun
        now = 1
        for generation, point in enumerate(POINTS * (kills // 8) + (None,) * (kills // 2), 2):
            code = run_writer(
                tmp_path, generation, point, None if point else rng.uniform(0, write_s)
            )
            assert code == -signal.SIGKILL or (point is None and code == 0)
            seen = generation_of(path)
            assert seen in {"after the commit": (generation,), None: (now, generation)}.get(
                point, (now,)
            )
            if (
                rng.random() < 0.5
            ):  # the next one finds what this one left, or it is run again first
                assert run_writer(tmp_path, generation) == 0
                seen = generation_of(path)
                assert seen == generation
            now = seen
    assert reader.failed is None, reader.failed
    assert len(set(reader.seen)) > 2 and reader.seen == sorted(reader.seen)
    versions = [generation_of(path, v) for v in range(DeltaTable(str(path)).version() + 1)]
    assert versions == sorted(versions) and versions[-1] == now
    left_is_swept_up_when_it_is_old(tmp_path, path, now)


def left_is_swept_up_when_it_is_old(root: Path, path: Path, now: int) -> None:
    left = sorted(files(path) - named(path))
    assert len(left) > BUCKETS
    tables = Tables(lambda: pytest.fail("no session is wanted"), str(root))
    tables.compact("hostdb", 1.0)
    assert set(left) <= files(path) and generation_of(path) == now
    two_hours_ago = time.time() - 2 * HOUR_S
    for name in [*left[::2], *in_use(path)]:  # a file in use is kept however old it is
        os.utime(path / name, (two_hours_ago, two_hours_ago))
    tables.compact("hostdb", 1.0)
    assert files(path) & set(left) == set(left[1::2])
    assert generation_of(path) == now and generation_of(path, 0) == 1


@pytest.mark.parametrize("point", POINTS)
def test_the_first_write_of_a_table(tmp_path, point):
    assert run_writer(tmp_path, 1, point) == -signal.SIGKILL
    tables = Tables(lambda: pytest.fail("no session is wanted"), str(tmp_path))
    assert tables.exists("hostdb") == (point == "after the commit")
    tables.compact("hostdb", 0.0)
    assert run_writer(tmp_path, 1) == 0
    assert generation_of(tmp_path / "hostdb") == 1 and tables.count("hostdb") == HOSTS


def test_a_full_disk_leaves_the_table_as_it_was(tmp_path, small_disk):
    tables = Tables(lambda: pytest.fail("no session is wanted"), str(small_disk))
    tables.replace("hostdb", rows(1))
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="[Nn]o space left"):
        filler.write_bytes(b"x" * (shutil.disk_usage(small_disk).free + 1))
    with pytest.raises(OSError, match="[Nn]o space left"):
        tables.replace("hostdb", rows(2))
    assert generation_of(small_disk / "hostdb") == 1
    filler.unlink()
    tables.replace("hostdb", rows(2))
    assert generation_of(small_disk / "hostdb") == 2


@pytest.fixture
def small_disk(tmp_path):
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    if made.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {made.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)
