"""Verbs that ask the tables by SQL: sql, hosts, errors."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from crawlkit.adapters.lake.duckdb_reader import QueryError, ask
from crawlkit.cli.errors import report_errors
from crawlkit.cli.root import (
    DEFAULT_DATA,
    AsJson,
    ConfigFile,
    Data,
    RoundId,
    Sets,
    app,
    emit,
    rows_text,
)
from crawlkit.cli.settings import read_config, read_settings
from crawlkit.config.layers import Settings
from crawlkit.config.section import ConfigError
from crawlkit.config.whole import Config
from crawlkit.crawl.open_crawl import choose_engine
from crawlkit.crawl.state import Crawl, Place
from crawlkit.exports.cc_index import cc_table
from crawlkit.exports.source import Source
from crawlkit.observe.error_queries import ERROR_COUNTS, ERRORS, where_errors
from crawlkit.observe.views import VIEWS
from crawlkit.runtime.spark_errors import first_cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DESCRIBES = re.compile(r"\s*(SHOW|DESC|DESCRIBE|EXPLAIN)\b", re.IGNORECASE)
HOSTS = (
    "SELECT host, delay_ms, avg_ms, breaker, health, errors_24h, pages, requests,"
    " next_allowed_at, flags FROM hostdb ORDER BY pages DESC, host"
)
MOST_ROWS = 1000


class Engine(StrEnum):
    """Who answers a query."""

    LOCAL = "local"
    SPARK = "spark"
    DUCKDB = "duckdb"  # another name of local


def no_crawl(data: Place) -> ConfigError:
    """The error of a folder without a crawl."""
    return ConfigError(
        f"--data {data}: no crawl there (no tables/crawldb_log); run `crawlkit crawl` first"
    )


def ask_duckdb(data: Place, cfg: Config, query: str, limit: int) -> list[dict[str, Any]]:
    """Rows of a SELECT. Raises ConfigError, TableError."""
    tables = Crawl(data, cfg).plain_tables()
    if not tables.exists("crawldb_log"):
        raise no_crawl(data)
    try:
        made = {"cc_index": lambda: cc_table(Source(data, cfg))}
        return ask(tables, VIEWS, query, limit, made)
    except QueryError as e:
        raise ConfigError(f"SQL: {e}") from None


def ask_spark(
    data: Place, settings: Settings, query: str, limit: int, as_json: bool
) -> list[dict[str, Any]]:
    """Rows of a SELECT in a Spark session; settings: of a crawl on Spark. Raises ConfigError,
    TableError.
    """
    from crawlkit.cli.verbs.crawl import open_job
    from crawlkit.observe.sql_views import register_views

    with open_job(data, settings, as_json, only_look=True) as job:
        if not job.tables.exists("crawldb_log"):
            raise no_crawl(data)
        register_views(job)
        try:
            if not only_reads(job.spark, query):
                raise ConfigError("it returns no rows: give a SELECT")
            return [r.asDict() for r in job.spark.sql(query).limit(limit).collect()]
        except Exception as e:
            text = str(e).strip()
            is_java = text.startswith("An error occurred while calling")
            cause = first_cause(text) if is_java else text.partition("\n")[0]
            raise ConfigError(f"SQL: {cause:.400}") from None


def only_reads(spark: SparkSession, query: str) -> bool:
    """Whether a statement is a query or describes tables: Spark would write to any table of Delta,
    without our lock. Raises Spark's error of syntax.
    """
    from pyspark.errors import ParseException

    parser = spark._jsparkSession.sessionState().sqlParser()
    parser.parsePlan(query)
    if _DESCRIBES.match(query):
        return True
    try:
        parser.parsePlan(f"SELECT * FROM (\n{query}\n)")  # only a query may stand in brackets
    except ParseException:
        return False
    return True


@app.command()
@report_errors
def sql(
    query: Annotated[
        str, typer.Argument(help="A SELECT over the tables and views (docs/queries.md).")
    ],
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
    limit: Annotated[int, typer.Option(help="Rows at most.", min=1)] = MOST_ROWS,
    engine: Annotated[
        Optional[Engine],
        typer.Option(
            help=(
                "Who answers: local (or duckdb) does so in a second and starts no JVM; there"
                " `frontier` is crawldb. Default: spark for a crawl that Spark runs, else local."
            )
        ),
    ] = None,
) -> None:
    """Ask the tables by SQL.

    \b
    crawlkit sql "SELECT state, count(*) FROM frontier GROUP BY 1" --data site
    """
    settings = read_settings(data, config, set_, engine if engine == Engine.SPARK else None)
    cfg = settings.config
    by_spark = engine in (None, Engine.SPARK) and choose_engine(cfg) == Engine.SPARK
    rows = (
        ask_spark(data, settings, query, limit, as_json)
        if by_spark
        else ask_duckdb(data, cfg, query, limit)
    )
    emit({"rows": rows}, as_json, lambda v: rows_text(v["rows"]))


@app.command()
@report_errors
def hosts(
    data: Data = DEFAULT_DATA, config: ConfigFile = None, set_: Sets = None, as_json: AsJson = False
) -> None:
    """Hosts with their delay, health and pages."""
    rows = ask_duckdb(data, read_config(data, config, set_), HOSTS, MOST_ROWS)
    emit({"rows": rows}, as_json, lambda v: rows_text(v["rows"]))


@app.command()
@report_errors
def errors(
    data: Data = DEFAULT_DATA,
    host: Annotated[Optional[str], typer.Option("--host", help="Of this host alone.")] = None,
    reason: Annotated[
        Optional[str], typer.Option("--reason", help="With this reason alone, as http_404.")
    ] = None,
    round_id: RoundId = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Missing robots.txt files and sitemaps too.")
    ] = False,
    limit: Annotated[int, typer.Option(help="Rows at most.", min=1)] = 100,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Newest failures with their reasons, the pages that link there, and how many there are.

    \b
    crawlkit errors --data site --reason http_404 --limit 20
    """
    wanted = where_errors(host, reason, round_id, all_)
    cfg = read_config(data, config, set_)
    rows = ask_duckdb(data, cfg, ERRORS.format(wanted=wanted, limit=limit), limit)
    counts = ask_duckdb(data, cfg, ERROR_COUNTS.format(wanted=wanted), MOST_ROWS)
    emit({"rows": rows, "counts": counts}, as_json, _errors_text)


def _errors_text(v: dict[str, Any]) -> str:
    n = sum(c["n"] for c in v["counts"])
    by_reason = ", ".join(f"{c['reason'] or c['outcome']} {c['n']}" for c in v["counts"])
    shown = f" (the newest {len(v['rows'])} are shown; --limit shows more)"
    more = shown if len(v["rows"]) < n else ""
    return f"{rows_text(v['rows'])}\n{n} failures: {by_reason}{more}" if n else "no failures"
