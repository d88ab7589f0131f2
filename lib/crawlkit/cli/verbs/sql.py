"""Verbs that ask the tables by SQL: sql, hosts, errors."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import pyarrow as pa
import typer

from crawlkit.adapters.lake.delta import Tables
from crawlkit.adapters.lake.duckdb_reader import QueryError, ask, connect, lock, stream
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
from crawlkit.cli.settings import read_config, read_settings, tell
from crawlkit.config.layers import Settings
from crawlkit.config.section import ConfigError
from crawlkit.config.whole import Config
from crawlkit.crawl.state import Crawl, Place
from crawlkit.exports.cc_index import cc_table
from crawlkit.exports.files import atomic
from crawlkit.exports.row_files import FORMS, Limited, lines, plain_rows, write_rows
from crawlkit.exports.source import Source
from crawlkit.observe.error_queries import ERROR_COUNTS, ERRORS, where_errors
from crawlkit.observe.views import RELATIONS, VIEWS
from crawlkit.outcomes import REMEDIES
from crawlkit.runtime.spark_errors import first_cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DESCRIBES = re.compile(r"\s*(SHOW|DESC|DESCRIBE|EXPLAIN)\b", re.IGNORECASE)
HOSTS = (
    "SELECT host, delay_ms, avg_ms, breaker, health, errors_24h, pages, requests,"
    " next_allowed_at, flags FROM hostdb ORDER BY pages DESC, host"
)
MOST_ROWS = 1000


class Form(StrEnum):
    """How rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSONL = "jsonl"
    JSON = "json"
    PARQUET = "parquet"


class Engine(StrEnum):
    """Who answers a query."""

    LOCAL = "local"
    SPARK = "spark"
    DUCKDB = "duckdb"  # another name of local


ByEngine = Annotated[
    Engine,
    typer.Option(
        help=(
            "Who answers: local (or duckdb) does so in a second and starts no JVM; there"
            " `frontier` is crawldb. spark: for tables beyond one machine."
        )
    ),
]
Limit = Annotated[
    Optional[int],
    typer.Option(
        help=f"Rows at most (default: {MOST_ROWS} of what is printed, all with --out).", min=1
    ),
]


def no_crawl(data: Place) -> ConfigError:
    """The error of a folder without a crawl."""
    return ConfigError(
        f"--data {data}: no crawl there (no tables/crawldb_log); run `crawlkit crawl` first"
    )


def ask_duckdb(data: Place, cfg: Config, query: str, limit: int) -> list[dict[str, Any]]:
    """Rows of a SELECT. Raises ConfigError, TableError."""
    with _as_sql():
        return ask(_tables(data, cfg), VIEWS, query, limit, _made(data, cfg))


def stream_duckdb(data: Place, cfg: Config, query: str) -> Iterator[pa.RecordBatch]:
    """All rows of a SELECT in batches. Raises ConfigError, TableError."""
    with _as_sql(), connect(_tables(data, cfg), VIEWS, query, _made(data, cfg)) as db:
        lock(db)
        yield from stream(db, query)


def _tables(data: Place, cfg: Config) -> Tables:
    tables = Crawl(data, cfg).plain_tables()
    if not tables.exists("crawldb_log") and not tables.exists("captures"):
        raise no_crawl(data)
    return tables


def _made(data: Place, cfg: Config) -> dict[str, Callable[[], pa.Table]]:
    return {"cc_index": lambda: cc_table(Source(data, cfg))}


@contextlib.contextmanager
def _as_sql() -> Iterator[None]:
    try:
        yield
    except QueryError as e:
        is_unknown = "Table with name" in str(e)
        there = f" There are: {', '.join(sorted(RELATIONS))}" if is_unknown else ""
        raise ConfigError(f"SQL: {e}{there}") from None


def stream_spark(
    data: Place, settings: Settings, query: str, limit: int | None, as_json: bool
) -> Iterator[pa.RecordBatch]:
    """Rows of a SELECT in a Spark session, with a row more than `limit` if there is one.

    settings: of a crawl on Spark. Raises ConfigError, TableError.
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
            found = job.spark.sql(query)
            table = (found if limit is None else found.limit(limit + 1)).toArrow()
        except Exception as e:
            text = str(e).strip()
            is_java = text.startswith("An error occurred while calling")
            cause = first_cause(text) if is_java else text.partition("\n")[0]
            raise ConfigError(f"SQL: {cause:.400}") from None
    yield from table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]


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
    form: Annotated[
        Optional[Form],
        typer.Option(
            "--format", help="Default: table; with --out what the file's name ends with, else csv."
        ),
    ] = None,
    out: Annotated[
        Optional[Path], typer.Option("--out", metavar="FILE", help="Write the rows there.")
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
    limit: Limit = None,
    engine: ByEngine = Engine.LOCAL,
) -> None:
    """Ask the tables by SQL.

    \b
    crawlkit sql "SELECT state, count(*) FROM frontier GROUP BY 1" --data site
    crawlkit sql "SELECT url, title FROM latest_page" --data site --out pages.csv
    crawlkit sql "SELECT * FROM errors" --data site --format jsonl --limit 50
    """
    form = Form.JSON if as_json else form or _form_of(out)
    if form == Form.PARQUET and out is None:
        raise ConfigError("--format parquet: give --out FILE")
    most = MOST_ROWS if limit is None and out is None else limit
    settings = read_settings(data, config, set_, engine if engine == Engine.SPARK else None)
    rows = Limited(
        stream_spark(data, settings, query, most, as_json)
        if engine == Engine.SPARK
        else stream_duckdb(data, settings.config, query),
        most,
    )
    _write(rows, form, out)


def _write(rows: Limited, form: Form, out: Path | None) -> None:
    """The answer, on standard output or in a file; what was cut is told."""
    if out is None:
        _print(rows, form)
    elif form in FORMS:
        write_rows(rows, form, out)
    else:
        with atomic(out, "w") as f:
            f.writelines(_whole(rows, form))
    if rows.more:
        tell(f"{rows.rows} of more rows shown: --limit")
    if out is not None:
        tell(f"{rows.rows} rows in {out}")


def _form_of(out: Path | None) -> Form:
    """The form that no --format names."""
    if out is None:
        return Form.TABLE
    ending = out.suffix.removeprefix(".").lower()
    return Form(ending) if ending in {*Form} else Form.CSV


def _print(rows: Limited, form: Form) -> None:
    sys.stdout.writelines(lines(rows, form) if form in FORMS else _whole(rows, form))


def _whole(rows: Limited, form: Form) -> Iterator[str]:
    """The answer as one text: a table, or a JSON object."""
    found = [row for batch in rows for row in plain_rows(batch)]
    yield (json.dumps({"rows": found}) if form == Form.JSON else rows_text(found)) + "\n"


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
    word = "failure" if n == 1 else "failures"
    more = shown if len(v["rows"]) < n else ""
    reasons = {c["reason"] for c in v["counts"]}
    hints = "".join(f"\nhint: {r}: {text}" for r, text in REMEDIES.items() if r in reasons)
    return f"{rows_text(v['rows'])}\n{n} {word}: {by_reason}{more}{hints}" if n else "no failures"
