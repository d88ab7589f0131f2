"""Operator commands: each a row of `commands`, done once however often it is sent.

What stops or slows a host goes into the standing orders at once (adapters/store/stop_list.py); what
changes tables waits as an object `control/pending/{id}.json` for the next `generate`, which holds
the commit lock. The row is written last, so that a command whose row is stored was done; a command
that was cut off is completed by sending it again.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from crawlkit.adapters.lake.table_reader import Part
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
    """Run one command; its result.

    given: arguments of the command (rules/frontier/command_rules.py). dry_run: check and report,
    change nothing. wait: abandon waits for the tasks. Raises BadCommand (also for an id that was
    used for something else), CrawlError (no such round), LockHeld, OSError.
    """
    order = check(verb, given, crawl.cfg)
    command_id = command_id or uuid.uuid4().hex
    if not _ID.fullmatch(command_id):
        raise BadCommand("command_id: use up to 80 letters, digits and _ . : + -")
    state = crawl.round(order.target).state if verb in ROUND_VERBS else "open"
    result = {
        "command_id": command_id,
        "verb": verb,
        "target": order.target,
        "arguments": order.arguments,
        "refused": order.refused,
        "dry_run": dry_run,
        "repeated": False,
    }
    if verb in URL_VERBS:
        result |= _count_urls(crawl, order, len(given["urls"]))
    if dry_run:
        _check_open(order, state)
        return result
    result["repeated"] = not _run_once(crawl, order, state, _row(order, command_id, actor))
    if verb == "abandon":
        result["state"] = finish_abandoned(crawl, crawl.round(order.target), wait)
    return result


def _count_urls(crawl: Crawl, order: Order, n_given: int) -> dict[str, int]:
    """How many URLs of a command are new, given twice or known, and queued."""
    urls = order.arguments["urls"]
    known = known_urls(crawl, urls)
    return {
        "added": len(urls) - len(known),
        "duplicates": len(known) + n_given - len(order.refused) - len(urls),
        "queued": len(urls),
    }


def _check_open(order: Order, state: str) -> None:
    """Raises BadCommand if the command is about a round that is over."""
    if state != "open":
        raise BadCommand(f"round {order.target} is {state}: only an open one takes {order.verb}")


def _row(order: Order, command_id: str, actor: str) -> dict[str, Any]:
    """The command as a row of `commands`."""
    return {
        "command_id": command_id,
        "at": time.time(),
        "verb": order.verb,
        "target": order.target,
        "arguments": json.dumps(order.arguments, sort_keys=True),
        "actor": actor[:200],
    }


def _run_once(crawl: Crawl, order: Order, state: str, row: dict[str, Any]) -> bool:
    """Run a command and store its row, unless the row is there; whether it was run.

    Raises BadCommand.
    """
    with crawl.commands_lock() as lock:
        tables = crawl.plain_tables(lock)
        before = tables.rows("commands", COLUMNS, {"command_id": [row["command_id"]]})
        if before and any(before[0][k] != row[k] for k in ("verb", "target", "arguments")):
            raise BadCommand(
                f"command_id {row['command_id']} was used for another command"
                f" ({before[0]['verb']} {before[0]['target']}): give a new one"
            )
        if before:
            return False
        _check_open(order, state)
        _take_effect(crawl, order, row)
        tables.append("commands", [row])
    return True


def _take_effect(crawl: Crawl, order: Order, row: Mapping[str, Any]) -> None:
    """Change the standing orders, and leave the rest for the next `generate`."""
    if order.verb not in URL_VERBS:
        change_orders(crawl.objects, partial(_change, order))
    if order.verb not in ROUND_VERBS:
        put_pending(crawl.objects, row)


def _change(order: Order, orders: dict[str, Any]) -> None:
    """Put a command into the standing orders (adapters/store/stop_list.py)."""
    verb = order.verb
    target = order.target
    args = order.arguments
    if verb in ROUND_VERBS:
        others = {*orders["paused"]} - {target}
        orders["paused"] = sorted(others | {target} if verb == "pause" else others)
        if verb == "abandon":
            orders["abandoned"] = sorted({*orders["abandoned"], target})
    elif verb == "host_set" or args.get("action") == "slow":
        before = orders["policies"].get(target, {})
        orders["policies"][target] = {
            "delay_s": args["delay_s"],
            "parallel": args.get("parallel", 1),
            "quota_max": args.get("quota_max"),
            "cycle_quota_max": args.get("cycle_quota_max"),
            **{name: args.get(name, before.get(name)) for name in ("recrawl", "weight")},
        }
    elif verb == "unblock":
        orders[args["kind"] + "s"].pop(target, None)
    else:
        orders[args["kind"] + "s"][target] = args["reason"] or verb


def known_urls(crawl: Crawl, urls: Sequence[str]) -> set[str]:
    """Which of some canonical URLs the crawl knows: in crawldb, its log, or a waiting command."""
    if not urls:
        return set()
    n = crawl.cfg.frontier.buckets
    buckets = sorted({host_bucket(registered_domain(host_of(u)), n) for u in urls})
    tables, url_of = crawl.plain_tables(), {url_key(u): u for u in urls}
    part: Part = {"host_bucket": buckets, "url_key": list(url_of)}
    stored = {
        url_of[row["url_key"]]
        for name in ("crawldb", "crawldb_log")
        for row in tables.rows(name, ["url_key"], part)
    }
    waiting = [c for c in read_pending(crawl.objects) if c["verb"] in URL_VERBS]
    return stored | {u for c in waiting for u in c["arguments"]["urls"]} & set(urls)
