"""A round that its operator pauses or ends early: what is checked before each stage, and
the end.
"""

from __future__ import annotations

import json
import time
from typing import Any

from crawlkit.adapters.store.flock import LockHeld
from crawlkit.adapters.store.objects import ObjectMissing
from crawlkit.adapters.store.parts import part_keys, read_part
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.crawl.state import Crawl, CrawlError
from crawlkit.model import Round
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.rules.politeness.hostdb_columns import hostdb_columns
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.tables import TABLES


def check_orders(crawl: Crawl, round_: Round) -> None:
    """Before each stage of a round. Raises CrawlError if it is paused or abandoned."""
    orders = read_orders(crawl.objects)
    if round_.id in orders.abandoned:
        finish_abandoned(crawl, round_, wait=True, driving=True)
        raise CrawlError(
            f"round {round_.id} was abandoned: what it had not committed is due as before"
        )
    if round_.id in orders.paused:
        raise CrawlError(
            f"round {round_.id} is paused: go on with `crawlkit resume {round_.id}`, then run the"
            " same command again"
        )


def finish_abandoned(crawl: Crawl, round_: Round, wait: bool = False, driving: bool = False) -> str:
    """Close an abandoned round once its tasks have ended: its claims are free, its URLs due as
    before, its hosts' pace is kept.

    Returns the round's state; "abandoning": tasks or a driver are still at it, and the driver or
    the next round will see to it. `driving`: the caller drives the round. Raises LockHeld if the
    tasks do not end although it may wait.
    """
    if round_.state != "open":
        return round_.state
    if not driving:
        try:
            with crawl.driver_lock(round_):
                return finish_abandoned(crawl, round_, wait, driving=True)
        except LockHeld:
            return "abandoning"
    give_up = time.monotonic() + 2 * crawl.cfg.lease.ttl_s + crawl.cfg.lease.margin_s
    while has_live_slots(crawl, round_):
        if not wait:
            return "abandoning"
        if time.monotonic() > give_up:
            raise LockHeld(
                f"the fetch tasks of round {round_.id} do not end: look for their processes, then"
                " run the same command again"
            )
        time.sleep(0.2)
    with crawl.lock:
        _keep_pace(crawl, round_)
        crawl.close(round_, "abandoned")
    return round_.state


def has_live_slots(crawl: Crawl, round_: Round) -> bool:
    """Whether a slot's lease may still be in force."""
    for key in crawl.objects.list(f"leases/{round_.id}/"):
        try:
            row = json.loads(crawl.objects.get(key)[0])
            if not row["released"] and row["expires"] + crawl.cfg.lease.margin_s > time.time():
                return True
        except (ObjectMissing, ValueError, KeyError, TypeError):
            continue
    return False


def _keep_pace(crawl: Crawl, round_: Round) -> None:
    """The politeness states in the round's parts go into `hostdb`: a Retry-After outlives the round
    in which it came.
    """
    by_bucket: dict[int, list[HostState]] = {}
    for state in _newest_states(crawl, round_).values():
        bucket = host_bucket(registered_domain(state.host), crawl.cfg.frontier.buckets)
        by_bucket.setdefault(bucket, []).append(state)
    tables = crawl.plain_tables()
    for bucket, states in sorted(by_bucket.items()):
        part = {"host_bucket": [bucket]}
        rows = {r["host"]: r for r in tables.rows("hostdb", TABLES["hostdb"].column_names, part)}
        for state in states:
            row = rows.get(state.host) or _new_host_row(state.host, bucket, round_.now)
            rows[state.host] = row | hostdb_columns(state, time.time(), crawl.cfg)
        tables.replace("hostdb", list(rows.values()), part)


def _newest_states(crawl: Crawl, round_: Round) -> dict[str, HostState]:
    """The politeness state of each host after its last request in the round."""
    states: dict[str, HostState] = {}
    for key in part_keys(crawl.objects, f"parts/{round_.id}/"):
        for r in read_part(crawl.objects, key).records:
            if isinstance(r, HostState) and (
                r.host not in states
                or (r.last_request_end or 0) >= (states[r.host].last_request_end or 0)
            ):
                states[r.host] = r
    return states


def _new_host_row(host: str, bucket: int, first_seen: float) -> dict[str, Any]:
    return {
        "host": host,
        "domain": registered_domain(host),
        "host_bucket": bucket,
        "first_seen": first_seen,
        "pages": 0,
        "requests": 0,
        "blacklisted": False,
    }
