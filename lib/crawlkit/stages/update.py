"""update: fetch list, captures, pages -> state rows of crawldb_log; the fold into crawldb; hostdb;
buckets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from crawlkit.config import Config
from crawlkit.outcomes import Outcome
from crawlkit.rules.frontier.lifecycle import next_row
from crawlkit.rules.frontier.regions import region_of
from crawlkit.rules.frontier.schedule import host_class
from crawlkit.rules.politeness import breaker, host_state
from crawlkit.tables import ARROW, TABLES

ROW = TABLES["crawldb"].columns
SEEN_TYPES = (
    "outcome: string, reason: string, detail: string, status: int, record_type: string, own_digest:"
    " boolean, truncated: string, etag: string, last_modified: string, content_type: string,"
    " content_length: bigint, capture_id: string, fetched_at: double, copy_url: string,"
    " payload_digest: string, body_sha256: string, text_sha256: string, simhash: bigint, outlinks:"
    " int, page_flags: array<string>, retry_wait_s: double"
)


def _seconds(c: Column, type_: str) -> Column:
    return c.cast("double") if type_ == "timestamp" else c


def state_rows(
    fetchlist: DataFrame,
    captures: DataFrame,
    pages: DataFrame,
    states: DataFrame,
    round_id: str,
    round_no: int,
    now: float,
    cfg: Config,
) -> DataFrame:
    """State rows of crawldb_log for the round's page rows that are not deferred (a deferred URL
    stays as it was).

    states: host, state_json of the round's slots (the wait that a host asked for).
    """
    pages_planned = fetchlist.where("kind <> 'robots'").select(
        "url_key",
        F.struct(*[_seconds(F.col(c.name), c.type).alias(c.name) for c in ROW]).alias("row"),
    )
    done = captures.where(f"is_outcome AND kind <> 'robots' AND outcome <> '{Outcome.DEFERRED}'")
    wait = F.get_json_object("state_json", "$.retry_after_until").cast("double") - F.col(
        "ended"
    ).cast("double")
    seen = seen_of(
        done.join(states, "host", "left").withColumn("retry_wait_s", F.greatest(wait, F.lit(0.0))),
        pages,
        captures,
    )
    types = {c.name: "double" if c.type == "timestamp" else c.type for c in ROW}
    schema = ", ".join(f"`{n}` {t}" for n, t in types.items())

    def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            out = [
                next_row(r["row"], r["seen"], now, cfg) | {"updated_no": round_no}
                for r in batch.to_pylist()
            ]
            yield pa.RecordBatch.from_pylist(
                [{k: r.get(k) for k in types} for r in out], _arrow(types)
            )

    rows = pages_planned.join(seen, "url_key").select("row", "seen").mapInArrow(apply, schema)
    return rows.withColumns(
        {c.name: F.col(c.name).cast("timestamp") for c in ROW if c.type == "timestamp"}
        | {
            "round_id": F.lit(round_id),
            "writer": F.lit("update"),
            "kind": F.lit("state"),
            "seq": F.lit(0).cast("bigint"),
            "force": F.lit(False),
        }
    )


def seen_of(done: DataFrame, pages: DataFrame, captures: DataFrame) -> DataFrame:
    """url_key, capture_id, seen (as rules.lifecycle.next_row takes it) of outcomes with their
    retry_wait_s.

    captures: those among which the copies are that revisits refer to; the copy is what a row keeps,
    never the revisit.
    """
    copies = captures.where("record_type = 'response'").select(
        F.col("capture_id").alias("revisit_of"),
        F.col("url").alias("stored_url"),
        F.col("started").alias("stored_at"),
    )
    body = pages.select(
        F.col("capture_id"),
        "body_sha256",
        "text_sha256",
        "simhash",
        F.col("links").alias("outlinks"),
        F.col("flags").alias("page_flags"),
    )
    found = done.join(body, "capture_id", "left").join(copies, "revisit_of", "left")
    there = F.col("stored_at").isNotNull()
    return found.select(
        "url_key",
        "capture_id",
        F.struct(
            "outcome",
            "reason",
            "detail",
            "status",
            "record_type",
            (F.col("body_sha256").isNull() & (F.col("record_type") == "revisit")).alias(
                "own_digest"
            ),
            "truncated",
            "etag",
            "last_modified",
            "content_type",
            F.col("body_bytes").alias("content_length"),
            F.when(there, F.col("revisit_of")).otherwise(F.col("capture_id")).alias("capture_id"),
            F.coalesce("stored_at", "started").cast("double").alias("fetched_at"),
            F.when(F.col("stored_url") != F.col("url"), F.col("stored_url")).alias("copy_url"),
            "payload_digest",
            "body_sha256",
            "text_sha256",
            "simhash",
            "outlinks",
            "page_flags",
            "retry_wait_s",
        ).alias("seen"),
    )


def _arrow(types: dict[str, str]) -> pa.Schema:
    return pa.schema([(n, ARROW[t]) for n, t in types.items()])


def host_rows(
    hostdb: DataFrame,
    planned: DataFrame,
    captures: DataFrame,
    states: DataFrame,
    round_no: int,
    now: float,
    clock_now: float,
    cfg: Config,
) -> DataFrame:
    """hostdb rows of the round's hosts (and all other rows of their buckets, unchanged).

    hostdb: rows of the touched buckets only.
    """
    hosts = planned.select("host", "domain", "host_bucket").dropDuplicates(["host"])
    counts = captures.groupBy("host").agg(
        F.count(
            F.when((F.col("kind") == "page") & F.col("outcome").isin("fetched", "not_modified"), 1)
        ).alias("new_pages"),
        F.count("started").alias("new_requests"),
    )
    told = (
        hosts.join(states, "host", "left")
        .join(counts, "host", "left")
        .join(
            hostdb.drop("domain", "host_bucket").withColumnRenamed("state_json", "old_state"),
            "host",
            "left",
        )
    )
    columns = [c for c in TABLES["hostdb"].columns]
    types = {c.name: "double" if c.type == "timestamp" else c.type for c in columns}
    schema = ", ".join(f"`{n}` {t}" for n, t in types.items())

    def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            out = [_host_row(r, round_no, now, clock_now, cfg) for r in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(
                [{k: r.get(k) for k in types} for r in out], _arrow(types)
            )

    times = [c.name for c in columns if c.type == "timestamp"]
    fresh = (
        told.withColumns({c: F.col(c).cast("double") for c in times})
        .mapInArrow(apply, schema)
        .withColumns({c: F.col(c).cast("timestamp") for c in times})
    )
    return fresh.unionByName(
        hostdb.join(F.broadcast(hosts.select("host")), "host", "left_anti").select(fresh.columns)
    )


def _host_row(
    r: dict[str, Any], round_no: int, now: float, clock_now: float, cfg: Config
) -> dict[str, Any]:
    row = dict(r)
    text = r["state_json"] or r["old_state"]
    state = host_state.HostState.from_json(text) if text else host_state.HostState(r["host"])
    permit = host_state.may_send(
        state, clock_now, cfg, is_page=False
    )  # generate reckons with the quotas, which may be changed meanwhile
    errors = breaker.errors_24h(state.health, clock_now)
    requests_1h, failed_1h = breaker.errors_1h(state.health, clock_now)
    # N2: the round's counts are added once, whether this is its first run or a repeat
    again = r["updated_no"] is not None and r["updated_no"] >= round_no
    row |= {
        "class": host_class(r["host"], cfg.schedule),
        "region": region_of(r["domain"], cfg.fetch),
        "delay_ms": round(
            host_state.effective_delay_s(state, cfg.politeness, clock_now).seconds * 1000
        ),
        "robots_delay_ms": (
            None if state.robots_delay_s is None else round(min(state.robots_delay_s, 1e9) * 1000)
        ),
        "next_allowed_at": permit.at if 0 < permit.at < 4e9 else None,
        "last_request_at": state.last_request_end,
        "retry_after_until": state.retry_after_until or None,
        "breaker": "open" if state.health.down else "closed",
        "slow_until": state.health.slow_until or None,
        "health": 1.0 - (failed_1h / requests_1h if requests_1h else 0.0),
        "failures": state.health.failures,
        "errors_24h": errors,
        "avg_ms": state.avg_ms,
        "quota_used": state.quota_used,
        "quota_day": str(state.quota_day),
        "cycle_used": state.cycle_used,
        "cycle_day": state.cycle_day,
        "last_ips": state.last_ips,
        "pages": (r["pages"] or 0) + (0 if again else r["new_pages"] or 0),
        "requests": (r["requests"] or 0) + (0 if again else r["new_requests"] or 0),
        "blacklisted": bool(r["blacklisted"]) or state.barred,
        "first_seen": r["first_seen"] if r["first_seen"] is not None else now,
        "flags": (
            ["blocked"] if state.health.down and state.health.down_reason == "host_blocked" else []
        ),
        "state_json": text,
        "updated_no": round_no,
    }
    return row
