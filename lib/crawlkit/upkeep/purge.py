"""`crawlkit purge`: what was stored of a host, a domain or a URL is removed from tables, WARC files
and the round's parts (REQUIREMENTS D11).

What remains: its addresses (state refused, reason purged, so that they are not fetched again), when
they were asked (the pace can be audited), and a row in `commands` that says who had what removed. A
host or domain is blocked first.

Every step can be repeated. A plan is written before the first and deleted after the last: killed,
the same command goes on with it, and the WARC files that it replaces are deleted although no
capture names them any more.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, functions as F

from crawlkit.adapters.lake.sql_text import in_list
from crawlkit.adapters.store.parts import encode_part, part_keys, read_part
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.adapters.warc.rewrite import KEPT, blanked
from crawlkit.control.commands import run_command
from crawlkit.crawl.state import Crawl, CrawlError
from crawlkit.model import Capture, RobotsCopy
from crawlkit.outcomes import Outcome, Reason, State
from crawlkit.round.job import Job
from crawlkit.rules.frontier.command_rules import host_name
from crawlkit.rules.url.canonical import canonicalize, host_of, url_key
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.warc.stored_http import target_uri
from crawlkit.stages.cluster import cluster
from crawlkit.stages.fold import bucket_summary, live_log, reduce_rows
from crawlkit.tables import TABLES
from crawlkit.upkeep.warc_swap import Moves, followed, rewritten, rounds_of

PLANS = "control/purge/"
_FORGOTTEN = (
    "capture_id",
    "body_sha256",
    "text_sha256",
    "payload_digest",
    "simhash",
    "etag",
    "last_modified",
    "content_type",
    "content_length",
    "fetched_at",
    "copy_url",
    "outlinks",
    "last_fetch",
    "last_status",
    "next_fetch",
    "interval_s",
    "error_detail",
)


class Target(NamedTuple):
    """What is to go. kind: host, domain or url; hosts: those concerned."""

    kind: str
    name: str
    hosts: list[str]

    def gone(self) -> Callable[[str], bool]:
        """Whether a WARC record's target URI is of it."""
        if self.kind == "url":
            uri = target_uri(self.name)
            return lambda found: found == uri
        names = set(self.hosts)
        return lambda found: "://" in found and host_of(found) in names

    def column(self) -> "Column":
        """The same of rows with host and url_key."""

        return (
            F.col("url_key") == F.lit(url_key(self.name))
            if self.kind == "url"
            else F.col("host").isin(self.hosts)
        )

    def buckets(self, n: int) -> set[int]:
        return {host_bucket(registered_domain(h), n) for h in self.hosts}


def target_of(crawl: Crawl, kind: str, name: str) -> Target:
    """Raises Refused, BadCommand."""
    if kind == "url":
        url = canonicalize(name, policy=UrlPolicy.of(crawl.cfg.urls))
        return Target(kind, url, [host_of(url)])
    name = host_name(name, kind)
    if kind == "host":
        return Target(kind, name, [name])
    rows = crawl.plain_tables().rows(
        "crawldb",
        ["host", "domain"],
        {"host_bucket": [host_bucket(name, crawl.cfg.frontier.buckets)]},
    )
    return Target(kind, name, sorted({r["host"] for r in rows if r["domain"] == name} | {name}))


