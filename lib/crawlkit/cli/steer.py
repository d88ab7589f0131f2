"""Verbs that steer and see: commands of the operator, explain, metrics, alerts, fetch-one,
parse-one, serve.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from crawlkit.cli.app import DEFAULT_DATA, AsJson, ConfigFile, Data, Sets, actor, app, emit, guarded
from crawlkit.config import Config, ConfigError, load_config
from crawlkit.round.state import Place

command = typer.Typer(
    no_args_is_help=True,
    help="Tell a crawl what to do. Each order is a row of the table commands (docs/api.md).",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(command, name="command")
host = typer.Typer(no_args_is_help=True, help="The pace of single hosts.")
app.add_typer(host, name="host")

CommandId = Annotated[
    Optional[str],
    typer.Option(
        "--command-id", metavar="ID", help="Name of this command: the same name is done once."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check and tell, change nothing.")]
Urls = Annotated[list[str], typer.Argument(metavar="URL...")]
Priority = Annotated[
    Optional[str], typer.Option("--priority", help="0..3 or critical, high, normal, low.")
]
Reason = Annotated[
    str, typer.Option("--reason", help="Why; stands in commands and in what is told of the host.")
]
Name = Annotated[
    str,
    typer.Argument(
        metavar="HOST", help="Host name; with --domain a registered domain and all its hosts."
    ),
]
Domain = Annotated[bool, typer.Option("--domain", help="The name is a registered domain.")]
RoundName = Annotated[
    str, typer.Argument(metavar="ROUND", help="Name of the round (crawlkit status).")
]


def opened_crawl(data: Place, cfg: Config) -> Any:
    """The crawl of a folder. Raises ConfigError if there is none."""
    from crawlkit.round.state import Crawl

    crawl = Crawl(data, cfg)
    if "://" not in str(crawl.objects.root) and not Path(crawl.objects.root).is_dir():
        raise ConfigError(f"--data {data}: no crawl there; run `crawlkit crawl` first")
    crawl.check()
    return crawl


def _give(
    verb: str,
    given: dict[str, Any],
    data: Place,
    config: Path | None,
    sets: list[str] | None,
    as_json: bool,
    command_id: str | None,
    dry_run: bool,
) -> None:
    from crawlkit.control.commands import give
    from crawlkit.rules.frontier.command_rules import BadCommand

    def run() -> None:
        try:
            told = give(
                opened_crawl(data, load_config(config, tuple(sets or ()))),
                verb,
                given,
                actor=actor(),
                command_id=command_id,
                dry_run=dry_run,
                wait=True,
            )
        except BadCommand as e:
            raise ConfigError(str(e)) from None
        emit(told, as_json, _told)

    guarded(run)


def _told(t: dict[str, Any]) -> str:
    head = (
        f"{'would ' if t['dry_run'] else ''}{t['verb']} {t['target']}"
        + (" (done before)" if t["repeated"] else "")
        + (f": {t['state']}" if "state" in t else "")
    )
    if "queued" in t:
        head += f": {t['queued']} for the next round, {t['added']} of them new"
    return "\n".join(
        [
            head,
            *(f"  refused: {r['reason']}: {r['url']} {r['detail']}" for r in t["refused"]),
            f"command {t['command_id']}",
        ]
    )


def _both(name: str, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a verb as `crawlkit NAME` and as `crawlkit command NAME`."""

    def register(f: Callable[..., None]) -> Callable[..., None]:
        f.__doc__ = text
        app.command(name)(f)
        return command.command(name)(f)

    return register


