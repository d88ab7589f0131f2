"""A crawl opened for work: its tables, and the Spark session that its stages run in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from crawlkit.adapters.lake.delta import Tables
from crawlkit.adapters.lake.parquet import arrow_table
from crawlkit.adapters.lake.table_reader import Part, TableError
from crawlkit.adapters.store.flock import FileLock
from crawlkit.adapters.store.lease import LeaseLock
from crawlkit.config.operation_sections import SparkConfig
from crawlkit.config.whole import Config
from crawlkit.crawl.state import Crawl
from crawlkit.engine.driver_engine import DriverEngine
from crawlkit.engine.frame import Engine, Frame
from crawlkit.engine.local_engine import LocalEngine
from crawlkit.engine.spark_engine import SparkEngine
from crawlkit.model import Round
from crawlkit.runtime.session import (
    COMPILED,
    build_session,
    spark_settings,
    stop_session,
    use_s3,
)
from crawlkit.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Event = dict[str, Any]  # of a crawl's progress: "event" and what belongs to it
COMPILED_ROWS = 100_000  # 1.4 million links are ranked in 4.7 CPU s, and in 11 by interpreted plans
REBUILT = ("crawldb", "crawldb_log", "buckets")  # tables that `crawlkit rebuild` makes again


class OpenCrawl:
    """A crawl with a Spark session, which starts when it is first asked for."""

    def __init__(
        self,
        crawl: Crawl,
        quick: bool = False,
        say: Callable[[Event], None] = lambda event: None,
        spark: SparkSession | None = None,
        may_lack: Collection[str] = (),
        engine: str | None = None,
        memory: str | None = None,
    ) -> None:
        """Opens nothing yet.

        Args:
            crawl: its place, settings and state.
            quick: Spark compiles less, which is faster for short rounds.
            say: takes each event of the progress.
            spark: a session to use; it is not stopped here.
            may_lack: tables that may be gone, since they are rebuilt.
            engine: local or spark; None: what the settings say.
            memory: of the engine local; None: what the settings say.
        """
        self.crawl = crawl
        self.cfg = crawl.cfg
        self.quick = quick
        self.say = say
        self._given_session = spark
        self.engine_name = "spark" if spark is not None else engine or choose_engine(self.cfg)
        self._memory = memory or self.cfg.engine.memory
        self._may_lack = may_lack
        self._driver: FileLock | LeaseLock | None = None

    @cached_property
    def spark(self) -> SparkSession:
        """The session. Raises SessionError."""
        spark, s3 = self._given_session, "://" in self.crawl.tables_root
        if spark is None:
            scratch = self.crawl.scratch / "spark"
            scratch.mkdir(parents=True, exist_ok=True)
            name = f"crawlkit {self.cfg.crawl.id}"
            spark = build_session(self.cfg.spark, name, scratch, self.quick, s3)
        if s3:
            use_s3(spark, self.cfg.s3)
        return spark

    @cached_property
    def tables(self) -> Tables:
        """Raises TableError if a table that once was written is gone."""
        tables = self.crawl.tables(lambda: self.engine, self._guard)
        check_tables(self.crawl, tables, self._may_lack)
        return tables

    def remember_tables(self) -> None:
        """Note which tables have been written, so that a lost one is not taken for an empty one."""
        known = set(self.crawl.known_tables())
        new = [name for name in TABLES if name not in known and self.tables.exists(name)]
        if new:
            with self.crawl.lock:  # another round may have new ones too
                self.crawl.set_known_tables([*{*self.crawl.known_tables(), *new}])

    @cached_property
    def engine(self) -> Engine:
        """What runs the stages. Raises SessionError."""
        small_bytes = self.cfg.spark.small_bytes
        spark = SparkEngine(self.spark) if self.engine_name == "spark" else None
        if spark is not None and not small_bytes:
            return spark
        scratch = self.crawl.scratch / "local"
        scratch.mkdir(parents=True, exist_ok=True)
        processes = self.cfg.engine.processes or os.cpu_count() or 1
        local = LocalEngine(self._memory, processes, scratch)
        return local if spark is None else DriverEngine(spark, local, small_bytes)

    def read(self, name: str, part: Part | None = None) -> Frame:
        """A table, or some partitions of it. Raises TableError."""
        return self.tables.read(name, part)

    def of_round(self, name: str, round_: Round) -> Frame:
        """A round's partition of a table. Raises TableError."""
        return self.read(name, {"round_id": [round_.id]})

    def frame(self, name: str, rows: Sequence[Mapping[str, Any]]) -> Frame:
        """Rows (times as Unix s) as a frame of a table's schema; what a row lacks is null."""
        return self.engine.from_arrow(arrow_table(TABLES[name], rows))

    @contextlib.contextmanager
    def compiled(self, rows: int) -> Iterator[None]:
        """Let Spark compile the queries over so many rows, if that pays in a short round."""
        if self.engine_name == "spark" and self.quick and rows >= COMPILED_ROWS:
            with spark_settings(self.spark, COMPILED):
                yield
        else:
            yield

    def report_step(self, text: str) -> None:
        """Report which step of an upkeep begins."""
        self.say({"event": "step", "text": text})

    @contextlib.contextmanager
    def driving(self, round_: Round, region: str | None = None) -> Iterator[None]:
        """Hold a round (or a region's fetch of it) while its stages run.

        Once another process has taken it over, no stage starts here and nothing is committed.
        Raises LockHeld.
        """
        with self.crawl.driver_lock(round_, region) as self._driver:
            try:
                yield
            finally:
                self._driver = None

    def check_driving(self) -> None:
        """Raises LockHeld if another process has taken the round over."""
        if self._driver is not None:
            self._driver.check()

    def _guard(self) -> None:
        """Called just before each commit. Raises LockHeld."""
        self.crawl.lock.check()
        self.check_driving()

    def stop(self) -> None:
        """End the engine, and the session if it was made here."""
        if "engine" in self.__dict__:
            self.engine.stop()
        if self._given_session is None and "spark" in self.__dict__:
            stop_session(self.spark)


def choose_engine(cfg: Config) -> str:
    """The engine that `engine.name` asks for; `auto` is Spark under spark-submit and where a master
    other than the default is set, else local.
    """
    if cfg.engine.name != "auto":
        return cfg.engine.name
    has_master = cfg.spark.master != SparkConfig().master
    return "spark" if has_master or "PYSPARK_GATEWAY_PORT" in os.environ else "local"


def check_tables(crawl: Crawl, tables: Tables, may_lack: Collection[str] = ()) -> None:
    """Raises TableError if a table that once was written is gone."""
    for name in crawl.known_tables():
        if name not in may_lack and not tables.exists(name):
            remedy = (
                "; or make it again from the other tables with `crawlkit rebuild`"
                if name in REBUILT
                else ""
            )
            raise TableError(
                f"table {name} is missing: {tables.path(name)} was written before and is gone;"
                f" restore the folder from a copy{remedy}"
            )
