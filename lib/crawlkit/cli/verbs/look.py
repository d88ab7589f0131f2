"""Verbs that look at a crawl without Spark: open, status, diff, params, metrics,
alerts.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Optional

import typer

from crawlkit.cli.errors import report_errors
from crawlkit.cli.root import (
    DEFAULT_DATA,
    AsJson,
    ConfigFile,
    Data,
    Now,
    RoundId,
    Sets,
    app,
    emit,
    rows_text,
)
from crawlkit.cli.settings import actor, parse_now, read_config, read_settings
from crawlkit.cli.url_options import Url
from crawlkit.config.section import ConfigError
from crawlkit.control.param_rules import change_rule, list_rules
from crawlkit.crawl.kept_settings import keep_settings
from crawlkit.crawl.next_round import next_round
from crawlkit.crawl.open_crawl import check_tables
from crawlkit.crawl.state import Crawl, find_crawl
from crawlkit.observe.diff import diff as compare, write_page
from crawlkit.observe.explain import explain as explain_url
from crawlkit.observe.explain_text import explain_text
from crawlkit.observe.status import read_status, status_text
from crawlkit.report.metrics import alerts_now, current_text


@app.command("open")
@report_errors
def open_(
    data: Data = DEFAULT_DATA,
    round_id: RoundId = None,
    resume: Annotated[
        Optional[str],
        typer.Option(
            "--resume",
            metavar="PREFIX",
            help=(
                "Rather go on with the oldest open round whose name starts so, if nobody drives it."
            ),
        ),
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Open a round of that name, or find it; starts no JVM. Its name goes to the stages as
    --round-id.

    crawlkit open --data site --round-id nightly-42 --resume nightly-
    """
    at = parse_now(now)
    settings = read_settings(data, config, set_)
    crawl = Crawl(data, settings.config)
    crawl.check()
    if settings.kept is None:
        keep_settings(data, settings)
    check_tables(crawl, crawl.plain_tables())
    round_ = next_round(crawl, at, round_id, resume)
    answer = {
        "round_id": round_.id,
        "state": round_.state,
        "resumed": round_id not in (None, round_.id),
    }
    emit(answer, as_json, lambda v: f"round {v['round_id']}: {v['state']}")


@app.command()
@report_errors
def status(
    data: Data = DEFAULT_DATA,
    round_id: RoundId = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Rounds, known URLs by state, what is due (reads the tables without Spark)."""
    emit(read_status(data, read_config(data, config, set_), round_id), as_json, status_text)


@app.command()
@report_errors
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
    crawl = Crawl(data, read_config(data, config, set_))
    rows = compare(crawl, before, after)
    answer = {"rows": rows, "page": write_page(crawl, before, after, rows)}
    emit(answer, as_json, _diff_text)


def _diff_text(v: dict[str, Any]) -> str:
    names = ("before", "after", "change")
    rows = [{**r, **{name: f"{r[name]:,.0f}" for name in names}} for r in v["rows"]]
    return f"{rows_text(rows)}\npage: {v['page']}"


@app.command()
@report_errors
def params(
    accept: Annotated[
        Optional[list[str]], typer.Option("--accept", metavar="HOST:NAME", help="Put it in force.")
    ] = None,
    take_back: Annotated[
        Optional[list[str]], typer.Option("--take-back", metavar="HOST:NAME", help="End it.")
    ] = None,
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Query parameters that hosts' own pages say do not matter, with the evidence; accepted ones
    are removed from the host's URLs.

    A rule that is accepted stands in urls.host_params of the crawl's crawl.yaml and holds from the
    next command on; taken back, it ends likewise.

    crawlkit params --data DIR
    crawlkit params --accept shop.example:ref --data DIR
    """
    crawl = Crawl(data, read_config(data, config, set_))
    for is_accepted, given in ((True, accept), (False, take_back)):
        for rule in given or ():
            host, colon, name = rule.rpartition(":")
            if not colon:
                raise ConfigError(f"{rule!r:.80}: expected HOST:NAME")
            change_rule(crawl, host, name, is_accepted, actor())
    rows = list_rules(crawl)
    rules: dict[str, list[str]] = {}
    for r in rows:
        rules.setdefault(r["host"], []).append(r["name"])
    emit({"rows": rows, "host_params": rules}, as_json, _params_text)


def _params_text(v: dict[str, Any]) -> str:
    if not v["rows"]:
        return "no parameter is proposed"
    table = rows_text([{**r, "examples": " ".join(r["examples"][:1])} for r in v["rows"]])
    rules = [
        f"    {host}: [{', '.join(map(json.dumps, names))}]"
        for host, names in v["host_params"].items()
    ]
    return "\n".join([table, "", "urls:", "  host_params:", *rules])


@app.command()
@report_errors
def metrics(data: Data = DEFAULT_DATA, config: ConfigFile = None, set_: Sets = None) -> None:
    """The newest round's metrics and the alerts as Prometheus text."""
    print(current_text(find_crawl(data, read_config(data, config, set_))), end="")


@app.command()
@report_errors
def alerts(
    data: Data = DEFAULT_DATA, config: ConfigFile = None, set_: Sets = None, as_json: AsJson = False
) -> None:
    """The alert rules over the newest round (docs/alerts.md). Exit 1 if one fires."""
    round_id, found = alerts_now(find_crawl(data, read_config(data, config, set_)))
    emit({"round_id": round_id, "alerts": [a._asdict() for a in found]}, as_json, _alerts_text)
    if any(a.state == "firing" for a in found):
        raise typer.Exit(1)


def _alerts_text(v: dict[str, Any]) -> str:
    lines = [f"after round {v['round_id'] or '(none yet)'}"]
    for a in v["alerts"]:
        if a["value"] is None:
            value = " not measured" + (f", needs {a['needs']}" if a["needs"] else "")
        else:
            value = f" {a['metric']} is {a['value']:g}, fires {a['fires']} {a['threshold']:g}"
        lines.append(f"{a['state']:<8} {a['severity']:<8} {a['name']}:{value}")
    return "\n".join(lines)


@app.command()
@report_errors
def explain(
    url: Url,
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Everything known of a URL: canonical form, scope, robots line, host, schedule, captures,
    duplicates, and why it was not fetched.

    Exit 2 if it is no URL that can be crawled.
    """
    crawl = find_crawl(data, read_config(data, config, set_))
    found = explain_url(crawl, url)
    emit(found, as_json, explain_text)
    if "refused" in found:
        raise typer.Exit(2)
