"""Verbs about a URL or a setting: normalize, scope-test, robots, config."""

from __future__ import annotations

import json
import sys
import time
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated, Any, Optional

import typer

from crawlkit.cli.errors import report_errors
from crawlkit.cli.root import (
    AsJson,
    ConfigFile,
    OfCrawl,
    Save,
    Sets,
    app,
    emit,
)
from crawlkit.cli.settings import read_config, read_settings
from crawlkit.cli.url_options import Url
from crawlkit.config.layers import DEFAULT, describe
from crawlkit.config.section import ConfigError
from crawlkit.crawl.kept_settings import keep_settings
from crawlkit.outcomes import Refused
from crawlkit.rules.robots.parser import is_product_token, parse
from crawlkit.rules.url.canonical import as_sent, canonicalize
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.url.scope import Scope, scope_reason
from crawlkit.rules.url.seeds import with_scheme


@app.command()
@report_errors
def normalize(
    urls: Annotated[
        Optional[list[str]], typer.Argument(help="URLs (none: standard input, one a line).")
    ] = None,
    base: Annotated[Optional[str], typer.Option(help="Base URL.")] = None,
    data: OfCrawl = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """The canonical form of URLs. Exit 2 if one is refused."""
    policy = UrlPolicy.of(read_config(data, config, set_).urls)
    refused = False
    for url in urls or (line.rstrip("\r\n") for line in sys.stdin):
        row: dict[str, Any] = {"url": url}
        try:
            row["canonical"] = canonicalize(url if base else with_scheme(url), base, policy)
        except Refused as e:
            refused = True
            row |= {"refused": str(e.reason), "detail": e.detail}
        emit(row, as_json, _canonical_text)
    if refused:
        raise typer.Exit(2)


@app.command("agent-page")
@report_errors
def agent_page(
    out: Annotated[
        Optional[Path], typer.Option("--out", help="File (none: standard output).")
    ] = None,
    data: OfCrawl = None,
    config: ConfigFile = None,
    set_: Sets = None,
) -> None:
    """The page for agent.info_url: what the crawler is, and how to keep it away.

    It is a template: add what else site owners should know.
    """
    cfg = read_config(data, config, set_)
    contact = f"Write to {cfg.agent.from_}." if cfg.agent.from_ else "Write to the address below."
    values = {
        "name": cfg.agent.name,
        "user_agent": cfg.agent.user_agent,
        "delay": f"{cfg.politeness.delay_s:g} s",
        "robots_hours": f"{cfg.robots.ttl_s / 3600:g}",
        "contact": contact,
    }
    page = files("crawlkit").joinpath("data/agent_page.html").read_text("utf-8")
    text = Template(page).substitute({k: escape(v) for k, v in values.items()})
    if out is None:
        print(text, end="")
    else:
        out.write_text(text, "utf-8")


def _canonical_text(v: dict[str, Any]) -> str:
    return v.get("canonical") or f"refused: {v['refused']} {v['detail']}"


@app.command("scope-test")
@report_errors
def scope_test(
    url: Url,
    depth: Annotated[int, typer.Option(help="Depth of the URL.")] = 0,
    data: OfCrawl = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Whether the scope lets a URL in, and which rule does not. Exit 1 if refused."""
    cfg = read_config(data, config, set_)
    canonical = canonicalize(url, policy=UrlPolicy.of(cfg.urls))
    reason = scope_reason(
        canonical, depth, Scope.of(cfg.scope, UrlPolicy.of(cfg.urls)), time.gmtime().tm_year
    )
    verdict = "in scope" if reason is None else f"refused: {reason}"
    answer = {"url": canonical, "in_scope": reason is None, "reason": reason}
    emit(answer, as_json, lambda v: f"{v['url']}: {verdict}")
    if reason:
        raise typer.Exit(1)


@app.command()
@report_errors
def robots(
    file: Annotated[Path, typer.Argument(help="A robots.txt file.")],
    url: Annotated[str, typer.Argument(help="The URL to be judged, or a path.")],
    agent: Annotated[
        Optional[str], typer.Option(help="Product token (default: agent.name).")
    ] = None,
    data: OfCrawl = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Whether a robots.txt allows a URL, and which line decides. Exit 1 if not."""
    cfg = read_config(data, config, set_)
    if agent and (" " in agent or not is_product_token(agent.partition("/")[0])):
        raise ConfigError(
            f"--agent {agent!r:.80}: give the product token alone (letters, _ and -), for"
            " example mybot"
        )
    token = agent or cfg.agent.name
    found = parse(file.read_bytes(), cfg.robots.max_bytes)
    sent = with_scheme(url)
    is_path = sent.startswith("/") or "://" not in sent
    m = found.match(token, sent if is_path else as_sent(sent))
    row = {
        "url": url,
        "allowed": m.allowed,
        "line_no": m.line_no,
        "line": m.line,
        "group": m.group,
        "crawl_delay_s": found.crawl_delay_s(token),
        "sitemaps": list(found.sitemaps),
    }
    emit(row, as_json, _robots_text)
    if not m.allowed:
        raise typer.Exit(1)


def _robots_text(v: dict[str, Any]) -> str:
    by = f" by line {v['line_no']}: {v['line']}" if v["line_no"] else " (no rule matches)"
    return ("allowed" if v["allowed"] else "disallowed") + by


@app.command("config")
@report_errors
def config_(
    data: OfCrawl = None,
    config: ConfigFile = None,
    set_: Sets = None,
    save: Save = False,
    all_: Annotated[bool, typer.Option("--all", help="Defaults too.")] = False,
    as_json: AsJson = False,
) -> None:
    """The settings in force and where each stands. With --save, what --config and --set say is kept
    in the crawl's crawl.yaml.

    \b
    crawlkit config --data site
    crawlkit config --data site --set politeness.delay_s=2 --save
    """
    settings = read_settings(data, config, set_)
    if save:
        if data is None:
            raise ConfigError("--save: name the crawl by --data DIR")
        keep_settings(data, settings)
    rows = [r for r in describe(settings) if all_ or as_json or r["from"] != DEFAULT]
    emit({"settings": rows}, as_json, _settings_text)


def _settings_text(v: dict[str, Any]) -> str:
    if not v["settings"]:
        return "every key has its default (--all shows them)"
    lines = [
        (f"{r['key']} = {json.dumps(r['value'], default=str)}", r["from"]) for r in v["settings"]
    ]
    width = min(max(len(line) for line, _ in lines), 80)
    return "\n".join(f"{line:<{width}}  {source}" for line, source in lines)
