"""update, second part: what a round learned of its hosts -> rows of hostdb."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from crawlkit.config import Config
from crawlkit.engine.frame import Frame
from crawlkit.model import Round
from crawlkit.rules.frontier.claims import Claims, tested_sql
from crawlkit.rules.frontier.regions import region_of
from crawlkit.rules.frontier.schedule import host_class
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.rules.politeness.hostdb_columns import hostdb_columns
from crawlkit.stages.arrow import Row, map_rows
from crawlkit.tables import TABLES

COLUMNS = TABLES["hostdb"].columns


def host_rows(
    hostdb: Frame,
    planned: Frame,
    captures: Frame,
    states: Frame,
    new_rows: Frame,
    round_: Round,
    clock_now: float,
    cfg: Config,
) -> Frame:
    """hostdb rows of the round's hosts, and all other rows of their buckets unchanged.

    Args:
        hostdb: rows of the touched buckets only.
        planned, captures: of the round. states: host, state_json of its slots.
        new_rows: state rows of the round (`update.update`).
        clock_now: real time (Unix s), for the pace; the round's nominal time is `first_seen`.
    """
    joined = hostdb.engine.query(
        _joined_sql(round_.now),
        planned=planned,
        captures=captures,
        states=states,
        new_rows=new_rows,
        hostdb=hostdb,
    )
    fresh = map_rows(joined, partial(_next_rows, round_, clock_now, cfg), COLUMNS)
    others = hostdb.engine.query(
        "SELECT h.* FROM {hostdb} AS h"
        " ANTI JOIN (SELECT DISTINCT host FROM {planned}) AS p ON h.host = p.host",
        hostdb=hostdb,
        planned=planned,
    )
    return fresh.union(others)


def _joined_sql(now: float) -> str:
    """Hosts of a round: their rows of hostdb, their states, and what the round counted."""
    named = ("host", "domain", "host_bucket", "state_json")
    own = ", ".join(f"h.`{c.name}`" for c in COLUMNS if c.name not in named)
    return f"""
        WITH hosts AS (
            SELECT host, min(domain) AS domain, min(host_bucket) AS host_bucket
            FROM {{planned}} GROUP BY host
        ),
        counts AS (
            SELECT host, count(started) AS new_requests,
                count(CASE WHEN kind = 'page' AND outcome IN ('fetched', 'not_modified')
                    THEN 1 END) AS new_pages
            FROM {{captures}} GROUP BY host
        ),
        dates AS (
            SELECT f.host, count(CASE WHEN n.n_change > f.n_change THEN 1 END) AS new_true,
                count(CASE WHEN n.history LIKE '%U' THEN 1 END) AS new_false
            FROM {{planned}} AS f JOIN {{new_rows}} AS n ON f.url_key = n.url_key
            WHERE {tested_sql("f", "n", now)} GROUP BY f.host
        )
        SELECT w.host, w.domain, w.host_bucket, {own}, s.state_json,
            h.state_json AS old_state, c.new_pages, c.new_requests,
            d.new_true, d.new_false
        FROM hosts AS w
        LEFT JOIN {{states}} AS s ON w.host = s.host
        LEFT JOIN counts AS c ON w.host = c.host
        LEFT JOIN dates AS d ON w.host = d.host
        LEFT JOIN {{hostdb}} AS h ON w.host = h.host
    """


def _next_rows(
    round_: Round, clock_now: float, cfg: Config, rows: Iterator[Row]
) -> Iterator[dict[str, Any]]:
    for r in rows:
        yield next_host_row(r, round_.no, round_.now, clock_now, cfg)


def next_host_row(
    row: Row, round_no: int, now: float, clock_now: float, cfg: Config
) -> dict[str, Any]:
    """A host's row of hostdb after the round.

    The round's counts are added once, whether this is its first run or a repeat (N2).
    """
    text = row["state_json"] or row["old_state"]
    state = HostState.from_json(text) if text else HostState(row["host"])
    dates = Claims(row["dates_true"] or 0.0, row["dates_false"] or 0.0, row["dates_at"])
    counted = row["updated_no"] is not None and row["updated_no"] >= round_no
    if not counted:
        dates = dates.after(row["new_true"] or 0, row["new_false"] or 0, now)
    return {
        **row,
        "dates_true": dates.true,
        "dates_false": dates.false,
        "dates_at": dates.at,
        **hostdb_columns(state, clock_now, cfg),
        "state_json": text,
        "class": host_class(row["host"], cfg.schedule),
        "region": region_of(row["domain"], cfg.fetch),
        "pages": (row["pages"] or 0) + (0 if counted else row["new_pages"] or 0),
        "requests": (row["requests"] or 0) + (0 if counted else row["new_requests"] or 0),
        "blacklisted": bool(row["blacklisted"]) or state.barred,
        "first_seen": now if row["first_seen"] is None else row["first_seen"],
        "updated_no": round_no,
    }
