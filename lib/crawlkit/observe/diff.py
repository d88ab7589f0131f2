"""Two rounds side by side: what each brought, by the same queries.

Read without a JVM.
"""

from __future__ import annotations

import html
from typing import Any

from crawlkit.adapters.lake.duckdb_reader import ask
from crawlkit.adapters.lake.sql_text import quote
from crawlkit.config import ConfigError
from crawlkit.crawl.state import Crawl
from crawlkit.observe.views import VIEWS
from crawlkit.report.report_files import put_file, read_css

MAX_ROWS = 10_000
# group -> SQL with one row a figure: name, value; {round}: the round's id
FIGURES = {
    "totals": """
        SELECT
          unnest(['planned', 'requests', 'hosts asked', 'body bytes', 'stored bytes', 'revisits',
                  'mean answer ms']) AS name,
          unnest([
            count(CASE WHEN is_outcome THEN 1 END),
            count(CASE WHEN started IS NOT NULL THEN 1 END),
            count(DISTINCT CASE WHEN started IS NOT NULL THEN host END),
            coalesce(sum(body_bytes), 0),
            coalesce(sum(warc_record_length), 0),
            count(CASE WHEN record_type = 'revisit' THEN 1 END),
            coalesce(round(avg(CASE WHEN status IS NOT NULL
                               THEN unix_millis(ended) - unix_millis(started) END)), 0)
          ]) AS value
        FROM captures WHERE round_id = {round}""",
    "outcomes": (
        "SELECT kind || ' ' || outcome || coalesce(': ' || reason, '') AS name, count(*) AS value"
        " FROM captures WHERE is_outcome AND round_id = {round} GROUP BY 1"
    ),
    "status": (
        "SELECT cast(status AS string) AS name, count(*) AS value FROM captures WHERE status IS NOT"
        " NULL AND round_id = {round} GROUP BY 1"
    ),
    "pages": (
        "SELECT kind || ' pages' AS name, count(*) AS value FROM pages WHERE round_id = {round}"
        " GROUP BY 1 UNION ALL SELECT 'texts not known before', count(DISTINCT text_sha256) FROM"
        " sim_bands WHERE round_id = {round} HAVING count(*) > 0"
    ),
    "links": (
        "SELECT coalesce('links refused: ' || refused, 'links that may be crawled') AS name,"
        " count(*) AS value FROM links WHERE round_id = {round} GROUP BY 1"
    ),
    "rejects": (
        "SELECT stage || ': ' || reason AS name, count(*) AS value FROM rejects WHERE round_id ="
        " {round} GROUP BY 1"
    ),
}


def diff(crawl: Crawl, before: str, after: str) -> list[dict[str, Any]]:
    """Rows {group, name, before, after, change} of all figures that either round has.

    Raises ConfigError (no such round), TableError.
    """
    known = crawl.round_ids()
    for round_id in (before, after):
        if round_id not in known:
            raise ConfigError(
                f"no round {round_id}: there are {', '.join(known[-5:]) or 'none'} (`crawlkit"
                " status`)"
            )
    tables, rows = crawl.plain_tables(), []
    for group, sql in FIGURES.items():
        values = [
            {
                r["name"]: float(r["value"])
                for r in ask(tables, VIEWS, sql.replace("{round}", quote(r_id)), MAX_ROWS)
            }
            for r_id in (before, after)
        ]
        for name in dict.fromkeys([*values[0], *values[1]]):
            a, b = (v.get(name, 0.0) for v in values)
            rows.append({"group": group, "name": name, "before": a, "after": b, "change": b - a})
    return rows


def write_page(crawl: Crawl, before: str, after: str, rows: list[dict[str, Any]]) -> str:
    """Write the page of a diff beside the report; its address."""
    name = f"diff-{before}-{after}.html"
    put_file(crawl, name, render(crawl.cfg.crawl.id, before, after, rows))
    return f"{crawl.report}/{name}"


def render(crawl_id: str, before: str, after: str, rows: list[dict[str, Any]]) -> str:
    """The self-contained HTML page: one table a group, with bars."""
    out = [
        (
            "<!DOCTYPE html><html lang=en><meta charset=utf-8><meta name=viewport"
            f" content='width=device-width,initial-scale=1'><title>{html.escape(before)} and"
            f" {html.escape(after)}</title>"
        ),
        f"<style>{read_css()}</style>",
        (
            f"<header><h1>Two rounds of {html.escape(crawl_id)}</h1><p><b>{html.escape(before)}</b>"
            f" (grey) and <b>{html.escape(after)}</b></p></header><main>"
        ),
    ]
    for group in FIGURES:
        mine = [r for r in rows if r["group"] == group]
        if not mine:
            continue
        lines = []
        for r in mine:
            most = max(r["before"], r["after"], 1)
            bars = (
                f"<span class='bar old' style='width:{100 * r['before'] / most:.0f}%'></span><span"
                f" class=bar style='width:{100 * r['after'] / most:.0f}%'></span>"
            )
            lines.append(
                f"<tr><td class=text>{html.escape(r['name'])}<td>{r['before']:,.0f}<td>"
                f"{r['after']:,.0f}<td>{r['change']:+,.0f}<td"
                f" style='min-width:80px'>{bars}"
            )
        out.append(
            f"<section><h2>{group.capitalize()}</h2><div"
            f" class=scroll><table><tr><th class=text>figure<th>{html.escape(before)}<th>"
            f"{html.escape(after)}<th>change<th class=text>both</tr>{''.join(lines)}</table></div>"
            f"</section>"
        )
    return "\n".join([*out, "</main></html>"])
