"""The report's queries: SQL of the tables in data/report/NAME.sql, and what is drawn of each."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

from crawlkit.rules.render.waiting_pages import gained_sql, waits_sql

# Errors, as everywhere in crawlkit: the view `errors` (observe/views.py), without what most hosts
# do not have and no crawl misses.
IS_ERROR = "is_outcome AND outcome IN ('failed', 'http_error', 'refused')"
IS_MISSING = "kind IN ('robots', 'sitemap', 'feed') AND coalesce(status, 0) IN (404, 410)"
COUNTED_ERRORS = f"(SELECT * FROM errors WHERE NOT ({IS_MISSING})) AS counted_errors"
TABLES = (
    *("captures", "crawldb", "duplicates", "hostdb", "links", "metrics", "pages", "rejects"),
    *("ranks", "robots", "rounds", "stages"),
)  # that they read
FRAMES = (*TABLES, "errors", "renders")
# name -> title, plot: a function of plots.py, or "" for what html_sections.py shows
PLOTTED = {
    "totals": ("Totals", ""),
    "rounds": ("Pages by round", "columns"),
    "over_time": ("Pages a second, by seconds since this round began", "lines"),
    "latency": ("Answers by their time, ms", "columns"),
    "percentiles": ("Time of an answer", ""),
    "status": ("Answers by status", "bars"),
    "refusals": ("Refused, failed and deferred by reason", "bars"),
    "states": ("URLs by state", "bars"),
    "depth": ("URLs by depth", "columns"),
    "slowest": ("Slowest hosts: 95% of the answers within, ms", "bars"),
    "media": ("Pages by media type", "bars"),
    "languages": ("Pages by language", "bars"),
    "changes": ("Pages visited again: changed", "bars"),
    "duplicates": ("Duplicates by method", "bars"),
    "links_refused": ("Links that did not enter the frontier", "bars"),
    "hosts": ("Hosts", ""),
    "newest_errors": ("Newest errors", ""),
    "clusters": ("Largest clusters of duplicates", ""),
}
# of the tables that the report itself writes: asked after that
OF_HISTORY = {
    "growth": ("URLs known and waiting, by round", "lines"),
    "fetch_time": ("Time of the fetch stages", ""),
}


class Query(NamedTuple):
    """A query of one round with what is made of its rows."""

    title: str
    plot: str
    sql: str


def read_queries(round_id: str, names: dict[str, tuple[str, str]] = PLOTTED) -> dict[str, Query]:
    """The queries of a round by name."""
    return {
        name: Query(title, plot, read_sql(name, round_id)) for name, (title, plot) in names.items()
    }


def read_sql(name: str, round_id: str) -> str:
    """The SQL of data/report/NAME.sql for a round."""
    text = files("crawlkit").joinpath(f"data/report/{name}.sql").read_text("utf-8")
    text = re.sub(r"\bFROM counted_errors\b", f"FROM {COUNTED_ERRORS}", text)
    text = text.replace("{gained}", gained_sql("p")).replace("{waits}", waits_sql("u", "h"))
    return text.strip().replace("{round}", f"'{round_id}'")


def over_frames(sql: str) -> str:
    """A query whose tables are frames (engine/frame.py)."""
    return re.sub(rf"\b(FROM|JOIN) ({'|'.join(FRAMES)})\b", r"\1 {\2}", sql)
