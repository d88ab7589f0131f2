"""Metrics in Prometheus' text exposition format 0.0.4, each with its type and what it means.

What only grows over a crawl is a counter (`_total`); the times of answers are a histogram; all else
is a gauge, as of the newest round that was reported.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from crawlkit.report.alerts import Alert

PREFIX = "crawlkit_"
# name without PREFIX -> what it means; `fetch_*` are what the fetch stage counted
HELP = {
    "alert_firing": "1: the alert rule fires (docs/alerts.md).",
    "commands_waiting": "Operator commands that wait for a round.",
    "complaints_last_day": "Complaints noted in the last 24 hours.",
    "crawl_answer_seconds": "Time of the answers of all rounds, from request to the end.",
    "crawl_answers_total": "Requests of all rounds by status, or by the reason of none.",
    "crawl_body_bytes": "Bodies stored in all rounds, bytes.",
    "crawl_body_bytes_total": "Bodies stored in all rounds, bytes.",
    "crawl_duplicates": "Members of duplicate clusters by method.",
    "crawl_errors": "Errors of all rounds, as `crawlkit errors` counts them.",
    "crawl_errors_total": "Errors of all rounds, as `crawlkit errors` counts them.",
    "crawl_hosts": "Hosts that were asked in all rounds.",
    "crawl_hosts_total": "Hosts that were asked in all rounds.",
    "crawl_not_modified": "Pages of all rounds that were unchanged by their own word (304).",
    "crawl_not_modified_total": "Pages of all rounds that were unchanged by their own word (304).",
    "crawl_pages_fetched": "Pages fetched in all rounds.",
    "crawl_pages_fetched_total": "Pages fetched in all rounds.",
    "crawl_planned_pages": "Planned pages of all rounds with an outcome.",
    "crawl_planned_pages_total": "Planned pages of all rounds with an outcome.",
    "crawl_refusals": "What was refused, failed or put off in all rounds, by reason.",
    "crawl_requests": "Requests sent in all rounds.",
    "crawl_requests_total": "Requests sent in all rounds.",
    "crawl_revisits": "Revisit records stored in all rounds.",
    "crawl_revisits_total": "Revisit records stored in all rounds.",
    "crawl_states": "Known URLs by state.",
    "crawl_status": "Requests of all rounds by status, or by the reason of none.",
    "crawl_stored_bytes": "Compressed WARC records of all rounds, bytes.",
    "crawl_stored_bytes_total": "Compressed WARC records of all rounds, bytes.",
    "disk_free_bytes": "Free bytes on the disk of a place of the crawl, where the report was made.",
    "duplicate_share": "Share of stored pages that are copies of others.",
    "freshness_kept": "Share of the pages of a promise that are as fresh as promised.",
    "freshness_late": "Pages that are older than promised.",
    "freshness_pages": "Held pages by promise (docs/operations.md).",
    "freshness_worst_lag_s": "Time by which the oldest page of a promise is late, s.",
    "frontier_urls": "URLs that wait to be fetched.",
    "host_answer_ms": "Time of the answers of a host in all rounds, ms: the hosts with the most.",
    "hosts_at_quota": "Hosts that have used all of their quota of the day.",
    "known_urls": "Known URLs.",
    "queue_urls": "URLs that wait to be fetched, by priority class.",
    "queue_urls_of_bucket": "URLs that wait to be fetched: the buckets with the most.",
    "quota_used_share": "Highest share of its quota of the day that a host has used.",
    "render_queue": "Pages that wait to be rendered.",
    "round_answer_ms": "Time of the round's answers, ms.",
    "round_body_bytes": "Bodies stored in the round, bytes.",
    "round_bytes_per_s": "Bytes a second of the round's fetch stage.",
    "round_dns_ms": "Time of the round's DNS queries, ms: upper bounds.",
    "round_dns_hit_share": "Share of the round's look-ups answered from the cache.",
    "round_error_share": "Share of the round's pages that failed.",
    "round_info": "1, with the name of the newest round that was reported.",
    "round_latency_ms": "Mean time of the round's answers, ms.",
    "round_least_margin_s": "Least gap beyond the delay ordered for a host in the round, s.",
    "round_pace_violations": "Requests of the round that came too early, by the audit.",
    "round_new_urls": "URLs that the round found for the first time.",
    "round_outlinks_per_page": "Mean number of links on the round's pages.",
    "round_peak_bytes_per_s": "Bytes of bodies in the round's busiest second.",
    "round_peak_pages_per_s": "Pages in the round's busiest second.",
    "round_robots_blocked": "Planned URLs of the round that robots.txt forbids.",
    "round_pages_per_s": "Pages a second of the round's fetch stage.",
    "round_render_gain_share": "Share of the round's renders that gained text or links.",
    "round_render_ms": "Median time of a page in its browser in the round, ms.",
    "round_render_p95_ms": "Time within which 95% of the round's pages were rendered, ms.",
    "round_renders": "Pages that the round rendered.",
    "round_renders_failed": "Renders of the round that brought no document.",
    "round_robots_violations": "Requests of the round that robots.txt forbids, by the audit.",
    "round_throttled_share": "Share of the round's answers that are 429 or 503.",
    "round_workers": "Fetch tasks that took part in the round.",
    "scheduler_lag_s": "Time for which the most overdue URL has been due when the round began, s.",
    "stage_cpu_s": "CPU time of a stage of the round, s.",
    "stage_memory_bytes": "Most resident memory of the driver's processes at the end of a stage.",
    "stage_wall_s": "Wall time of a stage of the round, s.",
    "urls_left_out": "Due URLs that the round left out, by reason.",
    "urls_waiting": "URLs of commands that wait for a round.",
    "warc_bytes_last_day": "Compressed WARC records of the last day, bytes.",
}
HISTOGRAMS = ("crawl_answer_seconds",)
_PARTS = ("_bucket", "_sum", "_count")


def prometheus_text(
    crawl_id: str, rows: Iterable[Mapping[str, Any]], alerts: Iterable[Alert], round_id: str | None
) -> str:
    """Rows (name, labels as JSON, value) and alerts as text, families in the order of names."""
    families: dict[str, list[tuple[str, dict[str, str], float]]] = {}

    def add(name: str, labels: Mapping[str, Any], value: float) -> None:
        name = _name(name)
        family = next((h for h in HISTOGRAMS for p in _PARTS if name == h + p), name)
        told = {_name(k): str(v) for k, v in {"crawl": crawl_id, **labels}.items()}
        families.setdefault(family, []).append((name, told, value))

    for row in rows:
        add(row["name"], json.loads(row["labels"]), row["value"])
    for a in alerts:
        add("alert_firing", {"alert": a.name, "severity": a.severity}, float(a.state == "firing"))
    if round_id is not None:
        add("round_info", {"round": round_id}, 1.0)
    out = []
    for family, samples in sorted(families.items()):
        out.append(f"# HELP {PREFIX}{family} {_help(family)}")
        out.append(f"# TYPE {PREFIX}{family} {_type(family)}")
        for name, labels, value in sorted(samples, key=_place):
            text = ",".join(f'{k}="{_escape(v)}"' for k, v in labels.items())
            out.append(f"{PREFIX}{name}{{{text}}} {value!r}")
    return "\n".join([*out, ""])


def _place(sample: tuple[str, dict[str, str], float]) -> tuple[str, float, list[str]]:
    """Buckets stand in the order of their bounds, all else in that of its labels."""
    name, labels, _ = sample
    bound = float(labels["le"]) if "le" in labels else math.inf
    return name, bound, [*labels.values()]


def _type(family: str) -> str:
    if family in HISTOGRAMS:
        return "histogram"
    return "counter" if family.endswith("_total") else "gauge"


def _help(family: str) -> str:
    if family in HELP:
        return HELP[family]
    if family.startswith("fetch_"):
        return f"{family.removeprefix('fetch_')}, as the round's fetch stage counted."
    return f"{family.replace('_', ' ')}."


def _name(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", text)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
