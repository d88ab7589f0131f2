"""report: what the finished rounds brought -> tables rounds, stages, metrics, and the
report's files.

Contract: it reads all rounds so far; repeating it writes the same for the same tables. Its files
are report/index.html with SVG plots, report.json (the same figures) and metrics.prom for
Prometheus' textfile collector.
"""

from __future__ import annotations

import datetime
import json
import time
from typing import Any

from crawlkit.crawl.open_crawl import OpenCrawl
from crawlkit.engine.frame import Frame
from crawlkit.model import Round
from crawlkit.report.alerts import evaluate, load_rules, round_values
from crawlkit.report.audit import audit
from crawlkit.report.history import make_metrics, read_history
from crawlkit.report.html_page import render
from crawlkit.report.metrics import live_values, prometheus_text
from crawlkit.report.queries import VIEWS, over_frames, read_queries, read_sql
from crawlkit.report.report_files import put_file

READS = (*VIEWS, "commands", "robots")
WRITES = ("metrics", "rounds", "stages")


def write_report(job: OpenCrawl, round_: Round) -> dict[str, Any]:
    """Write the tables and files of the report; the number of metrics and the alerts that fire."""
    views = {name: job.read(name) for name in VIEWS}
    queries = read_queries(round_.id)
    data = {
        name: job.engine.query(over_frames(q.sql), **views).rows() for name, q in queries.items()
    }
    rounds, stages = read_history(job, round_)
    metrics = make_metrics(data, stages, round_) + _round_metrics(job, round_, views)
    values = {m["name"]: m["value"] for m in metrics if m["labels"] == "{}"}
    alerts = evaluate(load_rules(), values, job.cfg.alerts)
    with job.crawl.lock:
        job.tables.replace("rounds", rounds)
        job.tables.replace("stages", stages)
        job.tables.replace("metrics", metrics, {"round_id": [round_.id]})
    report = {
        "crawl": job.cfg.crawl.id,
        "round_id": round_.id,
        "nominal_time": _iso(round_.now),
        **data,
        "alerts": [a._asdict() for a in alerts],
        "stages": [s for s in stages if s["round_id"] == round_.id],
    }
    put_file(job.crawl, "report.json", json.dumps(report, indent=1, default=str))
    put_file(job.crawl, "index.html", render(report, queries))
    text = prometheus_text(job.cfg.crawl.id, metrics, alerts, round_.id)
    put_file(job.crawl, "metrics.prom", text)
    firing = [a._asdict() for a in alerts if a.state == "firing"]
    return {"metrics": len(metrics), "alerts": firing}


def _round_metrics(job: OpenCrawl, round_: Round, views: dict[str, Frame]) -> list[dict[str, Any]]:
    """What the fetch stage counted, and the figures of the alert rules."""
    fetched = job.crawl.mark(round_, "fetch") or {}
    figures = job.engine.query(over_frames(read_sql("figures", round_.id)), **views).rows()[0]
    wall_s = fetched["ended"] - fetched["started"] if "ended" in fetched else None
    values = round_values(figures, fetched, wall_s, job.cfg.alerts.min_answers) | live_values(
        job.crawl, time.time()
    )
    values["round_robots_violations"] = audit(job, round_.id)["disallowed"]
    values |= {
        f"fetch_{k}": v
        for k, v in fetched.items()
        if isinstance(v, int | float) and k not in ("started", "ended", "cpu_s")
    }
    return [
        {"round_id": round_.id, "name": n, "labels": "{}", "value": float(v)}
        for n, v in values.items()
    ]


def _iso(t: float) -> str:
    return datetime.datetime.fromtimestamp(t, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
