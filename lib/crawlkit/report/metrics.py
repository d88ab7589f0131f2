"""Metrics of a crawl: those of its newest round as Prometheus text, and the alerts over them.

Read without Spark.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from crawlkit.adapters.store.free_space import free_bytes
from crawlkit.adapters.store.pending_commands import read_pending
from crawlkit.config import Politeness
from crawlkit.crawl.state import Crawl
from crawlkit.report.alerts import Alert, evaluate, load_rules
from crawlkit.report.exposition import prometheus_text
from crawlkit.rules.frontier.command_rules import URL_VERBS

DAY_S = 86_400.0
MOST_LABELS = 20  # hosts and buckets with a row of their own
QUANTILES = {"p50": "0.5", "p95": "0.95", "p99": "0.99"}
Rows = list[dict[str, Any]]
Metric = tuple[str, dict[str, str], Any]  # name, labels, value
_DNS_MS = "dns_ms_le_"  # counts of the fetch stage (adapters/net/dns.py)


def queues_sql(now: float) -> str:
    """Of each priority class and bucket: URLs that wait, new ones of the round, and `lag_s` of the
    one that has been due longest. now: nominal time of the round, Unix s.
    """
    waits = "state IN ('queued', 'retrying')"
    at = f"timestamp_micros({round(now * 1e6)})"
    lag = f"({round(now * 1e6)} - unix_micros(next_fetch)) / 1e6"
    return f"""
        SELECT priority_class, host_bucket, count(CASE WHEN {waits} THEN 1 END) AS waiting,
            count(CASE WHEN first_seen = {at} THEN 1 END) AS new,
            max(CASE WHEN state NOT IN ('dead', 'refused') THEN {lag} END) AS lag_s
        FROM crawldb GROUP BY priority_class, host_bucket
    """


def quotas_sql(cfg: Politeness, now: float) -> str:
    """The highest share of its day's quota that a host has used, and hosts that have used all.

    now: real time, Unix s.
    """
    share = f"quota_used * 1e0 / greatest(coalesce(quota_max, {cfg.host_day_quota}), 1)"
    return f"""
        SELECT max({share}) AS quota_used_share,
            count(CASE WHEN {share} >= 1 THEN 1 END) AS hosts_at_quota
        FROM hostdb WHERE CAST(quota_day AS bigint) = {int(now // DAY_S)}
    """


def round_rows(figures: Mapping[str, Any], queues: Rows, hosts: Rows) -> list[Metric]:
    """Metrics of a round. figures: data/report/round_figures.sql; queues: `queues_sql`; hosts: of
    the report.
    """
    names = ("body_bytes", "robots_blocked", "peak_pages_per_s", "peak_bytes_per_s")
    rows: list[Metric] = [(f"round_{n}", {}, figures[n]) for n in (*names, "outlinks_per_page")]
    rows += [
        ("round_answer_ms", {"quantile": q}, figures[column]) for column, q in QUANTILES.items()
    ]
    rows += [
        ("host_answer_ms", {"host": h["host"], "quantile": q}, h[column])
        for h in hosts[:MOST_LABELS]
        for column, q in QUANTILES.items()
    ]
    waiting: dict[str, Counter[str]] = {"priority_class": Counter(), "host_bucket": Counter()}
    for r in queues:
        for label, counted in waiting.items():
            counted[str(r[label])] += r["waiting"]
    rows += [("queue_urls", {"class": c}, n) for c, n in waiting["priority_class"].items()]
    longest = waiting["host_bucket"].most_common(MOST_LABELS)
    rows += [("queue_urls_of_bucket", {"bucket": b}, n) for b, n in longest]
    lags = [r["lag_s"] for r in queues if r["lag_s"] is not None]
    rows += [("round_new_urls", {}, sum(r["new"] for r in queues))]
    rows += [("scheduler_lag_s", {}, max([0.0, *lags]))]
    return [row for row in rows if row[2] is not None]


def dns_rows(fetched: Mapping[str, Any]) -> list[Metric]:
    """Quantiles of the time of DNS queries: upper bounds, from the counts of the fetch stage."""
    bounds = [int(k.removeprefix(_DNS_MS)) for k in fetched if k.startswith(_DNS_MS)]
    counts = {b: fetched[f"{_DNS_MS}{b}"] for b in sorted(bounds)}
    rows: list[Metric] = []
    for q in QUANTILES.values() if counts else ():
        seen = 0.0
        for bound, n in counts.items():
            seen += n
            if seen >= float(q) * sum(counts.values()):
                rows.append(("round_dns_ms", {"quantile": q}, float(bound)))
                break
    return rows


def disk_rows(crawl: Crawl) -> list[Metric]:
    """Free bytes on the disks of this machine that the crawl is on."""
    places = {"state": crawl.objects.root, "tables": crawl.tables_root, "warc": crawl.warc_place}
    free = {name: free_bytes([str(place)]) for name, place in places.items()}
    return [("disk_free_bytes", {"place": n}, v) for n, v in free.items() if v < math.inf]


def newest_metrics(crawl: Crawl) -> tuple[str | None, list[dict[str, Any]]]:
    """(round, rows of `metrics`) of the newest round that was reported; (None, []) before the
    first.
    """
    tables = crawl.plain_tables()
    rounds = tables.rows("rounds", ["round_id", "round_no"])
    for r in sorted(rounds, key=lambda r: -r["round_no"]):
        if rows := tables.rows(
            "metrics", ["name", "labels", "value"], {"round_id": [r["round_id"]]}
        ):
            return r["round_id"], sorted(rows, key=lambda m: (m["name"], m["labels"]))
    return None, []


def live_values(crawl: Crawl, now: float) -> dict[str, float]:
    """Figures that change between rounds: complaints of the last day, commands that wait."""
    commands = crawl.plain_tables().rows("commands", ["at", "verb"], {"verb": ["complain"]})
    waiting = read_pending(crawl.objects)
    return {
        "complaints_last_day": float(sum(c["at"] > now - DAY_S for c in commands)),
        "commands_waiting": float(len(waiting)),
        "urls_waiting": float(
            sum(len(c["arguments"]["urls"]) for c in waiting if c["verb"] in URL_VERBS)
        ),
    }


def alerts_now(crawl: Crawl, now: float | None = None) -> tuple[str | None, list[Alert]]:
    """The newest reported round, and every alert rule over its metrics and the live figures."""
    round_id, rows = newest_metrics(crawl)
    values = {r["name"]: r["value"] for r in rows if r["labels"] == "{}"} | live_values(
        crawl, time.time() if now is None else now
    )
    return round_id, evaluate(load_rules(), values, crawl.cfg.alerts)


def current_text(crawl: Crawl) -> str:
    """The newest round's metrics, live figures and alerts as Prometheus text."""
    round_id, rows = newest_metrics(crawl)
    live = live_values(crawl, time.time())
    rows = [r for r in rows if r["name"] not in live] + [
        {"name": k, "labels": "{}", "value": v} for k, v in live.items()
    ]
    values = {r["name"]: r["value"] for r in rows if r["labels"] == "{}"}
    return prometheus_text(
        crawl.cfg.crawl.id, rows, evaluate(load_rules(), values, crawl.cfg.alerts), round_id
    )
