"""The engine local: one connection, whatever threads do beside it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from crawlkit.engine.frame import Frame
from crawlkit.engine.local_engine import LocalEngine


@pytest.mark.waits
def test_frames_that_end_in_another_thread(tmp_path: Path) -> None:
    """Garbage is collected in any thread, and the connection takes one call at a time."""
    engine = LocalEngine("500MB", 1, tmp_path)
    rows, held = pa.table({"n": range(10_000)}), list[Frame]()
    done = threading.Event()

    def let_go() -> None:
        while not done.is_set():
            time.sleep(0.0002)
            while held:
                held.pop()

    thread = threading.Thread(target=let_go)
    thread.start()
    try:
        for n in range(40):
            frame = engine.from_arrow(rows)
            held.append(engine.query("SELECT n FROM {f}", f=frame))
            held.append(frame)
            query = engine.query("SELECT count(*) AS n FROM {f} WHERE n >= " + str(n), f=frame)
            assert query.rows()[0]["n"] == 10_000 - n
    finally:
        done.set()
        thread.join()
    held.clear()
    del frame, query
    last = engine.from_arrow(rows)
    names = engine.db.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    assert {name for (name,) in names} <= {last.native}
    engine.stop()
