"""Verbs for one URL or one page: fetch-one, parse-one; and `crawlkit serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from crawlkit.cli.errors import report_errors
from crawlkit.cli.root import AsJson, ConfigFile, OfCrawl, Sets, app, emit
from crawlkit.cli.settings import find_crawl, read_config
from crawlkit.observe.single_url import fetch_one as fetch_url, read_and_parse

FETCHED = ("fetched", "redirected", "not_modified")


@app.command("fetch-one")
@report_errors
def fetch_one(
    url: str,
    data: OfCrawl = None,
    out: Annotated[
        Optional[Path], typer.Option("--out", metavar="FILE", help="Write the stored payload here.")
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Fetch one URL as a round would: guard, robots.txt, pace. Exit 1 if it was not fetched."""
    cfg = read_config(data, config, set_)
    got = fetch_url(url, cfg, find_crawl(data, cfg) if data else None)
    if out is not None:
        out.write_bytes(got.payload)
    emit(got.summary(), as_json, _fetched_text)
    if got.capture.outcome not in FETCHED:
        raise typer.Exit(1)


def _fetched_text(v: dict[str, Any]) -> str:
    words = (v["outcome"], v["status"] or "", v["reason"] or "", v["detail"] or "")
    head = f"{v['url']}: {' '.join(map(str, words))}".rstrip()
    fields = [f"{name}: {value}" for name, value in v["headers"]]
    return "\n".join([head, *fields, f"({v['body_bytes'] or 0} bytes)"])


@app.command("parse-one")
@report_errors
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
    data: OfCrawl = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Read one page as the parse stage does: title, text, links, robots directives."""
    cfg = read_config(data, config, set_)
    crawl = find_crawl(data, cfg) if data else None
    emit(read_and_parse(source, cfg, crawl, url, content_type), as_json, _parsed_text)


def _parsed_text(v: dict[str, Any]) -> str:
    charset, language = v["charset"] or "no charset", v["language"] or "language unknown"
    links = [
        f"{link['kind']}: {link['url']}"
        + (f" (not followed: {link['refused']})" if link["refused"] else "")
        for link in v["links"]
    ]
    return "\n".join(
        [
            f"{v['url']} ({v['kind']}, {charset}, {language})",
            f"title: {v['title'] or ''}",
            f"robots: {', '.join(v['robots']) or 'none'}",
            "",
            v["main_text"] or v["text"],
            "",
            *links,
        ]
    )
