"""Operator commands: each a row of `commands`, done once however often it is sent.

What stops or slows a host goes into the standing orders at once (adapters/store/stop_list.py); what changes
tables waits as an object `control/pending/{id}.json` for the next `generate`, which holds the
commit lock. The row is written last, so that a command whose row is there was done; a command cut
off in the middle is done again by sending it again.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from crawlkit.adapters.lake.delta import Tables
from crawlkit.adapters.store.flock import FileLock
from crawlkit.adapters.store.lease import LeaseLock
from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.adapters.store.stop_list import Orders, change_orders
from crawlkit.round.state import Crawl
from crawlkit.rules.frontier.command_rules import ROUND_VERBS, URL_VERBS, BadCommand, Order, check
from crawlkit.rules.url.canonical import host_of, url_key
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.tables import TABLES

COLUMNS = ("command_id", "at", "verb", "target", "arguments", "actor")
LOCK_WAIT_S = 30.0
PENDING = "control/pending/"
_ID = re.compile(r"[A-Za-z0-9_.:+-]{1,80}")


def plain_tables(crawl: Crawl, lock: FileLock | LeaseLock | None = None) -> Tables:
    """The tables without a Spark session; what is written needs `lock` (default: the commit
    lock).
    """

    def none() -> Any:
        raise RuntimeError("no Spark session here")

    return crawl.tables(none, (lock or crawl.lock).check)


def commands_lock(crawl: Crawl) -> FileLock | LeaseLock:
    """Held while a command is done; never for longer than that."""
    what = f"the lock of commands of {crawl.data}"
    if isinstance(crawl.objects, LocalObjects):
        return FileLock(crawl.objects.root / "control/commands.lock", what, LOCK_WAIT_S)
    return LeaseLock(crawl.objects, "control/commands.lock", what, crawl.cfg.lease, LOCK_WAIT_S)


def give(
    crawl: Crawl,
    verb: str,
    given: Mapping[str, Any],
    *,
    actor: str,
    command_id: str | None = None,
    dry_run: bool = False,
    wait: bool = False,
) -> dict[str, Any]:
    """Do one command; what it says of itself. `dry_run`: checks and tells, changes nothing.

    `wait`: abandon waits for the tasks.

    Raises BadCommand (also for an id that was used for something else), CrawlError (no such round),
    LockHeld, OSError.
    """
    order = check(verb, given, crawl.cfg)
    command_id = command_id or uuid.uuid4().hex
    if not _ID.fullmatch(command_id):
        raise BadCommand("command_id: use up to 80 letters, digits and _ . : + -")
    state = crawl.round(order.target).state if verb in ROUND_VERBS else "open"
    known = known_urls(crawl, order.arguments["urls"]) if verb in URL_VERBS else set()
    told = {
        "command_id": command_id,
        "verb": verb,
        "target": order.target,
        "arguments": order.arguments,
        "refused": order.refused,
        "dry_run": dry_run,
        "repeated": False,
    }
    if verb in URL_VERBS:
        told |= {
            "added": len(order.arguments["urls"]) - len(known),
            "duplicates": (
                len(known) + len(given["urls"]) - len(order.refused) - len(order.arguments["urls"])
            ),
            "queued": len(order.arguments["urls"]),
        }
    if dry_run and state != "open":
        raise BadCommand(f"round {order.target} is {state}: only an open one can be told to {verb}")
    if dry_run:
        return told
    row = {
        "command_id": command_id,
        "at": time.time(),
        "verb": verb,
        "target": order.target,
        "arguments": json.dumps(order.arguments, sort_keys=True),
        "actor": actor[:200],
    }
    with commands_lock(crawl) as lock:
        tables = plain_tables(crawl, lock)
        before = tables.rows("commands", COLUMNS, {"command_id": [command_id]})
        if before and any(before[0][k] != row[k] for k in ("verb", "target", "arguments")):
            raise BadCommand(
                f"command_id {command_id} was used for another command ({before[0]['verb']}"
                f" {before[0]['target']}): give a new one"
            )
        if not before and state != "open":
            raise BadCommand(
                f"round {order.target} is {state}: only an open one can be told to {verb}"
            )
        if not before:
            _take_effect(crawl, order, row)
            tables.append("commands", [row])
    told["repeated"] = bool(before)
    if verb == "abandon":
        from crawlkit.round.command_intake import finish_abandoned

        told["state"] = finish_abandoned(crawl, crawl.round(order.target), wait)
    return told


def _take_effect(crawl: Crawl, order: Order, row: Mapping[str, Any]) -> None:
    verb, target, args = order.verb, order.target, order.arguments

    def change(orders: dict[str, Any]) -> None:
        if verb in ROUND_VERBS:
            orders["paused"] = sorted(
                {*orders["paused"], target} if verb == "pause" else {*orders["paused"]} - {target}
            )
            if verb == "abandon":
                orders["abandoned"] = sorted({*orders["abandoned"], target})
        elif verb == "host_set" or args.get("action") == "slow":
            orders["policies"][target] = {
                "delay_s": args["delay_s"],
                "parallel": args.get("parallel", 1),
                "quota_max": args.get("quota_max"),
                "cycle_quota_max": args.get("cycle_quota_max"),
            }
        elif verb == "unblock":
            orders[args["kind"] + "s"].pop(target, None)
        else:
            orders[args["kind"] + "s"][target] = args["reason"] or verb

    if verb not in URL_VERBS:
        change_orders(crawl.objects, change)
    if verb not in ROUND_VERBS:
        crawl.objects.put(f"{PENDING}{row['command_id']}.json", json.dumps(dict(row)).encode())


def pending(crawl: Crawl) -> list[dict[str, Any]]:
    """Commands that no round has taken yet, oldest first, with their arguments read."""
    rows = [json.loads(crawl.objects.get(key)[0]) for key in crawl.objects.list(PENDING)]
    return sorted(
        (r | {"arguments": json.loads(r["arguments"])} for r in rows),
        key=lambda r: (r["at"], r["command_id"]),
    )


def known_urls(crawl: Crawl, urls: Sequence[str]) -> set[str]:
    """Which of some canonical URLs the crawl knows already (in crawldb, its log, or on their way
    there).
    """
    if not urls:
        return set()
    buckets = sorted(
        {host_bucket(registered_domain(host_of(u)), crawl.cfg.frontier.buckets) for u in urls}
    )
    tables, keys = plain_tables(crawl), {url_key(u): u for u in urls}
    found = {
        keys[r["url_key"]]
        for name in ("crawldb", "crawldb_log")
        for r in tables.rows(name, ["url_key"], {"host_bucket": buckets, "url_key": list(keys)})
    }
    waiting = {u for c in pending(crawl) if c["verb"] in URL_VERBS for u in c["arguments"]["urls"]}
    return found | (waiting & set(urls))


def apply_to_hosts(
    crawl: Crawl, tables: Tables, orders: Orders, commands: Sequence[Mapping[str, Any]], now: float
) -> int:
    """Bring blocks and their ends into `hostdb`; how many rows changed.

    The caller holds the commit lock.
    """
    changed = 0
    for bucket, names in sorted(_by_bucket(crawl, commands).items()):
        part = {"host_bucket": [bucket]}
        rows = tables.rows("hostdb", TABLES["hostdb"].column_names, part)
        have = {r["host"] for r in rows}
        rows += [
            {
                "host": h,
                "domain": registered_domain(h),
                "host_bucket": bucket,
                "first_seen": now,
                "pages": 0,
                "requests": 0,
                "flags": [],
            }
            for h in sorted(names["host"] - have)
        ]
        touched = [r for r in rows if r["host"] in names["host"] or r["domain"] in names["domain"]]
        for r in touched:
            reason = orders.stopped(r["host"], r["domain"])
            r |= {"blacklisted": reason is not None, "reason": reason}
        if touched:
            tables.replace("hostdb", rows, part)
            changed += len(touched)
    return changed


def _by_bucket(
    crawl: Crawl, commands: Sequence[Mapping[str, Any]]
) -> dict[int, dict[str, set[str]]]:
    found: dict[int, dict[str, set[str]]] = {}
    for c in commands:
        if c["verb"] not in URL_VERBS:
            bucket = host_bucket(registered_domain(c["target"]), crawl.cfg.frontier.buckets)
            found.setdefault(bucket, {"host": set(), "domain": set()})[c["arguments"]["kind"]].add(
                c["target"]
            )
    return found
