"""Verbs that show what a crawl is doing: log, queues and freshness."""

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
    Now,
    Sets,
    app,
    emit,
    rows_text,
)
from crawlkit.cli.settings import parse_now, read_config
from crawlkit.crawl.fetch_progress import clock_text
from crawlkit.crawl.log_reader import follow_log, read_log
from crawlkit.crawl.state import find_crawl
from crawlkit.observe.queues import read_queues
from crawlkit.report.freshness import read_freshness

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


@app.command()
@report_errors
def freshness(
    data: Data = DEFAULT_DATA,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Late pages at most.")] = 20,
    config: ConfigFile = None,
    set_: Sets = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """How the promises of freshness are kept: share, worst lag, pages that are late."""
    crawl = find_crawl(data, read_config(data, config, set_))
    at = None if now is None else parse_now(now)
    emit(read_freshness(crawl, at, limit), as_json, _freshness_text)


def _freshness_text(v: dict[str, Any]) -> str:
    promises = [
        {
            "promise": p["promise"],
            "within": _span(p["within_s"]),
            "pages": p["pages"],
            "kept": "-" if p["kept"] is None else f"{100 * p['kept']:.2f} %",
            "late": p["late"],
            "worst_lag": _span(p["worst_lag_s"]),
        }
        for p in v["promises"]
    ]
    late = [
        {"late_page": p["url"], "promise": p["promise"], "lag": _span(p["lag_s"])}
        for p in v["late"]
    ]
    return rows_text(promises) + (f"\n\n{rows_text(late)}" if late else "\nno page is late")


def _span(seconds: float) -> str:
    return f"{seconds / 86_400:.1f} d" if seconds >= 2 * 86_400 else f"{seconds / 3600:.1f} h"
