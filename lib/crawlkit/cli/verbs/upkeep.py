"""Verbs beside the rounds: rebuild, reparse, rebucket, purge, import, audit, reconcile, serve."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from crawlkit.cli.errors import report_errors
from crawlkit.cli.root import (
    DEFAULT_DATA,
    AsJson,
    ConfigFile,
    Data,
    EngineName,
    Now,
    RoundId,
    Sets,
    app,
    emit,
)
from crawlkit.cli.settings import actor, parse_now, read_config, read_settings, tell
from crawlkit.cli.verbs.crawl import open_job
from crawlkit.config.layers import Settings
from crawlkit.config.section import ConfigError
from crawlkit.control.serve import run as serve_api
from crawlkit.crawl.state import find_crawl
from crawlkit.exports.source import Source
from crawlkit.report.audit import audit as audit_requests
from crawlkit.round.progress import Progress
from crawlkit.round.start import set_scope
from crawlkit.rules.frontier.priority import parse_priority
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.url.seed_lists import FORMS
from crawlkit.rules.url.seeds import with_scheme
from crawlkit.upkeep.imports.import_lists import (
    PARQUET,
    import_file,
    import_ranks,
    import_text,
    listed_urls,
)
from crawlkit.upkeep.imports.import_warc import check_scope, import_warc, import_warc_text
from crawlkit.upkeep.purge import purge as purge_stored, purge_text
from crawlkit.upkeep.rebucket import rebucket_command, rebucket_text
from crawlkit.upkeep.rebuild import rebuild_command, rebuild_text
from crawlkit.upkeep.reconcile import reconcile as compare, reconcile_text
from crawlkit.upkeep.reparse import reparse as read_again, reparse_text

Form = Annotated[
    str,
    typer.Argument(
        metavar="FORM", help="urls, cdxj, tranco, heritrix, nutch, cc-index, ranks, or warc."
    ),
]
ListFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="The list, gzip or not; cc-index: a Parquet file or a folder of them; warc: WARC"
        " files.",
    ),
]
ImportScope = Annotated[
    Optional[str],
    typer.Option(
        "--scope",
        metavar="KIND",
        help=(
            "What the URLs of a list put into scope: their domain (where there is no scope yet),"
            " host, prefix or any. warc: any: records are taken whatever the scope says."
        ),
    ),
]
ListName = Annotated[
    Optional[str],
    typer.Option(
        "--name",
        help="ranks: name of the list (default: that of the file); the one of this name is "
        "replaced.",
    ),
]


@app.command()
@report_errors
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
    engine: EngineName = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild crawldb from captures, pages and links, or with --from-warc the whole crawl from its
    WARC files.

    \b
    crawlkit rebuild --data site
    crawlkit rebuild --from-warc --data saved
    """
    done = rebuild_command(
        data, read_config(data, config, set_, engine), from_warc, Progress(as_json)
    )
    emit(done, as_json, rebuild_text)


@app.command()
@report_errors
def rebucket(
    buckets: Annotated[
        int, typer.Argument(metavar="N", min=1, max=65_536, help="Host buckets, a power of two.")
    ],
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    engine: EngineName = None,
    as_json: AsJson = False,
) -> None:
    """Change the number of host buckets between two rounds; from then on frontier.buckets must say
    the same.

    \b
    crawlkit rebucket 16 --data site
    """
    done = rebucket_command(
        buckets, data, read_config(data, config, set_, engine), Progress(as_json)
    )
    emit(done, as_json, rebucket_text)


@app.command()
@report_errors
def reparse(
    rounds: Annotated[
        Optional[list[str]], typer.Argument(metavar="[ROUND]...", help="Closed rounds; none: all.")
    ] = None,
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    engine: EngineName = None,
    as_json: AsJson = False,
) -> None:
    """Read stored pages of closed rounds again, by the parser of today; nothing is fetched."""
    settings = read_settings(data, config, set_, engine)
    find_crawl(data, settings.config)
    with open_job(data, settings, as_json) as job:
        done = read_again(job, rounds or ())
    emit(done, as_json, reparse_text)


