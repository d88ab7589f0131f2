"""Verbs for one URL or one page: cat, fetch-one, parse-one."""

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
    OfCrawl,
    Sets,
    app,
    clean,
    emit,
)
from crawlkit.cli.settings import read_config, tell
from crawlkit.cli.url_options import Url, read_url
from crawlkit.config.section import ConfigError
from crawlkit.crawl.state import find_crawl
from crawlkit.observe.single_url import (
    fetch_one as fetch_url,
    read_and_parse,
    render_one,
)
from crawlkit.outcomes import REMEDIES
from crawlkit.parsing.single_page import parse_one as parse_body
from crawlkit.reading.stored import StoredRecord, find_record
from crawlkit.rules.http.content_types import kind_of
from crawlkit.rules.page.encoding import is_utf8

RECORD = (
    "url",
    "time",
    "status",
    "headers",
    "capture_id",
    "round_id",
    "record_type",
    "revisit_of",
    "truncated",
)
FETCHED = ("fetched", "redirected", "not_modified")


@app.command("fetch-one")
@report_errors
def fetch_one(
    url: Url,
    data: OfCrawl = None,
    out: Annotated[
        Optional[Path], typer.Option("--out", metavar="FILE", help="Write the stored payload here.")
    ] = None,
    render: Annotated[
        bool,
        typer.Option("--render", help="Then render it: text, links, requests."),
    ] = False,
    screenshot: Annotated[
        Optional[Path],
        typer.Option("--screenshot", metavar="FILE", help="Render it; what it looks like, as PNG."),
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Fetch one URL as a round would: guard, robots.txt, pace. Exit 1 if it was not fetched.

    \b
    crawlkit fetch-one https://site.example/x --data site --out page.html
    crawlkit fetch-one https://site.example/app --render --screenshot app.png
    """
    cfg = read_config(data, config, set_)
    crawl = find_crawl(data, cfg) if data else None
    if render or screenshot is not None:
        rendered = render_one(url, cfg, crawl, screenshot is not None)
        if out is not None:
            out.write_bytes(rendered.page.payload)
        if screenshot is not None and rendered.screenshot is not None:
            screenshot.write_bytes(rendered.screenshot)
        emit(rendered.summary(), as_json, _rendered_text)
        if rendered.rendered is None:
            raise typer.Exit(1)
        return
    got = fetch_url(url, cfg, crawl)
    if out is not None:
        out.write_bytes(got.payload)
    emit(got.summary(), as_json, _fetched_text)
    if got.capture.outcome not in FETCHED:
        raise typer.Exit(1)


def _rendered_text(v: dict[str, Any]) -> str:
    if v["static"] is None:
        return _fetched_text(v["page"])
    words = (v["outcome"], v["reason"] or "", v["detail"] or "")
    lines = [f"{v['url']}: {' '.join(words)}".rstrip()]
    lines.append(f"needs a browser: {v['needs_js'] or 'no'}; time in it: {v['render_ms'] or 0} ms")
    if v["cloaking"]:
        lines.append(f"may be cloaked: {v['cloaking']}")
    for name in ("static", "rendered"):
        read = v[name] or {"text": "", "links": []}
        n = len(read["text"])
        lines += ["", f"{name}: {n} characters, {len(read['links'])} links", read["text"]]
    lines += ["", f"links gained: {len(v['links_gained'])}", *v["links_gained"]]
    lines += ["", f"requests: {len(v['requests'])}"]
    for r in v["requests"]:
        status = r["status"] or "refused"
        lines.append(f"{r['kind']} {r['method']} {r['url']}: {status}, {r['body_bytes']} bytes")
    lines += [f"not asked for: {n} {kind}" for kind, n in sorted(v["blocked"].items())]
    return "\n".join(lines)


def _fetched_text(v: dict[str, Any]) -> str:
    words = (v["outcome"], v["status"] or "", v["reason"] or "", v["detail"] or "")
    head = f"{v['url']}: {' '.join(map(str, words))}".rstrip()
    fields = [f"{name}: {value}" for name, value in v["headers"]]
    hint = [f"hint: {text}" for reason, text in REMEDIES.items() if v["reason"] == reason]
    return "\n".join([head, *fields, f"({v['body_bytes'] or 0} bytes)", *hint])


@app.command("parse-one")
@report_errors
def parse_one(
    source: Annotated[
        str,
        typer.Argument(metavar="FILE|URL", help="A stored body, or a URL that is fetched first."),
    ],
    url: Annotated[
        Optional[str],
        typer.Option(callback=read_url, help="The file's address, for its links."),
    ] = None,
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


@app.command()
@report_errors
def cat(
    url: Url,
    data: Data = DEFAULT_DATA,
    headers: Annotated[
        bool, typer.Option("--headers", help="Status and header; with --body the body after it.")
    ] = False,
    body: Annotated[bool, typer.Option("--body", help="The bytes of the body, decoded.")] = False,
    text: Annotated[bool, typer.Option("--text", help="The text that is read from it.")] = False,
    round_id: Annotated[
        Optional[str], typer.Option("--round-id", metavar="ID", help="As that round stored it.")
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Print a stored page: its newest body as text, its header, its bytes or what is read from it.

    \b
    crawlkit cat https://site.example/x --data site
    crawlkit cat site.example/logo.png --body --data site > logo.png
    """
    cfg = read_config(data, config, set_)
    record = find_record(find_crawl(data, cfg), url, round_id)
    if text:
        read = parse_body(
            record.payload, record.url, cfg, record.payload_type, record.payload_headers
        )["text"]
    else:
        read = record.text
    if as_json:
        emit(_record_row(record) | {"text": read}, as_json)
        return
    _tell_odd(record)
    if headers:
        fields = [f"{name}: {value}" for name, value in record.headers]
        end = [""] if body or text else []
        _print_text("\n".join([f"HTTP/1.1 {record.status}", *fields, *end, ""]))
    if body and not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.write(record.body)
    elif text or body or not headers:
        if not text and not body and _is_binary(record):
            raise ConfigError(
                f"{record.url} is {record.payload_type or 'no text'}: --text prints what is read"
                " from it, --body > FILE its bytes"
            )
        _print_text(read)


def _record_row(record: StoredRecord) -> dict[str, Any]:
    row = {name: getattr(record, name) for name in RECORD}
    return row | {"body_bytes": len(record.body)}


def _tell_odd(record: StoredRecord) -> None:
    """Say on standard error what one would not expect of a stored page."""
    fields = {name.lower(): value for name, value in record.headers}
    if record.status not in (200, 304):
        to = f", Location: {fields['location']}" if "location" in fields else ""
        tell(clean(f"status {record.status}{to}"))
    if record.decoded.error or record.decoded.truncated or record.truncated:
        why = record.decoded.error or f"cut ({record.truncated or record.decoded.truncated})"
        tell(clean(f"the body is not whole: {why}"))


def _is_binary(record: StoredRecord) -> bool:
    kind = kind_of(record.body, record.payload_type)
    return kind in ("pdf", "docx") or (kind == "other" and not is_utf8(record.body))


def _print_text(text: str) -> None:
    """Print a page's own text; on a terminal without what could steer it."""
    if sys.stdout.isatty():
        text = "\n".join(map(clean, text.split("\n")))
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
