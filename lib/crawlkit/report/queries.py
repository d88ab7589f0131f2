"""The report's queries: SQL of the tables in data/report/NAME.sql, each with its plot."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

VIEWS = ("captures", "crawldb", "duplicates", "rejects", "links")  # the tables that they read
# name -> title, plot (report/plots.py; `totals` are tiles)
PLOTTED = {
    "totals": ("Totals", "totals"),
    "status": ("Answers by status", "bars"),
    "rounds": ("Pages by round", "columns"),
    "over_time": ("Pages over time", "lines"),
    "latency": ("Answer time, ms", "columns"),
    "hosts": ("Hosts with the most pages", "bars"),
    "slowest": ("Slowest hosts, mean ms", "bars"),
    "states": ("URLs by state", "bars"),
    "duplicates": ("Duplicates by method", "bars"),
    "refusals": ("Refused, failed and deferred by reason", "bars"),
    "links_refused": ("Links that did not enter the frontier", "bars"),
}


class Query(NamedTuple):
    """A query of one round with what is made of its rows."""

    title: str
    plot: str
    sql: str


def read_queries(round_id: str) -> dict[str, Query]:
    """The queries of a round by name."""
    return {
        name: Query(title, plot, read_sql(name, round_id))
        for name, (title, plot) in PLOTTED.items()
    }


def read_sql(name: str, round_id: str) -> str:
    """The SQL of data/report/NAME.sql for a round."""
    text = files("crawlkit").joinpath(f"data/report/{name}.sql").read_text("utf-8")
    return text.strip().replace("{round}", f"'{round_id}'")


def over_frames(sql: str) -> str:
    """A query whose tables are frames (engine/frame.py)."""
    return re.sub(rf"\b(FROM|JOIN) ({'|'.join(VIEWS)})\b", r"\1 {\2}", sql)
