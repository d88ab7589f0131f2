"""update, second part: what a round learned of its hosts -> rows of hostdb."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from crawlkit.config import Config
from crawlkit.engine.frame import Frame
from crawlkit.model import Round
from crawlkit.rules.frontier.claims import (
    Claims,
    fresh_tested_sql,
    hint_tested_sql,
    tested_sql,
)
from crawlkit.rules.frontier.host_classes import DAY_S, Activity, learn_class
from crawlkit.rules.frontier.regions import region_of
from crawlkit.rules.frontier.schedule import host_class
from crawlkit.rules.frontier.slots import PlacesOf
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.rules.politeness.hostdb_columns import hostdb_columns
from crawlkit.rules.render.folders import add_folders, forget_folders, read_folders, write_folders
from crawlkit.rules.render.foreign_origins import merge_origins
from crawlkit.rules.render.waiting_pages import gains_sql
from crawlkit.stages.arrow import Row, map_rows
from crawlkit.tables import TABLES

COLUMNS = TABLES["hostdb"].columns


class OfRound(NamedTuple):
    """What a round's hosts are judged by.

    planned, captures, pages: of the round. states: host, state_json of its slots. new_rows: state
    rows of the round (`update.update`). ranks: the table host_ranks.
    """

    planned: Frame
    captures: Frame
    states: Frame
    new_rows: Frame
    pages: Frame
    ranks: Frame


def host_rows(
    hostdb: Frame,
    of_round: OfRound,
    round_: Round,
    clock_now: float,
    cfg: Config,
    places_of: PlacesOf | None = None,
) -> Frame:
    """hostdb rows of the round's hosts, and all other rows of their buckets unchanged.

    Args:
        hostdb: rows of the touched buckets only.
        clock_now: real time (Unix s), for the pace; the round's nominal time is `first_seen`.
        places_of: where an address is; None: nobody knows.
    """
    joined = hostdb.engine.query(_joined_sql(round_), hostdb=hostdb, **of_round._asdict())
    fresh = map_rows(joined, partial(_next_rows, round_, clock_now, cfg, places_of), COLUMNS)
    others = hostdb.engine.query(
        "SELECT h.* FROM {hostdb} AS h"
        " ANTI JOIN (SELECT DISTINCT host FROM {planned}) AS p ON h.host = p.host",
        hostdb=hostdb,
        planned=of_round.planned,
    )
    return fresh.union(others)


def _joined_sql(round_: Round) -> str:
    """Hosts of a round: their rows of hostdb, their states, and what the round counted."""
    named = ("host", "domain", "host_bucket", "state_json")
    own = ", ".join(f"h.`{c.name}`" for c in COLUMNS if c.name not in named)
    return f"""
        WITH hosts AS (
            SELECT host, min(domain) AS domain, min(host_bucket) AS host_bucket
            FROM {{planned}} GROUP BY host
        ),
        counts AS (
            SELECT host, {"0" if round_.imported else "count(started)"} AS new_requests,
                count(CASE WHEN kind = 'page' AND outcome IN ('fetched', 'not_modified')
                    THEN 1 END) AS new_pages,
                array_sort(collect_set(CASE WHEN kind = 'render' THEN detail END))
                    AS render_details
            FROM {{captures}} GROUP BY host
        ),
        {gains_sql()},
        {_tested_sql(round_.now)},
        activity AS (
            SELECT f.host,
                count(CASE WHEN n.history = 'N' AND ({_is_new_sql(round_.now)}) THEN 1 END)
                    AS new_news,
                count(CASE WHEN n.n_change > f.n_change THEN 1 END) AS new_changed,
                count(CASE WHEN n.history LIKE '%U' AND n.n_fetch > f.n_fetch THEN 1 END)
                    AS new_still
            FROM {{planned}} AS f JOIN {{new_rows}} AS n ON f.url_key = n.url_key
            LEFT JOIN {{pages}} AS p ON n.capture_id = p.capture_id
            LEFT JOIN {{hostdb}} AS h ON f.host = h.host
            WHERE f.kind = 'page' GROUP BY f.host
        )
        SELECT w.host, w.domain, w.host_bucket, {own}, s.state_json,
            h.state_json AS old_state, c.new_pages, c.new_requests,
            d.new_dates_true, d.new_dates_false, e.new_fresh_true, e.new_fresh_false,
            i.new_hints_true, i.new_hints_false,
            a.new_news, a.new_changed, a.new_still,
            coalesce(r.quality, 5e-1) AS new_quality,
            c.render_details, n.has_needed, b.new_renders, b.new_gains, b.new_folders
        FROM hosts AS w
        LEFT JOIN {{states}} AS s ON w.host = s.host
        LEFT JOIN counts AS c ON w.host = c.host
        LEFT JOIN needs AS n ON w.host = n.host
        LEFT JOIN brought AS b ON w.host = b.host
        LEFT JOIN dates AS d ON w.host = d.host
        LEFT JOIN freshness AS e ON w.host = e.host
        LEFT JOIN hints AS i ON w.host = i.host
        LEFT JOIN activity AS a ON w.host = a.host
        LEFT JOIN {{ranks}} AS r ON w.host = r.host
        LEFT JOIN {{hostdb}} AS h ON w.host = h.host
    """


def _tested_sql(now: float) -> str:
    """Visits that tested what a host says of its pages: a date, a hint, and how long they stay true
    (rules/frontier/claims.py).
    """
    changed = [
        f"""{kind} AS (
            SELECT f.host, count(CASE WHEN n.n_change > f.n_change THEN 1 END) AS new_{kind}_true,
                count(CASE WHEN n.history LIKE '%U' THEN 1 END) AS new_{kind}_false
            FROM {{planned}} AS f JOIN {{new_rows}} AS n ON f.url_key = n.url_key
            WHERE {tested} GROUP BY f.host
        )"""
        for kind, tested in (
            ("dates", tested_sql("f", "n", now)),
            ("hints", hint_tested_sql("f", "n")),
        )
    ]
    return f"""{", ".join(changed)},
        freshness AS (
            SELECT f.host, count(CASE WHEN n.history LIKE '%U' THEN 1 END) AS new_fresh_true,
                count(CASE WHEN n.n_change > f.n_change THEN 1 END) AS new_fresh_false
            FROM {{planned}} AS f JOIN {{new_rows}} AS n ON f.url_key = n.url_key
            WHERE {fresh_tested_sql("f", "n", now)} GROUP BY f.host
        )"""


def _is_new_sql(now: float) -> str:
    """Whether a page fetched for the first time is a new one (rules/frontier/host_classes.py)."""
    day = "unix_timestamp(CAST(try_cast(substring(p.published, 1, 10) AS date) AS timestamp))"
    later = f"unix_micros(f.first_seen) >= unix_micros(h.first_seen) + {round(DAY_S * 1e6)}"
    return (
        f"coalesce({now!r} - {day} BETWEEN {-DAY_S!r} AND {2 * DAY_S!r}, false)"
        f" OR coalesce(f.source = 'feed' AND {later}, false)"
    )


def _next_rows(
    round_: Round,
    clock_now: float,
    cfg: Config,
    places_of: PlacesOf | None,
    rows: Iterator[Row],
) -> Iterator[dict[str, Any]]:
    for r in rows:
        row = next_host_row(r, round_.no, round_.now, clock_now, cfg)
        places: list[str] = []
        if places_of is not None:
            places = [place for ip in row["last_ips"] or () for place in places_of(ip)]
        yield row | {"region": region_of(row["domain"], cfg.fetch, places)}


def next_host_row(
    row: Row, round_no: int, now: float, clock_now: float, cfg: Config
) -> dict[str, Any]:
    """A host's row of hostdb after the round.

    The round's counts are added once, whether this is its first run or a repeat (N2).
    """
    text = row["state_json"] or row["old_state"]
    state = HostState.from_json(text) if text else HostState(row["host"])
    counted = row["updated_no"] is not None and row["updated_no"] >= round_no
    activity = Activity(
        row["news_pages"] or 0.0, row["news_at"], row["changed_at"], row["still_visits"] or 0
    )
    if not counted:
        changed, still = row["new_changed"] or 0, row["new_still"] or 0
        activity = activity.after(row["new_news"] or 0, changed, still, now)
    first_seen = now if row["first_seen"] is None else row["first_seen"]
    return {
        **row,
        **_claims(row, counted, now),
        **hostdb_columns(state, clock_now, cfg),
        "state_json": text,
        "news_pages": activity.news,
        "news_at": activity.news_at,
        "changed_at": activity.changed_at,
        "still_visits": activity.still,
        "quality": row["quality"] if counted else row["new_quality"],
        "class": host_class(
            row["host"], cfg.schedule, learn_class(activity, first_seen, now, cfg.schedule)
        ),
        "pages": (row["pages"] or 0) + (0 if counted else row["new_pages"] or 0),
        "requests": (row["requests"] or 0) + (0 if counted else row["new_requests"] or 0),
        **_renders_of(row, counted, now),
        "blacklisted": bool(row["blacklisted"]) or state.barred,
        "first_seen": first_seen,
        "updated_no": round_no,
    }


def _claims(row: Row, counted: bool, now: float) -> dict[str, Any]:
    """What became of a host's claims. counted: the round is in the row."""
    found: dict[str, Any] = {}
    for kind in ("dates", "fresh", "hints"):
        names = [f"{kind}_{name}" for name in ("true", "false", "at")]
        claims = Claims(row[names[0]] or 0.0, row[names[1]] or 0.0, row[names[2]])
        if not counted:
            tested = [row[f"new_{name}"] or 0 for name in names[:2]]
            claims = claims.after(tested[0], tested[1], now)
        found |= dict(zip(names, claims, strict=True))
    return found


def _renders_of(row: Row, counted: bool, now: float) -> dict[str, Any]:
    """What rendering a host's pages needs and has brought. counted: the round is in the row."""
    known = read_folders(row["render_folders"])
    kept = known if counted else forget_folders(known, now)
    old = [count for name, count in known.items() if name not in kept]
    renders = (row["renders"] or 0) - sum(count.renders for count in old)
    gains = (row["render_gains"] or 0) - sum(count.gains for count in old)
    folders = kept if counted else add_folders(kept, row["new_folders"] or (), now)
    return {
        "needs_js": bool(row["has_needed"] or row["needs_js"]),
        "renders": max(0, renders) + (0 if counted else row["new_renders"] or 0),
        "render_gains": max(0, gains) + (0 if counted else row["new_gains"] or 0),
        "render_folders": write_folders(folders),
        "render_on": [name for name, count in folders.items() if count.is_worth],
        "render_off": [name for name, count in folders.items() if count.is_worth is False],
        "render_origins": merge_origins(row["render_origins"], row["render_details"] or ()),
    }
