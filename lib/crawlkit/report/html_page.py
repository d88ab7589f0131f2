"""The report's HTML page: one file without scripts, with the SQL behind each plot."""

from __future__ import annotations

import html
from typing import Any

from crawlkit.report.queries import Query
from crawlkit.report.report_files import read_css

PLOTS = ("bars", "columns", "lines")  # functions of plots.py


def render(report: dict[str, Any], queries: dict[str, Query]) -> str:
    """The self-contained HTML page of a report. report: the content of report.json."""
    crawl, round_id = html.escape(report["crawl"]), html.escape(report["round_id"])
    parts = [
        "<!DOCTYPE html><html lang=en><meta charset=utf-8><meta name=viewport"
        f" content='width=device-width,initial-scale=1'><title>Crawl report: {crawl}</title>"
        f"<style>{read_css()}</style>",
        f"<header><h1>Crawl report</h1><p>Crawl <b>{crawl}</b>, after round <b>{round_id}</b> at"
        f" {report['nominal_time']}</p></header><main>",
        _tiles(report["totals"][0] if report["totals"] else {}),
        *(_plot(q, report[name]) for name, q in queries.items() if q.plot in PLOTS),
        _alerts_section(report["alerts"]),
        _stages_section(report["stages"]),
        "</main></html>",
    ]
    return "\n".join(parts)


def _tiles(totals: dict[str, Any]) -> str:
    tiles = []
    for name, v in totals.items():
        shown = _bytes(v) if name.startswith("bytes") else _number(v)
        tiles.append(
            f"<div title='{html.escape(str(v))}'><b>{shown}</b><span>{html.escape(name)}"
            f"</span></div>"
        )
    return f"<section class=tiles>{''.join(tiles)}</section>"


def _plot(query: Query, rows: list[dict[str, Any]]) -> str:
    from crawlkit.report import plots  # here: matplotlib takes a third of a second

    draw = getattr(plots, query.plot)
    picture = draw(rows, query.title) if rows else "<p class=none>none</p>"
    return (
        f"<section><h2>{html.escape(query.title)}</h2><div class=scroll>{picture}</div><details>"
        f"<summary>SQL</summary><pre>{html.escape(query.sql)}</pre></details></section>"
    )


def _alerts_section(alerts: list[dict[str, Any]]) -> str:
    known = [a for a in alerts if a["state"] != "no_data"]
    unknown = [a for a in alerts if a["state"] == "no_data"]
    firing_first = sorted(known, key=lambda a: a["state"] != "firing")
    return (
        f"<section class=wide><h2>Alerts</h2>{_alerts(firing_first)}<details><summary>"
        f"{len(unknown)} rules without a value in this round</summary>{_alerts(unknown)}</details>"
        "</section>"
    )


def _stages_section(stages: list[dict[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td>{s['stage']}<td>{s['wall_s']:.1f}<td>{s['cpu_s']:.1f}<td>{_count(s['rows_in'])}"
        f"<td>{_count(s['rows_out'])}<td>{s['rejected']}"
        for s in stages
    )
    return (
        "<section class=wide><h2>Stages of this round</h2><div class=scroll><table><tr><th>stage"
        f"<th>wall s<th>CPU s<th>rows in<th>out<th>rejected</tr>{rows}</table></div></section>"
    )


def _count(v: int | None) -> str:
    return "" if v is None else str(v)


def _alerts(alerts: list[dict[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td>{a['name']}<td class=text>{a['state']}<td"
        f" class=text>{a['severity']}<td>{_short(a['value'])}<td class=text>{a['fires']}"
        f" {_short(a['threshold'])}<td class=text>{html.escape(a['summary'])}"
        for a in alerts
    )
    return (
        "<div class=scroll><table><tr><th>rule<th class=text>state<th"
        " class=text>severity<th>value<th class=text>fires<th"
        f" class=text>means</tr>{rows}</table></div>"
        if alerts
        else "<p class=none>none</p>"
    )


def _bytes(v: int) -> str:
    size, units = float(v), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.{0 if units[0] == 'B' else 1}f}\u202f{units[0]}"


def _number(v: Any) -> str:
    return f"{v:,}".replace(",", "\u202f") if isinstance(v, int) else html.escape(str(v))


def _short(v: float | None) -> str:
    return "" if v is None else f"{v:g}"
