"""Verbs that look: status, hosts, errors, sql, audit, and the checkers that need no tables."""

from __future__ import annotations

import json
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from crawlkit.cli.app import (
    DEFAULT_DATA,
    AsJson,
    ConfigFile,
    Data,
    RoundId,
    Sets,
    app,
    emit,
    guarded,
)
from crawlkit.config import ConfigError, load_config
from crawlkit.round.state import Crawl, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TELLS = re.compile(r"\s*(SHOW|DESC|DESCRIBE|EXPLAIN)\b", re.IGNORECASE)


def _rows(value: list[dict[str, Any]]) -> str:
    """Rows as a plain text table."""
    if not value:
        return "(no rows)"
    names = list(value[0])
    cells = [
        [
            (
                ""
                if r[n] is None
                else r[n].hex()
                if isinstance(r[n], bytes | bytearray)
                else str(r[n])
            )[:120]
            for n in names
        ]
        for r in value
    ]
    width = [max(len(n), *(len(c[i]) for c in cells)) for i, n in enumerate(names)]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(row, width, strict=True)).rstrip()
        for row in [names, ["-" * w for w in width], *cells]
    )


class Engine(StrEnum):
    """Who answers a query."""

    SPARK = "spark"
    DUCKDB = "duckdb"


def _sql(
    data: Place,
    config: Path | None,
    sets: list[str] | None,
    query: str,
    as_json: bool,
    limit: int = 1000,
    engine: Engine = Engine.DUCKDB,
) -> None:
    rows = (_by_spark if engine == Engine.SPARK else _by_duckdb)(
        data, config, tuple(sets or ()), query, as_json, limit
    )
    emit({"rows": rows}, as_json, lambda v: _rows(v["rows"]))


def _no_crawl(data: Place) -> ConfigError:
    return ConfigError(
        f"--data {data}: no crawl there (no tables/crawldb_log); run `crawlkit crawl` first"
    )


def _by_duckdb(
    data: Place, config: Path | None, sets: tuple[str, ...], query: str, as_json: bool, limit: int
) -> list[dict[str, Any]]:
    from crawlkit.adapters.lake.duckdb_reader import QueryError, ask
    from crawlkit.control.commands import plain_tables
    from crawlkit.observe.sql_views import VIEWS

    tables = plain_tables(Crawl(data, load_config(config, sets)))
    if not tables.exists("crawldb_log"):
        raise _no_crawl(data)
    try:
        return ask(tables, VIEWS, query, limit)
    except QueryError as e:
        raise ConfigError(f"SQL: {e}") from None


def _by_spark(
    data: Place, config: Path | None, sets: tuple[str, ...], query: str, as_json: bool, limit: int
) -> list[dict[str, Any]]:
    from crawlkit.observe.sql_views import register_views
    from crawlkit.round.drive import opened
    from crawlkit.runtime.session import first_cause

    with opened(data, config, sets, as_json) as job:
        if not job.tables.exists("crawldb_log"):
            raise _no_crawl(data)
        register_views(job)
        try:
            if not _only_reads(job.spark, query):
                raise ConfigError("it returns no rows: give a SELECT")
            return [r.asDict() for r in job.spark.sql(query).limit(limit).collect()]
        except Exception as e:
            text = str(e).strip()
            raise ConfigError(
                "SQL:"
                f" "
                f"{first_cause(text) if text.startswith('An error occurred while calling') else text.partition(chr(10))[0]:.400}"
            ) from None


def _only_reads(spark: "SparkSession", query: str) -> bool:
    """Whether a statement is a query or tells of tables: Spark would write to any table of Delta,
    without our lock. Raises Spark's error of syntax.
    """
    from pyspark.errors import ParseException

    parser = spark._jsparkSession.sessionState().sqlParser()
    parser.parsePlan(query)
    if _TELLS.match(query):
        return True
    try:
        parser.parsePlan(f"SELECT * FROM (\n{query}\n)")  # only a query may stand in brackets
    except ParseException:
        return False
    return True


@app.command()
def sql(
    query: Annotated[
        str, typer.Argument(help="A SELECT over the tables and views (docs/queries.md).")
    ],
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
    limit: Annotated[int, typer.Option(help="Rows at most.", min=1)] = 1000,
    engine: Annotated[
        Engine,
        typer.Option(
            help=(
                "duckdb answers in a second and starts no JVM; there `frontier` is crawldb, and"
                " cc_index is missing."
            )
        ),
    ] = Engine.SPARK,
) -> None:
    """Ask the tables: crawlkit sql "SELECT state, count(*) FROM frontier GROUP BY 1" --engine
    duckdb.
    """
    guarded(lambda: _sql(data, config, set_, query, as_json, limit, engine))