def purge(
    job: Job, kind: str, name: str, reason: str, actor: str, dry_run: bool = False
) -> dict[str, Any]:
    """Removes it; counts. `repeated`: nothing was left to remove, nothing was changed.

    Raises CrawlError while a round is open, BadCommand, Refused (no such URL; a damaged WARC file),
    LockHeld.
    """
    crawl = job.crawl
    _no_round_open(crawl)
    target = target_of(crawl, kind, name)
    told = {
        "kind": kind,
        "target": target.name,
        "hosts": target.hosts,
        "dry_run": dry_run,
        "repeated": False,
    }
    plan_key = f"{PLANS}{hashlib.sha256(f'{kind} {target.name}'.encode()).hexdigest()[:32]}.json"
    job.report_step(f"looking for what is stored of {target.name}")
    mine = job.read("captures").where(target.column())
    stored = {
        "captures": mine.where(f"reason IS NULL OR reason <> '{Reason.PURGED}'").count(),
        "records": mine.where("warc_filename IS NOT NULL").count(),
    }
    planned = crawl.objects.list(plan_key)
    if dry_run:
        return told | stored
    if kind != "url" and any(
        read_orders(crawl.objects).stopped(h, registered_domain(h)) is None for h in target.hosts
    ):
        run_command(crawl, "block", {kind: target.name, "reason": reason or "purged"}, actor=actor)
    if not planned and not stored["captures"]:
        return told | stored | {"repeated": True}
    files = sorted(
        {
            r[0]
            for r in (
                mine.where("warc_filename IS NOT NULL").select("warc_filename").distinct().collect()
            )
        }
        | _unnamed(job)
    )
    crawl.objects.put_if_absent(
        plan_key, json.dumps({"files": files, "at": time.time(), **stored}).encode()
    )
    plan = json.loads(crawl.objects.get(plan_key)[0])
    job.report_step(f"removing it from {len(plan['files'])} WARC files and from the tables")
    with crawl.lock:
        _no_round_open(
            crawl
            # nor since: older versions of the tables go, and with them files that no commit names
            # yet
        )
        done = {
            "captures": plan["captures"],
            "records": plan["records"],
            **_remove(job, target, plan["files"]),
        }
        for name in set(plan["files"]) & set(done.pop("replaced")):
            crawl.warc.delete(name)
    with crawl.commands_lock() as lock:
        tables = crawl.plain_tables(lock)
        command_id = f"purge-{plan_key.split('/')[-1][:16]}-{plan['at']:.0f}"
        if not tables.rows("commands", ["command_id"], {"command_id": [command_id]}):
            tables.append(
                "commands",
                [
                    {
                        "command_id": command_id,
                        "at": time.time(),
                        "verb": "purge",
                        "target": target.name,
                        "arguments": json.dumps(
                            {"kind": kind, "reason": reason, **done}, sort_keys=True
                        ),
                        "actor": actor[:200],
                    }
                ],
            )
    crawl.objects.delete(plan_key)
    return told | done | {"command_id": command_id}


def _no_round_open(crawl: Crawl) -> None:
    """Raises CrawlError."""
    if open_ := [r.id for r in crawl.open_rounds()]:
        raise CrawlError(
            f"round {', '.join(open_)} is open: finish it (`crawlkit round`) or end it (`crawlkit"
            f" abandon {open_[0]}`), then purge; `crawlkit block` stops it at once"
        )


def _unnamed(job: Job) -> set[str]:
    """WARC files that no capture names: of killed attempts and abandoned rounds, and those that are
    only a log.
    """
    named = {
        r[0]
        for r in (
            job.read("captures")
            .where("warc_filename IS NOT NULL")
            .select("warc_filename")
            .distinct()
            .collect()
        )
    }
    return {key for key in job.crawl.warc.list() if key.endswith(".warc.gz")} - named


def _remove(job: Job, target: Target, files: list[str]) -> dict[str, Any]:
    """The steps under the commit lock; counts, and the WARC files that may be deleted
    (`replaced`).
    """
    uri = target.gone()
    new = {
        name: rewritten(
            job, name, f"{target.kind} {target.name}", lambda record: uri(record.url), uri
        )
        for name in files
        if name in job.crawl.warc.list(name)
    }
    moves = {name: place for name, place in new.items() if place is not None}
    ids = job.read("captures").where(target.column()).select("capture_id", "round_id").persist()
    try:
        rounds = sorted(r[0] for r in ids.select("round_id").distinct().collect())
        lost = (
            job.read("captures")
            .where(~target.column())
            .join(ids.selectExpr("capture_id AS revisit_of"), "revisit_of", "left_semi")
            .select("revisit_of", "url_key", "host")
            .distinct()
            .persist()
        )
        counts: dict[str, Any] = {
            "files": len(moves),
            "replaced": sorted(moves),
            "refetched": _forget_rows(job, target, lost),
        }
        _blank_captures(job, target, rounds, moves)
        counts |= _drop_rows(job, target, ids, rounds)
        counts["parts"] = _blank_parts(job, target)
    finally:
        ids.unpersist()
    for name in set(TABLES) - {
        "commands"
    }:  # that one is added to without the commit lock, and tells nothing of what was stored
        job.tables.compact(name, 0)  # older versions of the tables hold what is to go
    return counts


