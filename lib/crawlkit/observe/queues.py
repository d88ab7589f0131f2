"""The queue of each host: how long it is, at which pace it is emptied, and what holds it back."""

from __future__ import annotations

import time
from typing import Any

from crawlkit.adapters.lake.duckdb_reader import ask
from crawlkit.adapters.store.stop_list import Orders, read_orders
from crawlkit.crawl.fetch_progress import read_progress
from crawlkit.crawl.state import Crawl
from crawlkit.outcomes import Reason
from crawlkit.rules.politeness.host_state import HostState, effective_delay_s, may_send
from crawlkit.rules.url.domains import registered_domain

_QUEUES = """
    WITH waiting AS (
        SELECT host, any_value(domain) AS domain, count(*) AS waiting,
            count(*) FILTER (WHERE next_fetch <= make_timestamptz({now_us})) AS due,
            min(next_fetch) AS next_due
        FROM crawldb WHERE state NOT IN ('dead', 'refused') {of_host}
        GROUP BY host ORDER BY due DESC, waiting DESC, host LIMIT {limit}
    )
    SELECT w.*, h.state_json, h.blacklisted FROM waiting AS w LEFT JOIN hostdb AS h
    ON w.host = h.host ORDER BY due DESC, waiting DESC, w.host
"""


def read_queues(crawl: Crawl, limit: int, host: str | None = None) -> list[dict[str, Any]]:
    """The longest queues: host, due, waiting, delay_s and what sets it, next_at (Unix s; None: not
    before something changes), reason (what holds it back), fetching (URLs that a running fetch
    still has of it).

    Raises TableError, StoreUnavailable.
    """
    now = time.time()
    of_host = "" if host is None else "AND host = '" + host.lower().replace("'", "''") + "'"
    query = _QUEUES.format(now_us=round(now * 1e6), of_host=of_host, limit=limit)
    orders = read_orders(crawl.objects)
    running, tables = _running(crawl, now), crawl.plain_tables()
    rows = ask(tables, {}, query, limit)
    known = {row["host"] for row in rows}
    # found in this round, so in no table yet
    new = [h for h in running if h not in known and host in (None, h)][: limit - len(rows)]
    nothing = {"due": 0, "waiting": 0, "next_due": None, "state_json": None, "blacklisted": False}
    rows += [{"host": h, "domain": registered_domain(h), **nothing} for h in new]
    return [_queue(row, crawl, orders, running, now) for row in rows]


def _running(crawl: Crawl, now: float) -> dict[str, dict[str, Any]]:
    """Host -> its queue in a running fetch, where it is among the longest."""
    found: dict[str, dict[str, Any]] = {}
    for r in crawl.open_rounds():
        if crawl.mark(r, "fetch") is None:
            progress = read_progress(crawl.objects, r.id, now) or {"waiting": ()}
            found |= {w["host"]: w for w in progress["waiting"]}
    return found


def _queue(
    row: dict[str, Any],
    crawl: Crawl,
    orders: Orders,
    running: dict[str, dict[str, Any]],
    now: float,
) -> dict[str, Any]:
    name = row["host"]
    state = HostState(name)
    if row["state_json"]:
        state = HostState.from_json(row["state_json"])
    delay = effective_delay_s(state, crawl.cfg.politeness, now)
    permit = may_send(state, now, crawl.cfg, True, 0)
    reason: str | None = permit.reason if permit.at > now + delay.seconds else None
    if row["blacklisted"]:
        reason = Reason.HOST_BLOCKED
    if name in orders.hosts or row["domain"] in orders.domains:
        reason = Reason.STOP_LIST
    live = running.get(name)
    next_at: float | None = max(permit.at, now)
    if reason in (Reason.STOP_LIST, Reason.HOST_BLOCKED) or permit.at == float("inf"):
        next_at = None
    elif not row["due"] and row["next_due"] is not None:
        next_at = max(now, row["next_due"].timestamp())
        reason = reason or "not due"
    return {
        "host": name,
        "due": row["due"],
        "waiting": row["waiting"],
        "delay_s": live["delay_s"] if live else delay.seconds,
        "set_by": live["why"] if live else delay.why,
        "next_at": next_at,
        "reason": reason and str(reason),
        "fetching": live["urls"] if live else 0,
    }
