"""report: what the rounds so far brought -> tables rounds, stages, metrics, and the report's files.

Contract: it reads all rounds so far; repeating it writes the same for the same tables. Its files
are report/index.html, report.json (the same figures) and metrics.prom for Prometheus' textfile
collector.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import time
from typing import Any

from crawlkit.crawl.open_crawl import OpenCrawl
from crawlkit.engine.frame import Frame
from crawlkit.model import Round
from crawlkit.report.alerts import Alert, evaluate, load_rules, round_values
from crawlkit.report.audit import audit
from crawlkit.report.exposition import prometheus_text
from crawlkit.report.freshness import freshness_queries
from crawlkit.report.history import make_metrics, read_history
from crawlkit.report.host_lines import tell_hosts
from crawlkit.report.html_page import render
from crawlkit.report.metrics import (
    disk_rows,
    dns_rows,
    live_values,
    queues_sql,
    quotas_sql,
    round_rows,
)
from crawlkit.report.queries import (
    IS_ERROR,
    OF_HISTORY,
    TABLES,
    Query,
    over_frames,
    read_queries,
    read_sql,
)
from crawlkit.report.report_files import diff_pages, put_file, read_settings, warc_link

READS = (*TABLES, "commands")
WRITES = ("metrics", "rounds", "stages")
Rows = list[dict[str, Any]]


# of captures, for the queries that sum them up; errors keep their URLs too
_SUMMED = (
    *("round_id", "kind", "host", "outcome", "reason", "status", "started", "ended"),
    *("content_type", "body_bytes", "warc_record_length", "record_type", "is_outcome"),
)
_OF_ERRORS = (*_SUMMED, "url", "url_key", "detail")


def write_report(job: OpenCrawl, round_: Round) -> dict[str, Any]:
    """Write the tables and files of the report; the number of metrics and the alerts that fire."""
    queries, told = read_queries(round_.id), audit(job, round_.id)
    queries |= freshness_queries(job.cfg.freshness, round_.now)
    with contextlib.ExitStack() as kept:
        frames = _read_frames(job, round_, kept)
        data = _ask(job, queries, frames)
        rounds, stages = read_history(job, round_)
        metrics = make_metrics(data, stages, round_) + _round_metrics(job, round_, frames, told)
        metrics += _more_metrics(job, round_, frames, data["hosts"])
    values = {m["name"]: m["value"] for m in metrics if m["labels"] == "{}"}
    alerts = evaluate(load_rules(), values, job.cfg.alerts)
    written = {"round_id": [r["round_id"] for r in rounds]}
    with job.crawl.lock:
        job.tables.replace("rounds", rounds, written)
        job.tables.replace("stages", stages, written)
        job.tables.replace("metrics", metrics, {"round_id": [round_.id]})
    history = read_queries(round_.id, OF_HISTORY)
    data |= _ask(job, history, {name: job.read(name) for name in WRITES})
    mine = [s for s in stages if s["round_id"] == round_.id]
    report = _tell(job, round_, data, alerts) | {"stages": mine, "audit": told}
    put_file(job.crawl, "report.json", json.dumps(report, indent=1, default=str))
    put_file(job.crawl, "index.html", render(report, queries | history))
    text = prometheus_text(job.cfg.crawl.id, metrics, alerts, round_.id)
    put_file(job.crawl, "metrics.prom", text)
    firing = [a._asdict() for a in alerts if a.state == "firing"]
    return {"metrics": len(metrics), "alerts": firing}


def _read_frames(job: OpenCrawl, round_: Round, kept: contextlib.ExitStack) -> dict[str, Frame]:
    """What the queries read, by name. Captures have files of each round, and a dozen queries ask
    them: they are read once.
    """
    frames = {name: job.read(name) for name in TABLES if name not in WRITES}
    frames["renders"] = job.of_round("captures", round_).where("kind = 'render'")
    captures = frames["captures"]
    errors = captures.where(IS_ERROR).select(*_OF_ERRORS)
    frames["errors"] = kept.enter_context(job.engine.keep(errors))
    frames["captures"] = kept.enter_context(job.engine.keep(captures.select(*_SUMMED)))
    return frames


def _ask(job: OpenCrawl, queries: dict[str, Query], frames: dict[str, Frame]) -> dict[str, Rows]:
    """Rows by query name."""
    return {
        name: job.engine.query(over_frames(q.sql), **frames).rows() for name, q in queries.items()
    }


def _tell(
    job: OpenCrawl, round_: Round, data: dict[str, Rows], alerts: list[Alert]
) -> dict[str, Any]:
    """What the page shows, and report.json holds, beside stages and audit."""
    return {
        "crawl": job.cfg.crawl.id,
        "round_id": round_.id,
        "nominal_time": _iso(round_.now),
        "agent": job.cfg.agent.user_agent,
        **data,
        "hosts": tell_hosts(data["hosts"], job.cfg),
        "alerts": [a._asdict() for a in alerts],
        "settings": read_settings(job.crawl, round_.id),
        "diffs": diff_pages(job.crawl),
        "warc": warc_link(job.crawl),
    }


def _round_metrics(
    job: OpenCrawl, round_: Round, frames: dict[str, Frame], told: dict[str, Any]
) -> Rows:
    """What the fetch stage counted, and the figures of the alert rules. told: by the audit."""
    fetched = job.crawl.mark(round_, "fetch") or {}
    figures = job.engine.query(over_frames(read_sql("figures", round_.id)), **frames).rows()[0]
    wall_s = fetched["ended"] - fetched["started"] if "ended" in fetched else None
    values = round_values(figures, fetched, wall_s, job.cfg.alerts.min_answers) | live_values(
        job.crawl, time.time()
    )
    if round_.imported:  # nothing of it is about a fetch
        values = {k: v for k, v in values.items() if not k.startswith("round_")}
    values["round_robots_violations"] = told["disallowed"]
    values["round_pace_violations"] = told["violations"] - told["disallowed"]
    if told["closest"] is not None:
        least = told["closest"]
        values["round_least_margin_s"] = round(least["gap_s"] - least["required_s"], 6)
    values |= {
        f"fetch_{k}": v
        for k, v in fetched.items()
        if isinstance(v, int | float) and k not in ("started", "ended", "cpu_s")
    }
    return [
        {"round_id": round_.id, "name": n, "labels": "{}", "value": float(v)}
        for n, v in values.items()
    ]


def _more_metrics(job: OpenCrawl, round_: Round, frames: dict[str, Frame], hosts: Rows) -> Rows:
    """Rates, latencies, queues, quotas and disks."""

    def ask(sql: str) -> Rows:
        return job.engine.query(over_frames(sql), **frames).rows()

    found = round_rows(
        ask(read_sql("round_figures", round_.id))[0], ask(queues_sql(round_.now)), hosts
    )
    quotas = ask(quotas_sql(job.cfg.politeness, time.time()))[0]
    found += [(name, {}, value or 0.0) for name, value in quotas.items()]
    found += dns_rows(job.crawl.mark(round_, "fetch") or {}) + disk_rows(job.crawl)
    return [
        {"round_id": round_.id, "name": n, "labels": json.dumps(labels), "value": float(v)}
        for n, labels, v in found
    ]


def _iso(t: float) -> str:
    return datetime.datetime.fromtimestamp(t, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