@command.command("seeds")
def seeds(
    urls: Urls,
    data: Data = DEFAULT_DATA,
    priority: Priority = None,
    config: ConfigFile = None,
    set_: Sets = None,
    command_id: CommandId = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """New URLs, candidates of the next round; a seed file goes by `crawlkit inject`."""
    _give(
        "seeds",
        {"urls": urls, "priority": priority},
        data,
        config,
        set_,
        as_json,
        command_id,
        dry_run,
    )


@_both(
    "recrawl", "Fetch URLs again in the next round, whatever their schedule says; wakes dead ones."
)
def recrawl(
    urls: Urls,
    data: Data = DEFAULT_DATA,
    priority: Priority = None,
    config: ConfigFile = None,
    set_: Sets = None,
    command_id: CommandId = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    _give(
        "recrawl",
        {"urls": urls, "priority": priority},
        data,
        config,
        set_,
        as_json,
        command_id,
        dry_run,
    )


@_both("hint", "URLs that may have changed: known ones become due, new ones candidates.")
def hint(
    urls: Urls,
    data: Data = DEFAULT_DATA,
    priority: Priority = None,
    config: ConfigFile = None,
    set_: Sets = None,
    command_id: CommandId = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    _give(
        "hint",
        {"urls": urls, "priority": priority},
        data,
        config,
        set_,
        as_json,
        command_id,
        dry_run,
    )


@_both("boost", "Points (-100..100) added to the score of URLs, and with --priority another class.")
def boost(
    urls: Urls,
    points: Annotated[float, typer.Option("--points", help="Points.")],
    data: Data = DEFAULT_DATA,
    priority: Priority = None,
    config: ConfigFile = None,
    set_: Sets = None,
    command_id: CommandId = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    _give(
        "boost",
        {"urls": urls, "priority": priority, "boost": points},
        data,
        config,
        set_,
        as_json,
        command_id,
        dry_run,
    )


@_both("block", "Send nothing more to a host: running tasks stop within 10 s.")
def block(
    name: Name,
    domain: Domain = False,
    reason: Reason = "",
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    command_id: CommandId = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    _give(
        "block",
        {"domain" if domain else "host": name, "reason": reason},
        data,
        config,
        set_,
        as_json,
        command_id,
        dry_run,
    )


@_both("unblock", "Allow a blocked host again.")
def unblock(
    name: Name,
    domain: Domain = False,
    reason: Reason = "",
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    command_id: CommandId = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    _give(
        "unblock",
        {"domain" if domain else "host": name, "reason": reason},
        data,
        config,
        set_,
        as_json,
        command_id,
        dry_run,
    )


@_both(
    "complain",
    "Record a complaint about a host: it is blocked (or slowed) before its next request, and an"
    " alert fires.",
)
def complain(
    name: Name,
    domain: Domain = False,
    reason: Reason = "",
    action: Annotated[str, typer.Option("--action", help="block or slow.")] = "block",
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    command_id: CommandId = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    _give(
        "complain",
        {"domain" if domain else "host": name, "reason": reason, "action": action},
        data,
        config,
        set_,
        as_json,
        command_id,
        dry_run,
    )


def _host_set(
    name: Annotated[str, typer.Argument(metavar="HOST")],
    delay_s: Annotated[
        Optional[float], typer.Option("--delay-s", help="Gap between requests, s.")
    ] = None,
    parallel: Annotated[int, typer.Option("--parallel", help="Requests at once.")] = 1,
    quota_max: Annotated[Optional[int], typer.Option("--quota-max", help="Pages a day.")] = None,
    cycle_quota_max: Annotated[
        Optional[int],
        typer.Option("--cycle-quota-max", help="Pages a cycle (politeness.cycle_days)."),
    ] = None,
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    command_id: CommandId = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Set a host's pace; what is left out is as configured."""
    _give(
        "host_set",
        {
            "host": name,
            "delay_s": delay_s,
            "parallel": parallel,
            "quota_max": quota_max,
            "cycle_quota_max": cycle_quota_max,
        },
        data,
        config,
        set_,
        as_json,
        command_id,
        dry_run,
    )


host.command("set")(_host_set)
command.command("host-set")(_host_set)


def _round_verb(verb: str, text: str) -> None:
    def run(
        round_id: RoundName,
        data: Data = DEFAULT_DATA,
        config: ConfigFile = None,
        set_: Sets = None,
        command_id: CommandId = None,
        dry_run: DryRun = False,
        as_json: AsJson = False,
    ) -> None:
        _give(verb, {"round_id": round_id}, data, config, set_, as_json, command_id, dry_run)

    _both(verb, text)(run)


_round_verb(
    "pause", "Hold a round: its tasks send nothing more within 10 s, and no further stage starts."
)
_round_verb("resume", "Let a paused round go on.")
_round_verb(
    "abandon", "End an open round: its tasks stop, what it has not committed is due as before."
)


@app.command()
def explain(
    url: str,
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Everything known of a URL: canonical form, scope, robots line, host, schedule, captures,
    duplicates, and why it was not fetched.
    """
    from crawlkit.observe.explain import explain as run
    from crawlkit.observe.explain import explain_text

    guarded(
        lambda: emit(
            run(opened_crawl(data, load_config(config, tuple(set_ or ()))), url),
            as_json,
            explain_text,
        )
    )


@app.command()
def metrics(data: Data = DEFAULT_DATA, config: ConfigFile = None, set_: Sets = None) -> None:
    """The newest round's metrics and the alerts as Prometheus text."""
    from crawlkit.observe.metrics import current_text

    guarded(
        lambda: print(
            current_text(opened_crawl(data, load_config(config, tuple(set_ or ())))), end=""
        )
    )


@app.command()
def alerts(
    data: Data = DEFAULT_DATA, config: ConfigFile = None, set_: Sets = None, as_json: AsJson = False
) -> None:
    """The alert rules over the newest round (docs/alerts.md). Exit 1 if one fires."""
    from crawlkit.observe.metrics import alerts_now

    def run() -> None:
        round_id, found = alerts_now(opened_crawl(data, load_config(config, tuple(set_ or ()))))
        emit({"round_id": round_id, "alerts": [a._asdict() for a in found]}, as_json, _alerts_text)
        if any(a.state == "firing" for a in found):
            raise typer.Exit(1)

    guarded(run)


def _alerts_text(v: dict[str, Any]) -> str:
    out = [f"after round {v['round_id'] or '(none yet)'}"]
    for a in v["alerts"]:
        value = (
            ""
            if a["value"] is None
            else f" {a['metric']} is {a['value']:g}, fires {a['fires']} {a['threshold']:g}"
        )
        out.append(
            f"{a['state']:<8} {a['severity']:<8}"
            f" {a['name']}:"
            f"{value or ' not measured' + (', needs ' + a['needs'] if a['needs'] else '')}"
        )
    return "\n".join(out)


@app.command("fetch-one")
def fetch_one(
    url: str,
    data: Annotated[
        Optional[str],
        typer.Option(
            "--data", metavar="DIR", help="A crawl whose pace, robots and stop list hold."
        ),
    ] = None,
    out: Annotated[
        Optional[Path], typer.Option("--out", metavar="FILE", help="Write the stored payload here.")
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Fetch one URL as a round would: guard, robots.txt, pace. Exit 1 if it was not fetched."""
    from crawlkit.observe.single_url import fetch_one as run

    def go() -> None:
        cfg = load_config(config, tuple(set_ or ()))
        got = run(url, cfg, opened_crawl(data, cfg) if data else None)
        if out is not None:
            out.write_bytes(got.payload)
        emit(
            got.summary(),
            as_json,
            lambda v: "\n".join(
                [
                    f"{v['url']}: {v['outcome']} {v['status'] or ''} {v['reason'] or ''}"
                    f" {v['detail'] or ''}".rstrip(),
                    *(f"{k}: {x}" for k, x in v["headers"]),
                    f"({v['body_bytes'] or 0} bytes)",
                ]
            ),
        )
        if got.capture.outcome not in ("fetched", "redirected", "not_modified"):
            raise typer.Exit(1)

    guarded(go)


@app.command("parse-one")
def parse_one(
    source: Annotated[
        str,
        typer.Argument(metavar="FILE|URL", help="A stored body, or a URL that is fetched first."),
    ],
    url: Annotated[Optional[str], typer.Option(help="The file's address, for its links.")] = None,
    content_type: Annotated[
        Optional[str],
        typer.Option(
            "--content-type", help="Media type (default: by the file's ending, then by its bytes)."
        ),
    ] = None,
    data: Annotated[
        Optional[str],
        typer.Option(
            "--data", metavar="DIR", help="A crawl whose pace, robots and stop list hold."
        ),
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Read one page as the parse stage does: title, text, links, robots directives."""
    from crawlkit.observe.single_url import read_and_parse

    def go() -> None:
        cfg = load_config(config, tuple(set_ or ()))
        found = read_and_parse(
            source, cfg, opened_crawl(data, cfg) if data else None, url, content_type
        )
        emit(
            found,
            as_json,
            lambda v: "\n".join(
                [
                    (
                        f"{v['url']} ({v['kind']}, {v['charset'] or 'no charset'},"
                        f" {v['language'] or 'language not told'})"
                    ),
                    f"title: {v['title'] or ''}",
                    f"robots: {', '.join(v['robots']) or 'none'}",
                    "",
                    v["main_text"] or v["text"],
                    "",
                    *(
                        f"{link['kind']}: {link['url']}"
                        + (f" (not followed: {link['refused']})" if link["refused"] else "")
                        for link in v["links"]
                    ),
                ]
            ),
        )

    guarded(go)


@app.command()
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
    from crawlkit.control.serve import run

    guarded(
        lambda: run(
            data,
            load_config(config, tuple(set_ or ())),
            host,
            port,
            lambda text: print(text, file=sys.stderr, flush=True),
        )
    )


@command.command("list")
def commands_(
    data: Data = DEFAULT_DATA,
    limit: Annotated[int, typer.Option(min=1, help="Newest so many.")] = 50,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """What was ordered, newest first."""
    from crawlkit.control.commands import COLUMNS, plain_tables

    def run() -> None:
        rows = plain_tables(opened_crawl(data, load_config(config, tuple(set_ or ())))).rows(
            "commands", COLUMNS
        )
        newest = sorted(rows, key=lambda r: (-r["at"], r["command_id"]))[:limit]
        emit(
            {"commands": newest},
            as_json,
            lambda v: "\n".join(json.dumps(r) for r in v["commands"]) or "(none)",
        )

    guarded(run)
