"""What a round takes from its operator: commands brought into the tables, a pause, an early end."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crawlkit.adapters.store.flock import LockHeld
from crawlkit.adapters.store.objects import ObjectMissing
from crawlkit.adapters.store.parts import part_keys, read_part
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.control.commands import (
    COLUMNS,
    PENDING,
    apply_to_hosts,
    commands_lock,
    pending,
    plain_tables,
)
from crawlkit.round.state import Crawl, CrawlError, Round
from crawlkit.rules.frontier.command_rules import URL_VERBS, found_rows
from crawlkit.rules.politeness import host_state
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.tables import TABLES

if TYPE_CHECKING:
    from crawlkit.round.job import Job


def take_commands(job: "Job", round_: Round) -> tuple[list[int], list[bytes]]:
    """What operators have asked for since the last round -> found rows of this one, and `hostdb`.

    Returns the buckets with such rows and the keys of URLs that are to be fetched at once. The
    caller holds the commit lock; a round that was cut off here finds its commands again.
    """
    crawl = job.crawl
    taken = {c["command_id"]: c for c in (crawl.mark(round_, "commands") or {}).get("commands", [])}
    waiting = pending(crawl)
    if waiting:
        taken |= {c["command_id"]: c for c in waiting}
        crawl.set_mark(round_, "commands", {"commands": list(taken.values())})
        _keep_rows(job, waiting)
    commands = list(taken.values())
    rows = found_rows(
        (c for c in commands if c["verb"] in URL_VERBS), round_.now, crawl.cfg.frontier.buckets
    )
    if rows:
        mine = {"round_id": round_.id, "writer": "commands", "updated_no": round_.no}
        job.tables.replace(
            "crawldb_log",
            [r | mine for r in rows],
            {"round_id": [round_.id], "writer": ["commands"]},
        )
    apply_to_hosts(crawl, job.tables, read_orders(crawl.objects), commands, round_.now)
    for c in waiting:
        crawl.objects.delete(f"{PENDING}{c['command_id']}.json")
    return sorted({r["host_bucket"] for r in rows}), [r["url_key"] for r in rows if r["force"]]


def _keep_rows(job: "Job", commands: list[dict[str, Any]]) -> None:
    """Rows of commands whose sender died before it wrote them."""
    ids = [c["command_id"] for c in commands]
    with commands_lock(job.crawl) as lock:
        tables = plain_tables(job.crawl, lock)
        there = {
            r["command_id"] for r in tables.rows("commands", ["command_id"], {"command_id": ids})
        }
        if lost := [c for c in commands if c["command_id"] not in there]:
            tables.append(
                "commands",
                [
                    {k: c[k] for k in COLUMNS}
                    | {"arguments": json.dumps(c["arguments"], sort_keys=True)}
                    for c in lost
                ],
            )


def heed(crawl: Crawl, round_: Round) -> None:
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
    while alive(crawl, round_):
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


def alive(crawl: Crawl, round_: Round) -> bool:
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
    that was told it.
    """
    states: dict[str, host_state.HostState] = {}
    for key in part_keys(crawl.objects, f"parts/{round_.id}/"):
        for r in read_part(crawl.objects, key).records:
            if isinstance(r, host_state.HostState) and (
                r.host not in states
                or (r.last_request_end or 0) >= (states[r.host].last_request_end or 0)
            ):
                states[r.host] = r
    by_bucket: dict[int, list[host_state.HostState]] = {}
    for s in states.values():
        by_bucket.setdefault(
            host_bucket(registered_domain(s.host), crawl.cfg.frontier.buckets), []
        ).append(s)
    tables = plain_tables(crawl)
    for bucket, told in sorted(by_bucket.items()):
        rows = {
            r["host"]: r
            for r in tables.rows("hostdb", TABLES["hostdb"].column_names, {"host_bucket": [bucket]})
        }
        for s in told:
            rows[s.host] = _host_row(rows.get(s.host), s, bucket, round_, crawl)
        tables.replace("hostdb", list(rows.values()), {"host_bucket": [bucket]})


def _host_row(
    row: Mapping[str, Any] | None,
    state: host_state.HostState,
    bucket: int,
    round_: Round,
    crawl: Crawl,
) -> dict[str, Any]:
    now = time.time()
    permit = host_state.may_send(state, now, crawl.cfg, is_page=False)
    new = dict(
        row
        or {
            "host": state.host,
            "domain": registered_domain(state.host),
            "host_bucket": bucket,
            "first_seen": round_.now,
            "pages": 0,
            "requests": 0,
            "flags": [],
            "blacklisted": False,
        }
    )
    return new | {
        "state_json": state.to_json(),
        "delay_ms": round(
            host_state.effective_delay_s(state, crawl.cfg.politeness, now).seconds * 1000
        ),
        "last_request_at": state.last_request_end,
        "next_allowed_at": permit.at if 0 < permit.at < 4e9 else None,
        "retry_after_until": state.retry_after_until or None,
        "last_ips": state.last_ips,
        "quota_used": state.quota_used,
        "quota_day": str(state.quota_day),
        "cycle_used": state.cycle_used,
        "cycle_day": state.cycle_day,
    }
