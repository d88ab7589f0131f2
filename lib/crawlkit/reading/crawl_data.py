"""`crawlkit.open(DIR)`: the data of a crawl for a notebook or a program (docs/python.md)."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from crawlkit.adapters.lake.duckdb_reader import connect
from crawlkit.config.layers import Settings
from crawlkit.config.section import ConfigError
from crawlkit.crawl.kept_settings import keep_begun, settings_of
from crawlkit.crawl.state import Crawl
from crawlkit.exports.cc_index import cc_table
from crawlkit.exports.source import Source
from crawlkit.local.sample_site import serve
from crawlkit.observe.explain import explain
from crawlkit.observe.sql_views import register_views
from crawlkit.observe.status import read_status
from crawlkit.observe.views import RELATIONS, VIEWS
from crawlkit.reading.rows import Rows
from crawlkit.reading.stored import COLUMNS, StoredRecord, find_record, iter_records
from crawlkit.round.job import Job, make_job
from crawlkit.round.limits import Limits
from crawlkit.round.start import check_seeds, set_scope
from crawlkit.round.summary import summarize
from crawlkit.round.waves import Waves
from crawlkit.rules.url.seeds import with_scheme

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class CrawlData:
    """The tables, stored pages and status of one crawl.

    Each table and view of SQL is a method: `captures()`, `duplicates()`, `latest_page()`; `tables`
    names them all. Use it in a `with`, or `close` it, if Spark was asked.
    """

    def __init__(
        self,
        data: str | PathLike[str],
        config: str | PathLike[str] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """As `crawlkit.open`. Raises ConfigError, StoreUnavailable."""
        self.data = fspath(data)
        if "://" not in self.data and Path(self.data).exists() and not Path(self.data).is_dir():
            raise ConfigError(f"{self.data}: not a folder")
        self._file = None if config is None else Path(config)
        self._given = as_sets(settings)
        self._jobs: list[Job] = []
        self.reload()

    def reload(self) -> None:
        """Read the crawl's settings again, as after `crawlkit ... --save`. Raises ConfigError."""
        self.settings: Settings = settings_of(self.data, self._file, self._given)
        self._crawl = Crawl(self.data, self.settings.config)

    # -- tables ------------------------------------------------------------------------
    @property
    def tables(self) -> list[str]:
        """The names of all tables and views."""
        return sorted(RELATIONS)

    def table(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
    ) -> Rows:
        """The rows of a table or view.

        Args:
            name: one of `tables`.
            columns: their names; None: all.
            where: a condition in SQL, for example "status = 404".
            limit: rows at most.

        Raises ValueError (no such table).
        """
        if name not in RELATIONS:
            raise ValueError(f"no table {name!r:.60}: there are {', '.join(self.tables)}")

        def select(mark: str) -> str:
            """The statement, with names between such marks."""
            names = [_quote(c, mark) for c in columns or ()]
            shown = "*" if columns is None else ", ".join(names) or "NULL"
            text = f"SELECT {shown} FROM {_quote(name, mark)}"
            text += "" if where is None else f" WHERE (\n{where}\n)"  # it may end with a comment
            return text + ("" if limit is None else f" LIMIT {int(limit)}")

        return Rows(select('"'), self._connect, self._ask_spark, select("`"))

    def pages(self, *args: Any, **options: Any) -> Rows:
        """What was read from each stored page: title, text, language ... (arguments: `table`).

        A page that was read in several rounds has a row for each; `latest_page()` has the newest.
        """
        return self.table("pages", *args, **options)

    def captures(self, *args: Any, **options: Any) -> Rows:
        """Each request's outcome: status, times, place in the WARC files (arguments: `table`)."""
        return self.table("captures", *args, **options)

    def links(self, *args: Any, **options: Any) -> Rows:
        """Each link of each stored page (arguments: `table`)."""
        return self.table("links", *args, **options)

    def frontier(self, *args: Any, **options: Any) -> Rows:
        """Each known URL: its state, and when it is due (arguments: `table`)."""
        return self.table("frontier", *args, **options)

    def hosts(self, *args: Any, **options: Any) -> Rows:
        """Each host: its pace, health, pages (the table `hostdb`; arguments: `table`)."""
        return self.table("hostdb", *args, **options)

    def errors(self, *args: Any, **options: Any) -> Rows:
        """Failed requests and their reasons (arguments: `table`)."""
        return self.table("errors", *args, **options)

    def __getattr__(self, name: str) -> Callable[..., Rows]:
        if name not in RELATIONS:
            raise AttributeError(f"no table or method {name!r:.60}; `tables` names all tables")
        return partial(self.table, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *RELATIONS})

    def query(self, sql: str) -> Rows:
        """The rows of a SELECT over tables and views (docs/queries.md)."""
        return Rows(sql, self._connect, self._ask_spark)

    def _connect(self, sql: str) -> duckdb.DuckDBPyConnection:
        self._check()
        made = {"cc_index": lambda: cc_table(Source(self.data, self.settings.config))}
        return connect(self._crawl.plain_tables(), VIEWS, sql, made)

    def _ask_spark(self, sql: str, session: SparkSession | None) -> DataFrame:
        """The DataFrame of a SELECT; the views in its session are those of this crawl."""
        self._check()
        job = next((j for j in self._jobs if session is None or j.spark is session), None)
        if job is None:
            cfg = self.settings.config
            job = make_job(self.data, cfg, quick=True, spark=session, engine="spark")
            self._jobs.append(job)
        register_views(job)
        return job.spark.sql(sql)

    def _check(self) -> None:
        """Raises ConfigError: there is no crawl."""
        tables = self._crawl.plain_tables()
        if not tables.exists("crawldb_log") and not tables.exists("captures"):
            raise ConfigError(f"{self.data}: no crawl there; .crawl(URL) begins one")

    # -- stored pages ------------------------------------------------------------------
    def record(self, url: str, round_id: str | None = None) -> StoredRecord:
        """The newest stored answer of a URL: time, status, headers, body, text.

        round_id: of that round. Raises NotStored, Refused (no such URL), TableError.
        """
        self._check()
        return find_record(self._crawl, with_scheme(url), round_id)

    def body(self, url: str, round_id: str | None = None) -> bytes:
        """The newest stored body of a URL without codings, at most 32 MiB of it.

        Raises NotStored, Refused (no such URL), TableError.
        """
        return self.record(url, round_id).body

    def records(self, where: str | None = None) -> Iterator[StoredRecord]:
        """All stored answers in the order of the WARC files, one in memory at a time.

        where: a condition in SQL over `captures`, for example "kind = 'page' AND status = 200". A
        damaged record says so in `error`. Raises QueryError, TableError.
        """
        condition = "TRUE" if where is None else where
        sql = (
            f"SELECT {', '.join(COLUMNS)} FROM captures WHERE warc_filename IS NOT NULL AND"
            f" (\n{condition}\n) ORDER BY warc_filename, warc_record_offset"
        )
        return iter_records(self._crawl, self.query(sql))

    # -- the crawl itself --------------------------------------------------------------
    def explain(self, url: str) -> dict[str, Any]:
        """Everything known of a URL; `why` says why it was or was not fetched.

        Raises TableError, CrawlError.
        """
        self._check()
        return explain(self._crawl, with_scheme(url))

    def status(self) -> dict[str, Any]:
        """Rounds, known URLs by state, what is due. Raises ConfigError, CrawlError."""
        return read_status(self.data, self.settings.config)

    def crawl(
        self,
        *urls: str,
        rounds: int = 3,
        scope: str | None = None,
        settings: Mapping[str, Any] | None = None,
        sample: bool | str | PathLike[str] = False,
        tell: Callable[[dict[str, Any]], None] | None = None,
        **limits: Any,
    ) -> dict[str, Any]:
        """Crawl as `crawlkit crawl` does, and return its summary.

        The settings with which a crawl begins are kept in its crawl.yaml.

        Args:
            urls: seeds; none: go on with what is due. rounds: how many at most.
            scope: domain, host, prefix or any; None: the seeds' domains for a new crawl.
            settings: single keys; once the crawl has a crawl.yaml, of this call alone.
            sample: serve the sample site (or that of a folder) on loopback, and crawl it.
            tell: takes each event of the progress, a dict with `event`.
            limits: max_pages, max_depth, max_minutes, max_bytes.

        Raises ConfigError, CrawlError, LockHeld, and KeyboardInterrupt: call it again to go on.
        """
        say, lines, sets = tell or _ignore, list(urls), list[str]()
        if (depth := limits.pop("max_depth", None)) is not None:
            sets.append(f"scope.max_depth={int(depth)}")
        limit = _limits(limits)
        with contextlib.ExitStack() as stack:
            if sample is not False:
                web = stack.enter_context(serve() if sample is True else serve(fspath(sample)))
                sets += web.config_sets()
                lines = lines or list(web.seeds)
            given = self.settings.with_sets(as_sets(settings), "crawl()")
            used = given.with_passing(sets, "crawl()")
            used = set_scope(used, lines, scope, lambda text: say({"event": "told", "text": text}))
            check_seeds(self.data, used, lines)
            return self._run(used, lines, rounds, limit, say)

    def _run(
        self,
        settings: Settings,
        lines: list[str],
        rounds: int,
        limits: Limits,
        say: Callable[[dict[str, Any]], None],
    ) -> dict[str, Any]:
        started = time.time()
        job = make_job(self.data, settings.config, quick=True, say=say)
        try:
            keep_begun(self.data, settings)
            with Waves(job, limits) as waves:
                waves.run(rounds, lines, None)
                summary = summarize(job, waves.done, waves.injected, started, time.time())
        finally:
            job.stop()
            self.reload()
        return summary | {"reached": limits.reached}

    def close(self) -> None:
        """End the Spark session, if one was started here."""
        while self._jobs:
            self._jobs.pop().stop()

    def __enter__(self) -> CrawlData:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<crawl at {self.data}>"


def as_sets(settings: Mapping[str, Any] | None) -> list[str]:
    """Keys and values as `--set` takes them."""
    return [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]


def _ignore(event: dict[str, Any]) -> None:
    """Takes an event and says nothing."""


def _limits(given: Mapping[str, Any]) -> Limits:
    """Raises TypeError (an unknown limit)."""
    known = {"max_pages": "pages", "max_minutes": "minutes", "max_bytes": "body_bytes"}
    if unknown := given.keys() - known:
        raise TypeError(f"no limit {min(unknown)!r}: there are {', '.join(known)}")
    return Limits(**{known[name]: value for name, value in given.items()})


def _quote(name: str, mark: str) -> str:
    """A name in SQL: between double quotes for DuckDB, between backticks for Spark."""
    return mark + name.replace(mark, mark * 2) + mark
