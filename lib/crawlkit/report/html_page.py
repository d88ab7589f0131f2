"""The report's HTML page: one file without anything from elsewhere, with the SQL behind each plot.

Its one script sorts tables; without scripts it is read the same. The page names its script's hash,
so that no other runs in it, whatever a title or a host's name may try.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

from crawlkit.report import html_sections as sections
from crawlkit.report.html_parts import esc, plot
from crawlkit.report.queries import Query
from crawlkit.report.report_files import read_css, read_script

PLOTS = (
    *("rounds", "growth", "over_time", "latency", "status", "refusals", "states", "depth"),
    *("slowest", "media", "languages", "changes", "duplicates", "links_refused"),
)  # queries that are drawn, in the order of the page
OWN: tuple[Callable[[dict[str, Any], dict[str, Query]], str], ...] = (
    sections.show_freshness,
    sections.show_hosts,
    sections.show_errors,
    sections.show_clusters,
    sections.show_rounds,
    sections.show_audit,
    sections.show_alerts,
    sections.show_stages,
    sections.show_settings,
)


def render(report: dict[str, Any], queries: dict[str, Query]) -> str:
    """The self-contained HTML page of a report. report: the content of report.json."""
    script = read_script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    crawl, round_id = esc(report["crawl"]), esc(report["round_id"])
    parts = [
        "<!DOCTYPE html><html lang=en><head><meta charset=utf-8>",
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src"
        f" 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'\">",
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        "<meta name=color-scheme content='light dark'><meta name=referrer content=no-referrer>",
        f"<title>Crawl report: {crawl}</title><style>{read_css()}</style></head><body>",
        f"<header><h1>Crawl report</h1><p>Crawl <b>{crawl}</b>, after round <b>{round_id}</b> at"
        f" {esc(report['nominal_time'])}</p>{sections.show_links(report)}</header><main>",
        sections.show_firing(report),
        sections.show_tiles(report),
    ]
    drawn = [name for name in PLOTS if report[name]]
    cards = [plot(queries[name], sections.rows_to_draw(name, report)) for name in drawn]
    parts += ["<div class='wide plots'>", *cards, "</div>"]
    nothing = ", ".join(queries[name].title for name in PLOTS if name not in drawn)
    if nothing:
        parts.append(f"<p class='wide note'>Nothing to draw yet: {esc(nothing)}.</p>")
    parts += [show(report, queries) for show in OWN]
    return "\n".join([*parts, f"</main><script>{script}</script></body></html>"])