@app.command()
def hosts(
    data: Data = DEFAULT_DATA, config: ConfigFile = None, set_: Sets = None, as_json: AsJson = False
) -> None:
    """Hosts with their delay, health and pages."""
    guarded(
        lambda: _sql(
            data,
            config,
            set_,
            "SELECT host, delay_ms, avg_ms, breaker, health, errors_24h, pages, requests,"
            " next_allowed_at, flags FROM hostdb ORDER BY pages DESC, host",
            as_json,
        )
    )


@app.command()
def errors(
    data: Data = DEFAULT_DATA, config: ConfigFile = None, set_: Sets = None, as_json: AsJson = False
) -> None:
    """Newest failures with their reasons."""
    guarded(
        lambda: _sql(
            data,
            config,
            set_,
            "SELECT round_id, url, outcome, reason, status, detail FROM errors ORDER BY round_id"
            " DESC, url",
            as_json,
        )
    )


@app.command()
def diff(
    before: Annotated[str, typer.Argument(help="Id of a round.")],
    after: Annotated[str, typer.Argument(help="Id of another.")],
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """What two rounds brought, side by side, with a page beside the report: crawlkit diff r000001
    r000002 --data DIR.
    """
    from crawlkit.observe.diff import diff as compare
    from crawlkit.observe.diff import write_page

    def run() -> dict[str, Any]:
        crawl = Crawl(data, load_config(config, tuple(set_ or ())))
        rows = compare(crawl, before, after)
        return {"rows": rows, "page": write_page(crawl, before, after, rows)}

    emit(
        guarded(run),
        as_json,
        lambda v: (
            _rows(
                [
                    {**r, **{k: f"{r[k]:,.0f}" for k in ("before", "after", "change")}}
                    for r in v["rows"]
                ]
            )
            + f"\npage: {v['page']}"
        ),
    )


@app.command()
def status(
    data: Data = DEFAULT_DATA,
    round_id: RoundId = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Rounds, known URLs by state, what is due (reads the tables without Spark)."""
    from crawlkit.observe.status import read_status, status_text

    guarded(
        lambda: emit(
            read_status(data, load_config(config, tuple(set_ or ())), round_id),
            as_json,
            status_text,
        )
    )


@app.command()
def audit(
    data: Data = DEFAULT_DATA,
    round_id: RoundId = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Prove from the tables that no request was disallowed or too early. Exit 1 if one was."""
    from crawlkit.observe.audit import audit as run_audit
    from crawlkit.round.drive import opened

    def run() -> None:
        with opened(data, config, tuple(set_ or ()), as_json) as job:
            found = run_audit(job, round_id)
        emit(
            found,
            as_json,
            lambda v: (
                f"{v['requests']} requests: {v['violations']} violations (disallowed"
                f" {v['disallowed']}, host {v['host']}, domain {v['domain']}, address"
                f" {v['address']})"
                + "".join(
                    f"\n  {e['kind']} {e['key']}: {e['url']} gap {e['gap_s']:.3f} s, required"
                    f" {e['required_s']:.3f} s"
                    for e in v["examples"]
                )
            ),
        )
        if found["violations"]:
            raise typer.Exit(1)

    guarded(run)


@app.command()
def normalize(
    urls: Annotated[
        Optional[list[str]], typer.Argument(help="URLs (none: standard input, one a line).")
    ] = None,
    base: Annotated[Optional[str], typer.Option(help="Base URL.")] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """The canonical form of URLs. Exit 2 if one is refused."""
    from crawlkit.outcomes import Refused
    from crawlkit.rules.url.canonical import UrlPolicy, canonicalize

    def run() -> None:
        policy, refused = UrlPolicy.of(load_config(config, tuple(set_ or ())).urls), False
        for url in urls or (line.rstrip("\r\n") for line in sys.stdin):
            try:
                row = {"url": url, "canonical": canonicalize(url, base, policy)}
            except Refused as e:
                refused, row = True, {"url": url, "refused": str(e.reason), "detail": e.detail}
            emit(
                row,
                as_json,
                lambda v: v.get("canonical") or f"refused: {v['refused']} {v['detail']}",
            )
        if refused:
            raise typer.Exit(2)

    guarded(run)


@app.command("scope-test")
def scope_test(
    url: str,
    depth: Annotated[int, typer.Option(help="Depth of the URL.")] = 0,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Whether the scope lets a URL in, and which rule does not. Exit 1 if refused."""
    import time

    from crawlkit.rules.url.canonical import UrlPolicy, canonicalize
    from crawlkit.rules.url.scope import Scope, scope_reason

    def run() -> None:
        cfg = load_config(config, tuple(set_ or ()))
        canonical = canonicalize(url, policy=UrlPolicy.of(cfg.urls))
        reason = scope_reason(canonical, depth, Scope.of(cfg.scope), time.gmtime().tm_year)
        emit(
            {"url": canonical, "in_scope": reason is None, "reason": reason},
            as_json,
            lambda v: f"{v['url']}: {'in scope' if v['in_scope'] else 'refused: ' + v['reason']}",
        )
        if reason:
            raise typer.Exit(1)

    guarded(run)


@app.command()
def robots(
    file: Annotated[Path, typer.Argument(help="A robots.txt file.")],
    url: Annotated[str, typer.Argument(help="The URL to be judged.")],
    agent: Annotated[
        Optional[str], typer.Option(help="Product token (default: agent.name).")
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Whether a robots.txt allows a URL, and which line decides. Exit 1 if not."""
    from crawlkit.rules.robots.parser import is_product_token, parse
    from crawlkit.rules.url.canonical import as_sent

    def run() -> None:
        cfg = load_config(config, tuple(set_ or ()))
        if agent and (" " in agent or not is_product_token(agent.partition("/")[0])):
            raise ConfigError(
                f"--agent {agent!r:.80}: give the product token alone (letters, _ and -), for"
                " example mybot"
            )
        found = parse(file.read_bytes(), cfg.robots.max_bytes)
        m = found.match(
            agent or cfg.agent.name,
            url if url.startswith("/") or "://" not in url else as_sent(url),
        )
        row = {
            "url": url,
            "allowed": m.allowed,
            "line_no": m.line_no,
            "line": m.line,
            "group": m.group,
            "crawl_delay_s": found.crawl_delay_s(agent or cfg.agent.name),
            "sitemaps": list(found.sitemaps),
        }
        emit(
            row,
            as_json,
            lambda v: (
                f"{'allowed' if v['allowed'] else 'disallowed'}"
                + (
                    f" by line {v['line_no']}: {v['line']}"
                    if v["line_no"]
                    else " (no rule matches)"
                )
            ),
        )
        if not m.allowed:
            raise typer.Exit(1)

    guarded(run)


@app.command("config")
def config_(config: ConfigFile = None, set_: Sets = None) -> None:
    """The configuration in force, as JSON."""
    guarded(
        lambda: print(
            json.dumps(
                load_config(config, tuple(set_ or ())).model_dump(by_alias=True),
                indent=1,
                default=str,
            )
        )
    )


@app.command()
def params(
    data: Data = DEFAULT_DATA, config: ConfigFile = None, set_: Sets = None, as_json: AsJson = False
) -> None:
    """Query parameters that hosts' own pages say do not matter, with the evidence and the lines to
    put into the configuration.

    Nothing is changed: a rule is in force from the round after it stands in urls.host_params, and
    no longer once it is taken out.

    crawlkit params --data DIR
    """
    from crawlkit.control.commands import plain_tables
    from crawlkit.round.state import Crawl
    from crawlkit.tables import TABLES

    def run() -> dict[str, Any]:
        rows = sorted(
            plain_tables(Crawl(data, load_config(config, tuple(set_ or ())))).rows(
                "param_rules", TABLES["param_rules"].column_names
            ),
            key=lambda r: (r["host"], r["name"]),
        )
        rules: dict[str, list[str]] = {}
        for r in rows:
            rules.setdefault(r["host"], []).append(r["name"])
        return {"rows": rows, "host_params": rules}

    def text(v: dict[str, Any]) -> str:
        if not v["rows"]:
            return "no parameter is proposed"
        lines = [
            "",
            "urls:",
            "  host_params:",
            *(
                f"    {host}: [{', '.join(map(json.dumps, names))}]"
                for host, names in v["host_params"].items()
            ),
        ]
        return (
            _rows([{**r, "examples": " ".join(r["examples"][:1])} for r in v["rows"]])
            + "\n"
            + "\n".join(lines)
        )

    emit(guarded(run), as_json, text)
