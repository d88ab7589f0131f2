"""Verbs that show what a crawl is doing: log and queues."""

from __future__ import annotations

import time
from typing import Annotated, Any, Optional

import typer

from crawlkit.cli.errors import report_errors
from crawlkit.cli.root import (
    DEFAULT_DATA,
    AsJson,
    ConfigFile,
    Data,
    Sets,
    app,
    emit,
    rows_text,
)
from crawlkit.cli.settings import read_config
from crawlkit.crawl.fetch_progress import clock_text
from crawlkit.crawl.log_reader import follow_log, read_log
from crawlkit.crawl.state import find_crawl
from crawlkit.observe.queues import read_queues

OfRound = Annotated[
    Optional[str], typer.Option("--round-id", metavar="ID", help="Of this round alone.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Hosts at most.")]


@app.command()
@report_errors
def log(
    data: Data = DEFAULT_DATA,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is fetched from now on.")
    ] = False,
    round_id: OfRound = None,
    host: Annotated[Optional[str], typer.Option("--host", help="Of this host alone.")] = None,
    config: ConfigFile = None,
    set_: Sets = None,
) -> None:
    """One line a request, also while a fetch runs (the columns of Heritrix's crawl.log): time,
    status, bytes, URL, kind:depth, media type, slot, start+ms, outcome.

    \b
    crawlkit log --data site -f
    crawlkit log --data site --round-id r000002 --host site.example
    """
    crawl = find_crawl(data, read_config(data, config, set_))
    if round_id is not None:
        crawl.round(round_id)  # must be there
    lines = follow_log(crawl, round_id) if follow else read_log(crawl, round_id)
    of_host = None if host is None else f"//{host.lower()}"
    for line in lines:
        if of_host is None or f"{line.split(' ', 4)[3]}/".partition(of_host)[2][:1] in ("/", ":"):
            print(line, flush=follow)


@app.command()
@report_errors
def queues(
    data: Data = DEFAULT_DATA,
    host: Annotated[Optional[str], typer.Option("--host", help="This host alone.")] = None,
    limit: Limit = 20,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """The longest queues: URLs by host, its delay and what sets it, when it may be asked next, and
    why not before.
    """
    crawl = find_crawl(data, read_config(data, config, set_))
    emit({"queues": read_queues(crawl, limit, host)}, as_json, _queues_text)


def _when(at: float | None, now: float) -> str:
    """A time of today as 12:01:05 UTC, another one with its day."""
    if at is None:
        return "-"
    day, today = (time.strftime("%Y-%m-%d", time.gmtime(t)) for t in (at, now))
    return clock_text(at) if day == today else f"{day} {clock_text(at)}"


def _queues_text(v: dict[str, Any]) -> str:
    now = time.time()
    return rows_text(
        [
            {
                **{name: q[name] for name in ("host", "due", "waiting", "fetching")},
                "delay": f"{q['delay_s']:g} s",
                "set_by": q["set_by"],
                "next": _when(q["next_at"], now),
                "reason": q["reason"],
            }
            for q in v["queues"]
        ]
    )
