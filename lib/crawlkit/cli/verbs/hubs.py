"""Verbs about WebSub: subscribe, list, renew, unsubscribe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Annotated, Any, Optional

import typer

from crawlkit.cli.errors import report_errors
from crawlkit.cli.root import (
    DEFAULT_DATA,
    HELP,
    AsJson,
    ConfigFile,
    Data,
    Sets,
    app,
    emit,
    rows_text,
)
from crawlkit.cli.settings import read_config
from crawlkit.config.section import ConfigError
from crawlkit.control.serve import token_of
from crawlkit.control.websub import Hubs, Topic, find_topics, subscriptions
from crawlkit.crawl.state import Crawl, Place, find_crawl
from crawlkit.rules.feeds.subscription import LEASE_S, MAX_LEASE_S, Subscription

websub = typer.Typer(
    no_args_is_help=True,
    help="Subscribe to feeds at the hubs that they name: what changes is told, not polled for.",
    context_settings=HELP,
)
app.add_typer(websub, name="websub")

Topics = Annotated[
    Optional[list[str]],
    typer.Argument(metavar="TOPIC...", help="Feeds: the topic, or the URL that names it."),
]
All = Annotated[bool, typer.Option("--all", help="All of them.")]
_SHOWN = ("topic", "hub", "state", "pending", "ends_at", "taken", "ignored", "reason")


def _table(answer: dict[str, Any]) -> str:
    def shown(name: str, value: Any) -> Any:
        is_time = name == "ends_at" and value is not None
        return time.strftime("%Y-%m-%d %H:%M", time.gmtime(value)) if is_time else value

    rows = answer["subscriptions"]
    rows = [{k: shown(k, r[k]) for k in _SHOWN} for r in rows]
    left = [f"to subscribe to: {t['topic']} at {t['hub']}" for t in answer.get("topics", ())]
    return "\n".join([rows_text(rows), *left])


def _ask(crawl: Crawl, todo: Callable[[Hubs], Iterable[Subscription]], as_json: bool) -> None:
    """Send requests, tell what came of them; exit code 1 if a hub refused one."""
    hubs = Hubs(crawl, crawl.cfg, token_of(crawl.cfg))
    with crawl.hubs_lock():
        done = list(todo(hubs))
    emit({"subscriptions": [asdict(s) for s in done]}, as_json, _table)
    if any(s.reason for s in done):
        raise typer.Exit(1)


def _open(data: Place, config: Any, sets: list[str] | None) -> Crawl:
    return find_crawl(data, read_config(data, config, sets))


@websub.command("subscribe")
@report_errors
def subscribe(
    topics: Topics = None,
    every: All = False,
    lease_s: Annotated[
        int, typer.Option("--lease-s", min=60, max=int(MAX_LEASE_S), help="Lease asked for, s.")
    ] = LEASE_S,
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Ask hubs to tell of stored feeds; what is subscribed to already is not asked for again.

    `crawlkit serve` has to be reached at control.public_url: the hub asks back there.
    """
    crawl = _open(data, config, set_)
    found = find_topics(crawl)
    chosen = found if every else _choose(topics or [], found)
    active = [s for s in subscriptions(crawl) if s.state == "active"]
    has = {(s.topic, s.hub) for s in active if not s.is_due(time.time())}
    wanted = [t for t in chosen if (t.topic, t.hub) not in has]
    _ask(crawl, lambda hubs: (hubs.subscribe(t, lease_s) for t in wanted), as_json)


def _choose(given: list[str], found: list[Topic]) -> list[Topic]:
    """The topics that are named. Raises ConfigError."""
    if not given:
        raise ConfigError("name topics, or give --all; `crawlkit websub list` shows them")
    chosen = []
    for name in given:
        of_name = [t for t in found if name in (t.topic, t.named_by)]
        if not of_name:
            raise ConfigError(
                f"{name:.200}: no stored feed of this name has a hub (`crawlkit websub list`)"
            )
        chosen += of_name
    return chosen


@websub.command("list")
@report_errors
def list_(
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Subscriptions, and topics of stored feeds that one could subscribe to."""
    crawl = _open(data, config, set_)
    now = subscriptions(crawl)
    topics = [t._asdict() for t in find_topics(crawl) if t.topic not in {s.topic for s in now}]
    emit({"subscriptions": [asdict(s) for s in now], "topics": topics}, as_json, _table)


@websub.command("renew")
@report_errors
def renew(
    every: All = False,
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Renew leases of which less than a third is left, and ask again what was not verified.

    To be run daily. --all: every one, as after a change of the API's token or public address.
    """
    crawl = _open(data, config, set_)
    due = [s for s in subscriptions(crawl) if s.is_due(time.time()) or (every and not s.is_over)]
    _ask(crawl, lambda hubs: (hubs.ask(s, "subscribe") for s in due), as_json)


@websub.command("unsubscribe")
@report_errors
def unsubscribe(
    topics: Topics = None,
    every: All = False,
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Ask hubs to tell no more; over once the hub has asked back."""
    crawl = _open(data, config, set_)
    now = [s for s in subscriptions(crawl) if not s.is_over]
    known = {name: s for s in now for name in (s.feed, s.topic)}
    if missing := [t for t in topics or () if t not in known]:
        raise ConfigError(f"{missing[0]:.200}: not subscribed to (`crawlkit websub list`)")
    wanted = now if every else list({known[t].id: known[t] for t in topics or ()}.values())
    _ask(crawl, lambda hubs: (hubs.ask(s, "unsubscribe") for s in wanted), as_json)