def _blank_captures(job: Job, target: Target, rounds: list[str], moves: Moves) -> None:
    """Captures of the target keep that they were asked; those beside them follow their records into
    the new files, in one commit.
    """

    part = {"round_id": sorted({*rounds, *rounds_of(job, moves)})}
    if not part["round_id"]:
        return
    is_target = target.column()
    kept = {
        c: F.when(is_target, F.lit(None)).otherwise(F.col(c))
        for c in TABLES["captures"].column_names
        if c not in KEPT
    }
    kept |= {
        "outcome": F.when(is_target, str(Outcome.REFUSED)).otherwise(F.col("outcome")),
        "reason": F.when(is_target, str(Reason.PURGED)).otherwise(F.col("reason")),
    }
    job.tables.replace(
        "captures", followed(job, job.read("captures", part), moves).withColumns(kept), part
    )


def _drop_rows(job: Job, target: Target, ids: "DataFrame", rounds: list[str]) -> dict[str, int]:
    """Rows of the target in every other table that holds contents; counts."""

    counts: Counter[str] = Counter()
    gone = ids.select("capture_id")

    def keep(table: str, rows: "DataFrame", part: dict[str, Any] | None) -> None:
        n = job.tables.count(table, part) - rows.count()
        if n:
            counts[table] += n
            job.tables.replace(table, rows, part)

    here = {"round_id": rounds}
    if rounds:
        for table in ("pages", "links", "rejects", "contents", "sim_bands"):
            if job.tables.exists(table):
                keep(table, job.read(table, here).join(gone, "capture_id", "left_anti"), here)
    if job.tables.exists("similar"):
        pairs = (
            job.read("similar")
            .join(gone.withColumnRenamed("capture_id", "a_capture"), "a_capture", "left_anti")
            .join(gone.withColumnRenamed("capture_id", "b_capture"), "b_capture", "left_anti")
        )
        keep(
            "similar",
            pairs,
            {
                "round_id": [
                    r[0] for r in job.read("similar").select("round_id").distinct().collect()
                ]
            },
        )
    for table in ("robots", "fetchlist"):
        if job.tables.exists(table) and (table != "robots" or target.kind != "url"):
            part = {
                "round_id": [
                    r[0]
                    for r in (
                        job.read(table)
                        .where(F.col("host").isin(target.hosts))
                        .select("round_id")
                        .distinct()
                        .collect()
                    )
                ]
            }
            if part["round_id"]:
                keep(
                    table,
                    job.read(table, part).where(
                        ~(
                            F.col("host").isin(target.hosts)
                            if table == "robots"
                            else target.column()
                        )
                    ),
                    part,
                )
    if counts["contents"] and job.tables.exists("duplicates"):
        job.tables.replace(
            "duplicates",
            cluster(job.spark, job.read("contents"), job.read("similar"), job.read("ranks")),
        )
    if job.tables.exists("param_rules"):
        keep("param_rules", job.read("param_rules").where(~F.col("host").isin(target.hosts)), None)
    return dict(counts)


