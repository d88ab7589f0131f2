"""What a round takes from its operators: waiting commands -> found rows of the log and `hostdb`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from crawlkit.adapters.lake.delta import Tables
from crawlkit.adapters.lake.table_reader import Part
from crawlkit.adapters.store.pending_commands import delete_pending, read_pending
from crawlkit.adapters.store.stop_list import Orders, read_orders
from crawlkit.crawl.open_crawl import OpenCrawl
from crawlkit.crawl.state import Crawl
from crawlkit.crawl.waiting_pings import settle_pings
from crawlkit.model import Round
from crawlkit.rules.frontier.claims import HINT_SOURCES, Claims
from crawlkit.rules.frontier.command_rules import COLUMNS, URL_VERBS, found_rows
from crawlkit.rules.url.canonical import host_of
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.tables import TABLES


def take_commands(job: OpenCrawl, round_: Round) -> tuple[list[int], list[bytes]]:
    """What operators have asked for since the last round -> found rows of this one, and `hostdb`.

    Returns the buckets with such rows, or with hosts that have another category, and the keys of
    URLs that are to be fetched at once. The caller holds the commit lock; a round that was cut off
    here finds its commands again.
    """
    crawl = job.crawl
    n = crawl.cfg.frontier.buckets
    _reject(job, round_, settle_pings(crawl.objects, job.tables, round_, n, time.time()))
    taken = {c["command_id"]: c for c in (crawl.mark(round_, "commands") or {}).get("commands", [])}
    waiting = read_pending(crawl.objects)
    if waiting:
        taken |= {c["command_id"]: c for c in waiting}
        crawl.set_mark(round_, "commands", {"commands": list(taken.values())})
        _keep_rows(job, waiting)
    commands = list(taken.values())
    of_urls = [c for c in commands if c["verb"] in URL_VERBS]
    rows = found_rows(of_urls, round_.now, n, _doubted_hosts(job.tables, of_urls, round_.now, n))
    if rows:
        mine = {"round_id": round_.id, "writer": "commands", "updated_no": round_.no}
        job.tables.replace(
            "crawldb_log",
            [r | mine for r in rows],
            {"round_id": [round_.id], "writer": ["commands"]},
        )
    apply_to_hosts(crawl, job.tables, read_orders(crawl.objects), commands, round_.now)
    for c in waiting:
        delete_pending(crawl.objects, c["command_id"])
    scheduled = [c["target"] for c in commands if c["arguments"].get("recrawl")]
    buckets = {r["host_bucket"] for r in rows} | {
        host_bucket(registered_domain(host), n) for host in scheduled
    }
    return sorted(buckets), [r["url_key"] for r in rows if r["force"]]


def _reject(job: OpenCrawl, round_: Round, refused: Sequence[Mapping[str, Any]]) -> None:
    """Store what pings named in vain."""
    if refused:
        same = {"round_id": round_.id, "stage": "commands"}
        rows = [{**r, **same, "n": n} for n, r in enumerate(refused)]
        job.tables.replace("rejects", rows, {k: [v] for k, v in same.items()})


def _doubted_hosts(
    tables: Tables, commands: Sequence[Mapping[str, Any]], now: float, buckets: int
) -> set[str]:
    """Hosts about which hints of others than operators have proved wrong."""
    claimed = [c for c in commands if c["arguments"].get("source") in HINT_SOURCES]
    hosts = sorted({host_of(u) for c in claimed for u in c["arguments"]["urls"]})
    places = sorted({host_bucket(registered_domain(h), buckets) for h in hosts})
    columns = ["host", "hints_true", "hints_false", "hints_at"]
    part: Part = {"host_bucket": places, "host": hosts}
    return {
        r["host"]
        for r in (tables.rows("hostdb", columns, part) if hosts else ())
        if not Claims(r["hints_true"] or 0.0, r["hints_false"] or 0.0, r["hints_at"]).is_believed(
            now
        )
    }


def _keep_rows(job: OpenCrawl, commands: list[dict[str, Any]]) -> None:
    """Rows of commands whose sender died before it wrote them."""
    ids = [c["command_id"] for c in commands]
    with job.crawl.commands_lock() as lock:
        tables = job.crawl.plain_tables(lock)
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
