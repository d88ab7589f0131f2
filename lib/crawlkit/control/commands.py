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

from crawlkit.adapters.store.pending_commands import put_pending, read_pending
from crawlkit.adapters.store.stop_list import change_orders
from crawlkit.crawl.abandon import finish_abandoned
from crawlkit.crawl.state import Crawl
from crawlkit.rules.frontier.command_rules import (
    COLUMNS,
    ROUND_VERBS,
    URL_VERBS,
    BadCommand,
    Order,
    check,
)
from crawlkit.rules.url.canonical import host_of, url_key
from crawlkit.rules.url.domains import host_bucket, registered_domain

_ID = re.compile(r"[A-Za-z0-9_.:+-]{1,80}")


def run_command(
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
    with crawl.commands_lock() as lock:
        tables = crawl.plain_tables(lock)
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
        put_pending(crawl.objects, row)


def known_urls(crawl: Crawl, urls: Sequence[str]) -> set[str]:
    """Which of some canonical URLs the crawl knows already (in crawldb, its log, or on their way
    there).
    """
    if not urls:
        return set()
    buckets = sorted(
        {host_bucket(registered_domain(host_of(u)), crawl.cfg.frontier.buckets) for u in urls}
    )
    tables, keys = crawl.plain_tables(), {url_key(u): u for u in urls}
    found = {
        keys[r["url_key"]]
        for name in ("crawldb", "crawldb_log")
        for r in tables.rows(name, ["url_key"], {"host_bucket": buckets, "url_key": list(keys)})
    }
    waiting = {
        u
        for c in read_pending(crawl.objects)
        if c["verb"] in URL_VERBS
        for u in c["arguments"]["urls"]
    }
    return found | (waiting & set(urls))
