"""`crawlkit export ...`: files for other tools, read from tables and WARC files without Spark."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from crawlkit.cli.errors import report_errors
from crawlkit.cli.root import (
    DEFAULT_DATA,
    HELP,
    AsJson,
    ConfigFile,
    Data,
    Now,
    RoundId,
    Sets,
    app,
    emit,
    to_json,
)
from crawlkit.cli.settings import parse_now, read_config
from crawlkit.cli.verbs.sql import stream_duckdb
from crawlkit.config.section import ConfigError
from crawlkit.exports.cc_index import export_cc_index
from crawlkit.exports.cdxj import export_cdxj, index_warcs
from crawlkit.exports.lists import (
    export_hostgraph,
    export_pages,
    export_pages_by_host,
    export_urls,
)
from crawlkit.exports.row_files import write_rows
from crawlkit.exports.source import Source
from crawlkit.exports.wacz import export_wacz
from crawlkit.exports.wet import export_wat, export_wet
from crawlkit.observe.views import RELATIONS

export = typer.Typer(
    no_args_is_help=True,
    help=(
        "Write files that other tools read: csv, jsonl, parquet, cdxj, wet, wat, wacz, urls, pages,"
        " hostgraph, cc-index."
    ),
    context_settings=HELP,
)
app.add_typer(export, name="export")
Out = Annotated[
    Optional[Path],
    typer.Option(
        "--out",
        metavar="PATH",
        help=(
            "Where to write (default: below DIR/export). What is there is replaced once the new is"
            " whole."
        ),
    ),
]


def _out(data: str, out: Path | None, name: str) -> Path:
    """Where an export goes. Raises ConfigError."""
    if out is None and "://" in data:
        raise ConfigError(f"--data {data}: exports are written to local files: give --out PATH")
    if out is not None and re.match(r"[a-z0-9]+:/", str(out)):  # as Path writes s3://
        raise ConfigError(
            f"--out {out}: exports are written to local files (`cc-index` alone goes to S3): give a"
            " path, and copy what is there"
        )
    if out == Path("-"):
        raise ConfigError(
            "--out -: an export is a file: name it, or let `crawlkit sql --format` write rows to"
            " standard output"
        )
    return out or Path(data, "export", name)


def _run(
    data: str,
    config: Path | None,
    sets: list[str] | None,
    as_json: bool,
    work: Callable[[Source], dict[str, Any]],
) -> None:
    _emit(work(Source(data, read_config(data, config, sets))), as_json)


def _emit(done: dict[str, Any], as_json: bool) -> None:
    """Print what was done; exit code 1 if records are damaged."""
    emit(done, as_json, to_json)
    if done.get("damaged"):
        raise typer.Exit(1)


@app.command("cdxj")
@export.command("cdxj")
@report_errors
def cdxj(
    data: Data = DEFAULT_DATA,
    out: Out = None,
    round_id: RoundId = None,
    warc: Annotated[
        Optional[list[Path]],
        typer.Option("--warc", metavar="FILE", help="Index these WARC files instead of a crawl."),
    ] = None,
    zipnum: Annotated[
        int,
        typer.Option(
            "--zipnum",
            metavar="LINES",
            min=0,
            help="Write gzip blocks of so many lines and cluster.idx into the folder PATH.",
        ),
    ] = 0,
    more: Annotated[
        bool,
        typer.Option(
            "--more", help="Also the fields redirect and truncated of Common Crawl's index."
        ),
    ] = False,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """The sorted CDXJ index of the stored records.

    Of --warc files damaged records are left out and counted; it ends with 1 then.

    \b
    crawlkit export cdxj --data site --out index.cdxj
    crawlkit export cdxj --data site --out cdx --zipnum 3000
    crawlkit export cdxj --warc one.warc.gz --warc two.warc.gz --out index.cdxj
    """
    name = "cdx" if zipnum else "index.cdxj"
    if warc:
        _emit(index_warcs(warc, _out(data, out, name), zipnum), as_json)
    else:
        _run(
            data,
            config,
            set_,
            as_json,
            lambda s: export_cdxj(
                s, _out(data, out, name), round_id=round_id, block_lines=zipnum, more=more
            ),
        )


@export.command("wet")
@report_errors
def wet(
    data: Data = DEFAULT_DATA,
    out: Out = None,
    round_id: RoundId = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """The visible text of the pages as WET files, one a round.

    \b
    crawlkit export wet --data site --out wet/
    """
    _run(data, config, set_, as_json, lambda s: export_wet(s, _out(data, out, "wet"), round_id))


@export.command("wat")
@report_errors
def wat(
    data: Data = DEFAULT_DATA,
    out: Out = None,
    round_id: RoundId = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """The metadata of the records (headers, titles, links) as WAT files, one for each WARC file.

    \b
    crawlkit export wat --data site --out wat/
    """
    _run(data, config, set_, as_json, lambda s: export_wat(s, _out(data, out, "wat"), round_id))


@export.command("wacz")
@report_errors
def wacz(
    data: Data = DEFAULT_DATA,
    out: Out = None,
    round_id: RoundId = None,
    title: Annotated[str, typer.Option(help="Title of the collection (default: crawl.id).")] = "",
    text: Annotated[
        bool, typer.Option("--text", help="Put the pages' text into the pages list.")
    ] = False,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """One WACZ file: WARC files, index and pages, for replay in a browser. It ends with 1 if a
    WARC file was cut: what is lost is left out of the index and counted.

    \b
    crawlkit export wacz --data site --out site.wacz --title "My site"
    """
    _run(
        data,
        config,
        set_,
        as_json,
        lambda s: export_wacz(
            s,
            _out(data, out, f"{s.cfg.crawl.id}.wacz"),
            title=title,
            round_id=round_id,
            with_text=text,
        ),
    )


@export.command("urls")
@report_errors
def urls(
    data: Data = DEFAULT_DATA,
    out: Out = None,
    now: Now = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """The daily snapshot of all known URLs: PATH/date=YYYY-MM-DD/urls.parquet (date: --now).

    \b
    crawlkit export urls --data site --out snapshots/
    """
    _run(
        data,
        config,
        set_,
        as_json,
        lambda s: export_urls(
            s, _out(data, out, "urls"), time.strftime("%Y-%m-%d", time.gmtime(parse_now(now)))
        ),
    )


def add_form(form: str, text: str) -> None:
    """Register `crawlkit export FORM`: rows of a table or of a query as a file of that form."""

    def command(
        table: Annotated[
            Optional[str],
            typer.Argument(metavar="[TABLE]", help="pages, captures, links, frontier, errors ..."),
        ] = None,
        query: Annotated[
            Optional[str], typer.Option("--query", metavar="SQL", help="A SELECT in its place.")
        ] = None,
        data: Data = DEFAULT_DATA,
        out: Out = None,
        config: ConfigFile = None,
        set_: Sets = None,
        as_json: AsJson = False,
    ) -> None:
        if (table is None) == (query is None):
            raise ConfigError("give the name of a table, or --query SQL")
        if table is not None and table not in RELATIONS:
            raise ConfigError(f"no table {table!r:.60}: there are {', '.join(sorted(RELATIONS))}")
        sql = query or f'SELECT * FROM "{table}"'
        path = _out(data, out, f"{table or 'query'}.{form}")
        rows = stream_duckdb(data, read_config(data, config, set_), sql)
        emit({"file": str(path), "rows": write_rows(rows, form, path)}, as_json, to_json)

    example = f"crawlkit export {form} pages --data site --out pages.{form}"
    asked = f'crawlkit export {form} --query "SELECT url, status FROM captures" --data site'
    command.__doc__ = f"{text}\n\n\b\n{example}\n{asked}"
    export.command(form)(report_errors(command))


add_form("csv", "Rows of a table, a view or a query as CSV.")
add_form("jsonl", "Rows of a table, a view or a query as JSON Lines.")
add_form("parquet", "Rows of a table, a view or a query as a Parquet file.")


def add_export(
    name: str, write: Callable[[Source, Path], dict[str, Any]], file_name: str, text: str
) -> None:
    """Register `crawlkit export NAME`.

    Args:
        write: writes the export of a crawl to a path; the command's answer.
        file_name: default place, below DIR/export.
        text: the help, one sentence.
    """

    def command(
        data: Data = DEFAULT_DATA,
        out: Out = None,
        config: ConfigFile = None,
        set_: Sets = None,
        as_json: AsJson = False,
    ) -> None:
        _run(data, config, set_, as_json, lambda s: write(s, _out(data, out, file_name)))

    example = f"crawlkit export {name} --data site --out {file_name}"
    command.__doc__ = f"{text}\n\n\b\n{example}"
    export.command(name)(report_errors(command))


# Exports without options of their own:
add_export(
    "pages",
    export_pages,
    "pages.jsonl",
    "An indexer's feed, JSON lines: each canonical page with its text and its aliases.",
)
add_export(
    "pages-by-host",
    export_pages_by_host,
    "pages-by-host",
    "The pages of `export pages` as JSON by day and host: YYYY-MM-DD/HOST.json.",
)
add_export(
    "hostgraph", export_hostgraph, "hostgraph", "The host graph: vertices.txt.gz and edges.txt.gz."
)


@export.command("cc-index")
@report_errors
def cc_index(
    data: Data = DEFAULT_DATA,
    out: Annotated[
        Optional[str],
        typer.Option(
            "--out",
            metavar="PLACE",
            help="Folder or s3://bucket/prefix of the Delta table (default: DIR/export/cc_index).",
        ),
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """An index with Common Crawl's columns as a Delta table, partitioned by crawl and subset.

    \b
    crawlkit export cc-index --data site --out s3://bucket/cc_index
    """
    _run(
        data,
        config,
        set_,
        as_json,
        lambda s: export_cc_index(s, out or f"{s.crawl.data}/export/cc_index"),
    )
