"""Verbs beside the rounds: `crawlkit rebuild`, `crawlkit purge`, `crawlkit import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from crawlkit.cli.app import (
    DEFAULT_DATA,
    AsJson,
    ConfigFile,
    Data,
    Now,
    Sets,
    actor,
    app,
    emit,
    guarded,
    parse_now,
)
from crawlkit.cli.steer import opened_crawl
from crawlkit.config import ConfigError, load_config


@app.command()
def rebuild(
    data: Data = DEFAULT_DATA,
    from_warc: Annotated[
        bool,
        typer.Option(
            "--from-warc", help="Only the WARC files are left: make all tables and the state again."
        ),
    ] = False,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Make crawldb again: from captures, pages and links, or with --from-warc the whole crawl from its WARC files.

    \b
    crawlkit rebuild --data site
    crawlkit rebuild --from-warc --data saved
    """
    from crawlkit.round.progress import Progress
    from crawlkit.upkeep.rebuild import rebuild_command, rebuild_text

    guarded(
        lambda: emit(
            rebuild_command(
                data, load_config(config, tuple(set_ or ())), from_warc, Progress(as_json)
            ),
            as_json,
            rebuild_text,
        )
    )


@app.command()
def purge(
    name: Annotated[
        str,
        typer.Argument(
            metavar="HOST|URL",
            help=(
                "Host name; with --domain a registered domain and all its hosts; with --url one"
                " URL."
            ),
        ),
    ],
    domain: Annotated[
        bool, typer.Option("--domain", help="The name is a registered domain.")
    ] = False,
    url: Annotated[bool, typer.Option("--url", help="The name is a URL.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; stands in commands.")] = "",
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell how much there is, change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove what was stored of a host, a domain or a URL from tables and WARC files; a host or domain is blocked first.

    \b
    crawlkit purge site.example --reason 'asked to' --data site
    crawlkit purge --url https://site.example/me --data site
    """
    from crawlkit.round.drive import opened
    from crawlkit.rules.frontier.command_rules import BadCommand
    from crawlkit.upkeep.purge import purge as run
    from crawlkit.upkeep.purge import purge_text

    def go() -> None:
        if domain and url:
            raise ConfigError("--domain and --url: give one of them")
        opened_crawl(data, load_config(config, tuple(set_ or ())))
        with opened(data, config, tuple(set_ or ()), as_json) as job:
            try:
                done = run(
                    job,
                    "url" if url else "domain" if domain else "host",
                    name,
                    reason,
                    actor(),
                    dry_run,
                )
            except BadCommand as e:
                raise ConfigError(str(e)) from None
            emit(done, as_json, purge_text)

    guarded(go)


@app.command("import")
def import_(
    form: Annotated[
        str,
        typer.Argument(
            metavar="FORM", help="urls, cdxj, tranco, heritrix, nutch, cc-index, or ranks."
        ),
    ],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The list, gzip or not; cc-index: a Parquet file or a folder of them.",
        ),
    ],
    data: Data = DEFAULT_DATA,
    priority: Annotated[
        str, typer.Option("--priority", help="0..3 or critical, high, normal, low.")
    ] = "normal",
    hint: Annotated[
        bool,
        typer.Option("--hint", help="A list of what may have changed: known URLs are due at once."),
    ] = False,
    name: Annotated[
        Optional[str],
        typer.Option(
            "--name",
            help=(
                "ranks: name of the list (default: that of the file); the one of this name is"
                " replaced."
            ),
        ),
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Take URLs from other tools' lists into the frontier, or with `ranks` a list RANK,DOMAIN into the quality of hosts.

    \b
    crawlkit import cdxj index.cdxj.gz --data site
    crawlkit import cc-index cc-index/table/part-00000.parquet --priority low --data site
    crawlkit import ranks tranco.csv --data site
    """
    from crawlkit.round.drive import opened
    from crawlkit.rules.frontier.priority import parse_priority
    from crawlkit.rules.url.seed_lists import FORMS
    from crawlkit.upkeep.import_lists import PARQUET, import_file, import_ranks, import_text

    def go() -> None:
        if form not in (*FORMS, PARQUET, "ranks"):
            raise ConfigError(
                f"import {form!r:.40}: expected {', '.join((*FORMS, PARQUET))} or ranks"
            )
        try:
            cls = parse_priority(priority)
        except ValueError as e:
            raise ConfigError(f"--priority: {e}") from None
        with opened(data, config, tuple(set_ or ()), as_json) as job:
            job.crawl.repair()
            emit(
                (
                    import_ranks(job, file, name or file.name)
                    if form == "ranks"
                    else import_file(job, form, file, parse_now(now), cls, hint)
                ),
                as_json,
                import_text,
            )

    guarded(go)
