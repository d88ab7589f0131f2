"""Small inputs in Spark's driver."""

from __future__ import annotations

import os
from functools import partial

import pyarrow as pa
import pytest
from crawlkit.engine.driver_engine import COSTLY_ROWS, DriverEngine
from crawlkit.engine.frame import Batches, Tasks
from crawlkit.engine.spark_engine import SparkEngine
from crawlkit.tables.ddl import arrow_schema

pytestmark = [pytest.mark.spark]
SMALL_BYTES = 10_000
DDL = "a int, b string"


@pytest.fixture
def driver(spark, local_engine):
    made = DriverEngine(SparkEngine(spark), local_engine, SMALL_BYTES)
    yield made
    made.forget()


@pytest.fixture
def jobs(spark):
    """How many jobs Spark has run so far."""
    return lambda: len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def small(engine, n=10):
    return engine.from_rows(DDL, [(i, str(i % 3)) for i in range(n)])


def large(engine):
    return engine.from_rows(DDL, [(i, "x" * 10) for i in range(SMALL_BYTES)])


QUERY = "SELECT {} FROM {{s}} AS s JOIN {{t}} AS t ON s.a = t.a WHERE s.a > 4"


def test_small_inputs_need_no_job(driver, jobs):
    before = jobs()
    made = driver.query(QUERY.format("s.a, s.b"), s=small(driver), t=small(driver))
    with driver.keep(made.where("a < 9").map_batches(number, "a int, pid bigint")) as kept:
        assert sorted(r["a"] for r in kept.rows()) == [5, 6, 7, 8]
        assert {r["pid"] for r in kept.rows()} == {os.getpid()}
    assert jobs() == before


def test_a_small_input_meets_a_large_one_on_spark(driver, jobs):
    before = jobs()
    made = driver.query(QUERY.format("s.a, t.b"), s=small(driver), t=large(driver))
    assert sorted(r["a"] for r in made.rows()) == [5, 6, 7, 8, 9]
    assert jobs() > before


def test_few_rows_that_spark_made_are_kept_in_the_driver(driver, jobs):
    few = large(driver).where("a < 3")
    with driver.keep(few) as kept:
        before = jobs()
        both = driver.query("SELECT s.a FROM {s} AS s JOIN {t} AS t ON s.a = t.a", s=kept, t=kept)
        assert sorted(r["a"] for r in both.rows()) == [0, 1, 2]
        assert jobs() == before


def number(batches: Batches) -> Batches:
    for batch in batches:
        made = [{"a": row["a"], "pid": os.getpid()} for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(made, arrow_schema("a int, pid bigint"))


@pytest.mark.parametrize(
    "tasks, n, here",
    [
        (Tasks(by=("b",)), 100, True),
        (Tasks(by=("b",), costly=True), COSTLY_ROWS, True),
        (Tasks(by=("b",), costly=True), COSTLY_ROWS + 1, False),
        (Tasks(order=("a",), spread=True), 4, False),
    ],
)
def test_tasks_that_take_long_are_sparks(driver, tasks, n, here):
    made = small(driver, n).map_batches(number, "a int, pid bigint", tasks).rows()
    assert len(made) == n
    assert ({r["pid"] for r in made} == {os.getpid()}) == here


def test_a_slot_is_a_task_of_spark(driver):
    rows = driver.from_rows("slot int, a int, b string", [(n % 3, n, "x") for n in range(9)])
    tasks = Tasks(by=("slot",), order=("a",), slots=3)
    made = rows.map_batches(partial(number), "a int, pid bigint", tasks).rows()
    assert sorted(r["a"] for r in made) == list(range(9))
    assert os.getpid() not in {r["pid"] for r in made}