def _forget_rows(job: Job, target: Target, lost: "DataFrame") -> int:
    """Frontier rows: the target's are refused and empty; URLs whose copy was kept only under the
    target are fetched anew. How many of these.
    """

    n = job.cfg.frontier.buckets
    anew = [
        (bytearray(r.url_key), r.revisit_of, host_bucket(registered_domain(r.host), n))
        for r in lost.collect()
    ]
    buckets = sorted(target.buckets(n) | {b for *_, b in anew})
    mine = {"host_bucket": buckets}
    log = live_log(
        job.read("crawldb_log").where(in_list("host_bucket", buckets)), job.read("buckets")
    )
    rows = reduce_rows(job.read("crawldb", mine), log)
    is_target = target.column()
    copies = F.broadcast(
        job.spark.createDataFrame([(k, c) for k, c, _ in anew], "url_key binary, lost string")
        .groupBy("url_key")
        .agg(F.collect_set("lost").alias("lost"))
    )
    rows = rows.join(copies, "url_key", "left").withColumn(
        "again",
        ~is_target & F.coalesce(F.array_contains("lost", F.col("capture_id")), F.lit(False)),
    )
    types = {c.name: c.type for c in TABLES["crawldb"].columns}
    again_forgets = (
        "capture_id",
        "payload_digest",
        "etag",
        "last_modified",
        "fetched_at",
        "copy_url",
    )
    changed = {
        c: (
            F.when(
                is_target | (F.col("again") if c in again_forgets else F.lit(False)), F.lit(None)
            )
            .otherwise(F.col(c))
            .cast(types[c])
        )
        for c in _FORGOTTEN
    }
    now = F.timestamp_micros(F.lit(round(time.time() * 1e6)))
    changed["next_fetch"] = (
        F.when(is_target, F.lit(None))
        .when(F.col("again") & F.col("next_fetch").isNotNull(), F.least("next_fetch", now))
        .otherwise(F.col("next_fetch"))
    )
    changed |= {
        "state": F.when(is_target, str(State.REFUSED)).otherwise(F.col("state")),
        "error_type": F.when(is_target, str(Reason.PURGED)).otherwise(F.col("error_type")),
        "history": F.when(is_target, "").otherwise(F.col("history")),
        "flags": F.when(is_target, F.array().cast("array<string>")).otherwise(F.col("flags")),
    }
    changed |= {
        c: F.when(is_target, 0).otherwise(F.col(c)) for c in ("n_fetch", "n_change", "retries")
    }
    job.tables.replace("crawldb", rows.withColumns(changed), mine)
    through = max((job.crawl.round(r).no for r in job.crawl.round_ids()), default=0)
    known = {
        r["host_bucket"]: r for r in job.tables.rows("buckets", TABLES["buckets"].column_names)
    }
    job.tables.replace(
        "buckets",
        list(
            (
                known
                | {
                    r.host_bucket: r.asDict()
                    for r in bucket_summary(job.read("crawldb", mine), through).collect()
                }
            ).values()
        ),
    )
    for name in (
        "crawldb_log",
        "injected",
    ):  # folded above; a found row of the target keeps its address
        if job.tables.exists(name):
            rest = job.read(name).where(~target.column() | (F.col("kind") == "found"))
            if job.tables.count(name) != rest.count():
                job.tables.replace(name, rest)
    return len(anew)


def _blank_parts(job: Job, target: Target) -> int:
    """The part manifests of all rounds, of abandoned ones too; how many were changed."""
    objects, n = job.crawl.objects, 0
    hosts, key = set(target.hosts), url_key(target.name) if target.kind == "url" else None
    for round_id in job.crawl.round_ids():
        for part in part_keys(objects, f"parts/{round_id}/"):
            records, changed = [], False
            for r in read_part(objects, part).records:
                if (
                    isinstance(r, Capture)
                    and (r.url_key == key if key else r.host in hosts)
                    and r.reason != Reason.PURGED
                ):
                    r, changed = blanked(r), True
                elif isinstance(r, RobotsCopy) and key is None and r.host in hosts:
                    changed = True
                    continue
                records.append(r)
            if changed:
                objects.put(part, encode_part(records))
                n += 1
    return n


def purge_text(t: dict[str, Any]) -> str:
    if t["repeated"]:
        return f"{t['kind']} {t['target']}: nothing is stored of it"
    head = (
        f"{t['kind']} {t['target']}: {'would remove ' if t['dry_run'] else ''}{t['captures']}"
        f" captures with {t['records']} WARC records"
    )
    if t["dry_run"]:
        return head
    rows = ", ".join(f"{k} {t[k]}" for k in TABLES if k in t and k != "captures")
    return (
        f"{head} removed from {t['files']} files; rows of other tables: {rows or 'none'};"
        f" {t['refetched']} other URLs had their only copy there and are fetched anew\ncommand"
        f" {t['command_id']}"
    )
