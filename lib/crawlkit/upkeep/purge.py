"""`crawlkit purge`: removes what is stored of a host, a domain or a URL.

Tables, WARC files, the rounds' part manifests, pings and subscriptions are cleaned. What remains:
the addresses (state refused, reason purged, so that they are not fetched again), the times of the
requests (the pace can be audited), and a row in `commands` that records who had what removed. A
host or domain is blocked first.

Every step can be repeated. A plan is written before the first and deleted after the last: killed,
the same command goes on with it, and the WARC files that it replaces are deleted although no
capture names them any more.
"""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.adapters.warc.kept_scripts import forget_scripts
from crawlkit.control.commands import run_command
from crawlkit.control.websub import drop_subscriptions
from crawlkit.crawl.state import Crawl, CrawlError
from crawlkit.crawl.waiting_pings import drop_pings
from crawlkit.engine.frame import Frame
from crawlkit.outcomes import Reason
from crawlkit.round.job import Job
from crawlkit.rules.url.domains import registered_domain
from crawlkit.tables import TABLES
from crawlkit.upkeep.frame_rows import distinct
from crawlkit.upkeep.purge_contents import remove_contents
from crawlkit.upkeep.purge_target import Target, target_of

PLANS = "control/purge/"


def purge(
    job: Job, kind: str, name: str, reason: str, actor: str, dry_run: bool = False
) -> dict[str, Any]:
    """Removes it; counts. `repeated`: nothing was left to remove, nothing was changed.

    Raises CrawlError while a round is open, BadCommand, Refused (no such URL; a damaged WARC file),
    LockHeld.
    """
    crawl = job.crawl
    _check_no_round_open(crawl)
    target = target_of(crawl, kind, name)
    result = {
        "kind": kind,
        "target": target.name,
        "hosts": target.hosts,
        "dry_run": dry_run,
        "repeated": False,
    }
    job.report_step(f"looking for what is stored of {target.name}")
    captures = target.of(job.read("captures"))
    stored = _count_stored(captures)
    told = _forget_told(crawl, target, dry_run=True)
    plan_key = f"{PLANS}{hashlib.sha256(str(target).encode()).hexdigest()[:32]}.json"
    has_plan = bool(crawl.objects.list(plan_key))
    if dry_run:
        return result | stored | told
    _block(crawl, target, reason, actor)
    if not has_plan and not stored["captures"] and not any(told.values()):
        return result | stored | {"repeated": True}
    plan = _write_plan(job, plan_key, captures, stored)
    done = _carry_out(job, target, plan)
    command_id = f"purge-{plan_key.split('/')[-1][:16]}-{plan['at']:.0f}"
    _record(crawl, command_id, target, reason, actor, done)
    crawl.objects.delete(plan_key)
    return result | done | {"command_id": command_id}


def _check_no_round_open(crawl: Crawl) -> None:
    """Raises CrawlError."""
    if open_ := [r.id for r in crawl.open_rounds()]:
        raise CrawlError(
            f"round {', '.join(open_)} is open: finish it (`crawlkit round`) or end it (`crawlkit"
            f" abandon {open_[0]}`), then purge; `crawlkit block` stops it at once"
        )


def _count_stored(captures: Frame) -> dict[str, int]:
    """Captures that are not purged yet, and captures with a WARC record."""
    return {
        "captures": captures.where(f"reason IS NULL OR reason <> '{Reason.PURGED}'").count(),
        "records": captures.where("warc_filename IS NOT NULL").count(),
    }


def _block(crawl: Crawl, target: Target, reason: str, actor: str) -> None:
    """Block a host or domain, unless all its hosts are blocked already."""
    if target.kind == "url":
        return
    orders = read_orders(crawl.objects)
    if any(orders.stopped(h, registered_domain(h)) is None for h in target.hosts):
        arguments = {target.kind: target.name, "reason": reason or "purged"}
        run_command(crawl, "block", arguments, actor=actor)


def _write_plan(job: Job, key: str, captures: Frame, stored: dict[str, int]) -> dict[str, Any]:
    """The plan of this purge: an earlier one that was not finished, else a new one."""
    files = sorted(_files_of(captures) | _unreferenced_files(job))
    plan = json.dumps({"files": files, "at": time.time(), **stored})
    job.crawl.objects.put_if_absent(key, plan.encode())
    return json.loads(job.crawl.objects.get(key)[0])


def _files_of(captures: Frame) -> set[str]:
    """The WARC files that captures name."""
    stored = captures.where("warc_filename IS NOT NULL")
    return {name for (name,) in distinct(stored, "warc_filename")}


def _unreferenced_files(job: Job) -> set[str]:
    """WARC files that no capture names.

    They are of killed attempts and abandoned rounds, or hold only a log.
    """
    stored = {key for key in job.crawl.warc.list() if key.endswith(".warc.gz")}
    return stored - _files_of(job.read("captures"))


def _carry_out(job: Job, target: Target, plan: dict[str, Any]) -> dict[str, Any]:
    """Remove what a plan lists; counts."""
    crawl = job.crawl
    job.report_step(f"removing it from {len(plan['files'])} WARC files and from the tables")
    with crawl.lock:
        # no round was opened since: older versions of the tables are deleted, and with them files
        # that no commit names yet
        _check_no_round_open(crawl)
        counts = remove_contents(job, target, plan["files"])
        forget_scripts(crawl.objects, target.hosts)
        counts |= _forget_told(crawl, target)
        for name in set(plan["files"]) & set(counts.pop("replaced")):
            crawl.warc.delete(name)
    return {"captures": plan["captures"], "records": plan["records"], **counts}


def _forget_told(crawl: Crawl, target: Target, dry_run: bool = False) -> dict[str, int]:
    """Drop what webmasters and hubs are to tell, or have told, of the target; counts."""
    is_target = target.matches_uri()
    return {
        "pings": drop_pings(crawl.objects, is_target, dry_run),
        "subscriptions": drop_subscriptions(crawl, is_target, dry_run),
    }


def _record(
    crawl: Crawl, command_id: str, target: Target, reason: str, actor: str, done: dict[str, Any]
) -> None:
    """Add the purge to `commands`, once."""
    arguments = {"kind": target.kind, "reason": reason, **done}
    row = {
        "command_id": command_id,
        "at": time.time(),
        "verb": "purge",
        "target": target.name,
        "arguments": json.dumps(arguments, sort_keys=True),
        "actor": actor[:200],
    }
    with crawl.commands_lock() as lock:
        tables = crawl.plain_tables(lock)
        if not tables.rows("commands", ["command_id"], {"command_id": [command_id]}):
            tables.append("commands", [row])


def purge_text(t: dict[str, Any]) -> str:
    """The result of purge for a terminal."""
    if t["repeated"]:
        return f"{t['kind']} {t['target']}: nothing is stored of it"
    head = (
        f"{t['kind']} {t['target']}: {'would remove ' if t['dry_run'] else ''}{t['captures']}"
        f" captures with {t['records']} WARC records, {t['pings']} pings, {t['subscriptions']}"
        " subscriptions"
    )
    if t["dry_run"]:
        return head
    rows = ", ".join(f"{k} {t[k]}" for k in TABLES if k in t and k != "captures")
    return (
        f"{head} removed from {t['files']} files; rows of other tables: {rows or 'none'};"
        f" {t['refetched']} other URLs had their only copy there and are fetched again\ncommand"
        f" {t['command_id']}"
    )
