"""What both engines promise of frames, and the workers of the local one."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from crawlkit.engine.frame import Batches, Tasks
from crawlkit.engine.spark_engine import split_with
from crawlkit.engine.task_errors import TaskFailed
from crawlkit.tables.ddl import arrow_schema

DDL = "a int, b string"
ROWS = [(n, str(n % 3)) for n in range(10)]


def note(path: str, batches: Batches) -> Batches:
    """Pass batches on, with a line in a file for each row."""
    for batch in batches:
        with open(path, "a") as file:
            file.write("x\n" * batch.num_rows)
        yield batch


@pytest.mark.waits
def test_a_frame_that_is_kept_is_computed_once(engine, tmp_path):
    path = tmp_path / "rows"
    made = engine.from_rows(DDL, ROWS).map_batches(partial(note, str(path)), DDL)
    with engine.keep(made) as kept:
        few = engine.query("SELECT a FROM {kept} WHERE a < 5", kept=kept)
        both = engine.query(
            "WITH few AS (SELECT a FROM {kept} WHERE a < 5)"
            " SELECT k.a, k.b FROM {kept} AS k JOIN few ON k.a = few.a",
            kept=kept,
        )
        assert (few.count(), both.count(), kept.where("a >= 5").count()) == (5, 5, 5)
    assert len(path.read_text().splitlines()) == 10


@pytest.mark.waits
def test_none_of_no_rows_is_zero(engine):
    none = engine.from_rows(DDL, [])
    query = "SELECT count_if(a > 1) AS n FROM {rows}"
    assert engine.query(query, rows=none).rows() == [{"n": 0}]


@pytest.mark.waits
def test_nulls_are_first_and_last_where_the_order_is_turned(engine):
    rows = engine.from_rows("a int", [(2,), (None,), (1,)])
    query = """
        SELECT a, row_number() OVER (ORDER BY a) AS up, row_number() OVER (ORDER BY a DESC) AS down
        FROM {rows}
    """
    got = {r["a"]: (r["up"], r["down"]) for r in engine.query(query, rows=rows).rows()}
    assert got == {None: (1, 3), 1: (2, 2), 2: (3, 1)}


def batches_by_task(batches: Batches) -> Batches:
    rows = [row for batch in batches for row in batch.to_pylist()]
    if rows:
        order = "".join(str(row["a"]) for row in rows)
        names = sorted({row["b"] for row in rows})
        yield pa.RecordBatch.from_pylist([{"order": order, "names": names}], OF_TASK)


OF_TASK_DDL = "order string, names array<string>"
OF_TASK = arrow_schema(OF_TASK_DDL)


@pytest.mark.waits
def test_equal_rows_come_to_one_task_and_in_order(engine):
    tasks = Tasks(by=("b",), order=("a",))
    made = engine.from_rows(DDL, ROWS).map_batches(batches_by_task, OF_TASK_DDL, tasks).rows()
    assert sorted(n for r in made for n in r["names"]) == ["0", "1", "2"]
    assert "".join(sorted("".join(r["order"] for r in made))) == "0123456789"


@pytest.mark.waits
def test_each_slot_is_a_task_of_its_own(engine):
    rows = engine.from_rows("slot int, a int, b string", [(n % 3, n, "x") for n in range(9)])
    tasks = Tasks(by=("slot",), order=("a",), slots=3)
    made = rows.map_batches(batches_by_task, OF_TASK_DDL, tasks).rows()
    assert sorted(r["order"] for r in made) == ["036", "147", "258"]


def test_the_parts_of_a_with_are_found():
    parts, last = split_with("WITH a AS (SELECT (1)), b AS (SELECT 2 FROM a) SELECT * FROM b")
    assert parts == [("a", "SELECT (1)"), ("b", "SELECT 2 FROM a")]
    assert last.strip() == "SELECT * FROM b"
    assert split_with(" SELECT 1 ") == ([], "SELECT 1")


# -- workers ---------------------------------------------------------------------------
def fail(path: str, how: str, times: int, batches: Batches) -> Batches:
    """Pass batches on, from the try after so many that fail."""
    tries = Path(path)
    tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
    if len(tries.read_text()) <= times:
        yield from batches  # what a try that fails has made is not told
        if how == "raise":
            raise ValueError("not this time")
        os.kill(os.getpid(), signal.SIGKILL if how == "die" else signal.SIGSTOP)
    yield from batches


SPREAD = Tasks(order=("a",), spread=True)


@pytest.mark.waits
@pytest.mark.parametrize("how", ["raise", "die", "freeze"])
def test_a_task_that_fails_is_run_again(local_engine, tmp_path, how):
    times = 1 if how == "freeze" else 3
    rows = local_engine.from_rows(DDL, ROWS[:1])
    function = partial(fail, str(tmp_path / "tries"), how, times)
    assert len(rows.map_batches(function, DDL, SPREAD).rows()) == 1
    assert len((tmp_path / "tries").read_text()) == times + 1


@pytest.mark.waits
def test_the_fourth_failure_is_the_stages(local_engine, tmp_path):
    rows = local_engine.from_rows(DDL, ROWS[:1])
    function = partial(fail, str(tmp_path / "tries"), "raise", 9)
    with pytest.raises(TaskFailed, match="builtins.ValueError: not this time"):
        rows.map_batches(function, DDL, SPREAD)
    assert len((tmp_path / "tries").read_text()) == 4


def tell_pandas(batches: Batches) -> Batches:
    pa.array([1])
    for _ in batches:
        loaded = [name for name in sys.modules if name == "pandas"]
        yield pa.RecordBatch.from_pylist([{"order": "", "names": loaded}], OF_TASK)


@pytest.mark.waits
def test_a_worker_makes_arrays_without_pandas(local_engine):
    rows = local_engine.from_rows(DDL, ROWS[:1])
    assert rows.map_batches(tell_pandas, OF_TASK_DDL, SPREAD).rows()[0]["names"] == []
