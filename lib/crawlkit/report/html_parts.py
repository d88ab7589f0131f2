"""Pieces of the report page. Every text that comes from pages or hosts is escaped here."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from crawlkit.report import plots
from crawlkit.report.plots import clean, show_number
from crawlkit.report.queries import Query


class Html(str):
    """Text that is HTML already."""


def esc(value: Any) -> str:
    """A value as text of a page or of an attribute; what is HTML already stays as it is."""
    return value if isinstance(value, Html) else html.escape(clean("" if value is None else value))


def section(title: str, body: str, wide: bool = False, sql: str = "", anchor: str = "") -> str:
    """A card of the page, with the SQL behind it."""
    shown = f"<details><summary>SQL</summary><pre>{html.escape(sql)}</pre></details>" if sql else ""
    css, mark = " class=wide" if wide else "", f" id={anchor}" if anchor else ""
    return f"<section{css}{mark}><h2>{html.escape(title)}</h2>{body}{shown}</section>"


def plot(query: Query, rows: Sequence[dict[str, Any]]) -> str:
    """The card of a query that is drawn."""
    return section(query.title, getattr(plots, query.plot)(rows, query.title), sql=query.sql)


NONE = "<p class=note>none</p>"


def table(
    head: Sequence[str], rows: Iterable[Sequence[Any]], texts: Sequence[int] = (), css: str = ""
) -> str:
    """A table that scrolls inside its card.

    texts: columns of words, not numbers. A cell is a value or a pair (what is shown, by what it
    sorts); a row may begin with a value `Html` that has an anchor.
    """
    body = "".join(
        "<tr>" + "".join(_cell(c, i in texts) for i, c in enumerate(row)) for row in rows
    )
    if not body:
        return NONE
    titles = "".join(
        f"<th scope=col{' class=text' if i in texts else ''}>{esc(name)}"
        for i, name in enumerate(head)
    )
    return (
        f"<div class=scroll tabindex=0><table{f' class={css}' if css else ''}><thead><tr>{titles}"
        f"<tbody>{body}</table></div>"
    )


def _cell(value: Any, is_text: bool) -> str:
    shown, key = value if isinstance(value, tuple) else (value, None)
    if not is_text and isinstance(shown, int | float):
        key = shown if key is None else key
        shown = show_number(shown)
    sorted_by = "" if key is None else f' data-v="{esc(key)}"'
    return f"<td{' class=text' if is_text else ''}{sorted_by}>{esc(shown)}"


def link(url: Any) -> Html:
    """A link to a page of the web; text if it is none of http."""
    text = esc(url)
    if not str(url or "").startswith(("http://", "https://")):
        return Html(f"<span class=url>{text}</span>")
    return Html(f'<a class=url href="{text}" title="{text}" rel="noreferrer nofollow">{text}</a>')


def host_anchor(host: str) -> str:
    """The id of a host's row."""
    return "host-" + quote(host, safe=".-_~").replace("%", "_")


def host_link(host: Any, known: set[str]) -> str:
    """The host as a link to its row, if it has one."""
    name = str(host)
    if name not in known:
        return Html(esc(name))
    return Html(f'<a href="#{host_anchor(name)}">{esc(name)}</a>')


def show_bytes(v: float) -> str:
    """Bytes in units of 1024."""
    size, units = float(v), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.{0 if units[0] == 'B' else 1}f}\u202f{units[0]}"


def tiles(values: Iterable[tuple[str, str, str]]) -> str:
    """Figures (name, value, explanation) side by side."""
    return "".join(
        f'<div title="{esc(why)}"><b>{esc(value)}</b><span>{esc(name)}</span></div>'
        for name, value, why in values
    )
