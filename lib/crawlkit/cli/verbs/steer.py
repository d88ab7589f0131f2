"""Verbs that steer: the operator's commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from crawlkit.cli.errors import guard, report_errors
from crawlkit.cli.root import DEFAULT_DATA, HELP, AsJson, ConfigFile, Data, Sets, app, emit
from crawlkit.cli.settings import actor, read_config
from crawlkit.cli.url_options import Urls
from crawlkit.control.commands import run_command
from crawlkit.crawl.state import Place, find_crawl
from crawlkit.rules.frontier.command_rules import COLUMNS

command = typer.Typer(
    no_args_is_help=True,
    help="Tell a crawl what to do. Each order is a row of the table commands (docs/api.md).",
    context_settings=HELP,
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
Priority = Annotated[
    Optional[str], typer.Option("--priority", help="0..3 or critical, high, normal, low.")
]
Reason = Annotated[
    str, typer.Option("--reason", help="Why; kept in commands and shown with the host.")
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


def _send(
    verb: str,
    given: dict[str, Any],
    data: Place,
    config: Path | None,
    sets: list[str] | None,
    as_json: bool,
    command_id: str | None,
    dry_run: bool,
) -> None:
    done = guard(
        lambda: run_command(
            find_crawl(data, read_config(data, config, sets)),
            verb,
            given,
            actor=actor(),
            command_id=command_id,
            dry_run=dry_run,
            wait=True,
        )
    )
    emit(done, as_json, _command_text)


def _command_text(t: dict[str, Any]) -> str:
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


def _both(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a verb as `crawlkit NAME` and as `crawlkit command NAME`."""

    def register(f: Callable[..., None]) -> Callable[..., None]:
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
    _send(
        "seeds",
        {"urls": urls, "priority": priority},
        data,
        config,
        set_,
        as_json,
        command_id,
        dry_run,
    )


@_both("recrawl")
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
    """Fetch URLs again in the next round, whatever their schedule says; wakes dead ones."""
    _send(
        "recrawl",
        {"urls": urls, "priority": priority},
        data,
        config,
        set_,
        as_json,
        command_id,
        dry_run,
    )


@_both("hint")
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
    """URLs that may have changed: known ones become due, new ones candidates."""
    _send(
        "hint",
        {"urls": urls, "priority": priority},
        data,
        config,
        set_,
        as_json,
        command_id,
        dry_run,
    )


@_both("boost")
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
    """Points (-100..100) added to the score of URLs, and with --priority another class."""
    _send(
        "boost",
        {"urls": urls, "priority": priority, "boost": points},
        data,
        config,
        set_,
        as_json,
        command_id,
        dry_run,
    )


@_both("block")
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
    """Send nothing more to a host: running tasks stop within 10 s."""
    _send(
        "block",
        {"domain" if domain else "host": name, "reason": reason},
        data,
        config,
        set_,
        as_json,
        command_id,
        dry_run,
    )


@_both("unblock")
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
    """Allow a blocked host again."""
    _send(
        "unblock",
        {"domain" if domain else "host": name, "reason": reason},
        data,
        config,
        set_,
        as_json,
        command_id,
        dry_run,
    )


@_both("complain")
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
    """Record a complaint about a host: it is blocked (or slowed) before its next request, and an
    alert fires.
    """
    _send(
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
    exempt: Annotated[
        bool, typer.Option("--exempt", help="An own site: no delay, no quota; robots.txt holds.")
    ] = False,
    weight: Annotated[
        Optional[float], typer.Option("--weight", help="Scores of its pages are multiplied by it.")
    ] = None,
    recrawl: Annotated[
        Optional[str],
        typer.Option("--recrawl", help="minutes, hours, days, weeks or manual (only if forced)."),
    ] = None,
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    command_id: CommandId = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Set a host's pace, weight, and how often its pages are fetched again; what is left out is
    as configured.
    """
    _send(
        "host_set",
        {
            "host": name,
            "delay_s": delay_s,
            "parallel": parallel,
            "quota_max": quota_max,
            "cycle_quota_max": cycle_quota_max,
            "exempt": exempt,
            "recrawl": recrawl,
            "weight": weight,
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
        _send(verb, {"round_id": round_id}, data, config, set_, as_json, command_id, dry_run)

    run.__doc__ = text
    _both(verb)(run)


_round_verb(
    "pause", "Hold a round: its tasks send nothing more within 10 s, and no further stage starts."
)
_round_verb("resume", "Let a paused round go on.")
_round_verb(
    "abandon", "End an open round: its tasks stop, what it has not committed is due as before."
)


@command.command("list")
@report_errors
def list_commands(
    data: Data = DEFAULT_DATA,
    limit: Annotated[int, typer.Option(min=1, help="Newest so many.")] = 50,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """The commands given so far, newest first."""
    rows = (
        find_crawl(data, read_config(data, config, set_)).plain_tables().rows("commands", COLUMNS)
    )
    newest = sorted(rows, key=lambda r: (-r["at"], r["command_id"]))[:limit]
    emit({"commands": newest}, as_json, _list_text)


def _list_text(v: dict[str, Any]) -> str:
    return "\n".join(json.dumps(r) for r in v["commands"]) or "(none)"