@app.command()
@report_errors
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
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in commands.")] = "",
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    engine: EngineName = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell how much there is, change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove what was stored of a host, a domain or a URL from tables and WARC files; a host or
    domain is blocked first.

    \b
    crawlkit purge site.example --reason 'asked to' --data site
    crawlkit purge --url https://site.example/me --data site
    """
    if domain and url:
        raise ConfigError("--domain and --url: give one of them")
    kind = "url" if url else "domain" if domain else "host"
    settings = read_settings(data, config, set_, engine)
    find_crawl(data, settings.config)
    with open_job(data, settings, as_json) as job:
        target = with_scheme(name) if url else name
        done = purge_stored(job, kind, target, reason, actor(), dry_run)
    emit(done, as_json, purge_text)


@app.command("import")
@report_errors
def import_(
    form: Form,
    files: ListFiles,
    data: Data = DEFAULT_DATA,
    priority: Annotated[
        str, typer.Option("--priority", help="0..3 or critical, high, normal, low.")
    ] = "normal",
    hint: Annotated[
        bool,
        typer.Option("--hint", help="A list of what may have changed: known URLs are due at once."),
    ] = False,
    name: ListName = None,
    scope: ImportScope = None,
    config: ConfigFile = None,
    set_: Sets = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Take URLs from other tools' lists into the frontier, with `ranks` a list RANK,DOMAIN into the
    quality of hosts, with `warc` the pages of other tools' WARC files.

    \b
    crawlkit import cdxj index.cdxj.gz --data site
    crawlkit import cc-index cc-index/table/part-00000.parquet --priority low --data site
    crawlkit import ranks tranco.csv --data site
    crawlkit import warc wget.warc.gz heritrix-*.warc.gz --data site
    """
    _check_import(form, files, hint, scope)
    try:
        priority_class = parse_priority(priority)
    except ValueError as e:
        raise ConfigError(f"--priority: {e}") from None
    settings, at = read_settings(data, config, set_), parse_now(now)
    if form == "warc":
        check_scope(settings.config, scope is not None)
    elif form != "ranks":
        settings = _scope_of_list(settings, form, files[0], scope)
    with open_job(data, settings, as_json) as job:
        job.crawl.repair()
        if form == "warc":
            done = import_warc(job, files, at, scope is not None, priority_class)
        elif form == "ranks":
            done = import_ranks(job, files[0], name or files[0].name)
        else:
            done = import_file(job, form, files[0], at, priority_class, hint)
    emit(done, as_json, import_warc_text if form == "warc" else import_text)


def _scope_of_list(settings: Settings, form: str, path: Path, kind: str | None) -> Settings:
    """The settings with the scope that a list stands for, where there is none yet (or with
    --scope), which is told. Raises ConfigError.
    """
    before = settings.config.scope
    settings = set_scope(
        settings, listed_urls(form, path, UrlPolicy.of(settings.config.urls)), kind, tell
    )
    after = settings.config.scope
    if not (before.hosts or before.domains or before.prefixes or before == after):
        names = [*after.hosts, *after.domains, *after.prefixes] or ["the whole web"]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        tell(f"in scope from now on, by {path}: {', '.join(names[:3])}{more}")
    return settings


def _check_import(form: str, files: list[Path], hint: bool, scope: str | None) -> None:
    """Raises ConfigError."""
    known = (*FORMS, PARQUET, "ranks")
    if form not in (*known, "warc"):
        raise ConfigError(f"import {form!r:.40}: expected {', '.join(known)} or warc")
    if form != "warc" and len(files) > 1:
        raise ConfigError(f"import {form}: one file at a time")
    if scope is not None and (form == "ranks" or (form == "warc" and scope != "any")):
        raise ConfigError(f"--scope {scope:.40}: not of `import {form}` (warc: only any)")
    if hint and form == "warc":
        raise ConfigError("--hint: of lists; a WARC file says when its pages were fetched")


@app.command()
@report_errors
def audit(
    data: Data = DEFAULT_DATA,
    round_id: RoundId = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Prove from the tables that no request was disallowed or too early. Exit 1 if one was."""
    settings = read_settings(data, config, set_)
    with open_job(data, settings, as_json, only_look=True) as job:
        found = audit_requests(job, round_id)
    emit(found, as_json, _audit_text)
    if found["violations"]:
        raise typer.Exit(1)


def _audit_text(v: dict[str, Any]) -> str:
    lines = [
        f"{v['requests']} requests: {v['violations']} violations (disallowed "
        f"{v['disallowed']}, host"
        f" {v['host']}, domain {v['domain']}, address {v['address']})"
    ]
    lines += [
        f"  {e['kind']} {e['key']}: {e['url']} gap {e['gap_s']:.3f} s, required"
        f" {e['required_s']:.3f} s"
        for e in v["examples"]
    ]
    return "\n".join(lines)


@app.command()
@report_errors
def reconcile(
    data: Data = DEFAULT_DATA, config: ConfigFile = None, set_: Sets = None, as_json: AsJson = False
) -> None:
    """Compare tables and WARC files record by record. Exit 1 if they differ.

    \b
    crawlkit reconcile --data site
    """
    found = compare(Source(data, read_config(data, config, set_)))
    emit(found, as_json, reconcile_text)
    if not found["ok"]:
        raise typer.Exit(1)


@app.command()
@report_errors
def serve(
    data: Data = DEFAULT_DATA,
    host: Annotated[
        Optional[str], typer.Option("--host", help="Address to listen on (default: control.host).")
    ] = None,
    port: Annotated[
        Optional[int],
        typer.Option("--port", min=0, max=65535, help="Port (default: control.port)."),
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
) -> None:
    """The control API and its status page (docs/api.md).

    Needs a token: control.token, CRAWLKIT_TOKEN by default.
    """

    def log(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    serve_api(data, read_config(data, config, set_), host, port, log)
