"""Rows of the tables rounds, stages and metrics."""

from __future__ import annotations

import json
from typing import Any

from crawlkit.crawl.open_crawl import OpenCrawl
from crawlkit.model import Round

STAGES_BEFORE = ("inject", "generate", "fetch", "commit", "parse", "dedup", "update", "rank")
_COLUMNS = ("started", "ended", "cpu_s", "stage", "rows_in", "rows_out", "rejected")


def read_history(
    job: OpenCrawl, current: Round
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of `rounds` and `stages` from the marks of this round, and of others whose end the
    tables do not have: what has ended does not change.
    """
    kept = job.tables.rows("rounds", ["round_id", "closed_at"])
    ended = {r["round_id"] for r in kept if r["closed_at"] is not None} - {current.id}
    rounds, stages = [], []
    for round_id in job.crawl.round_ids():
        if round_id in ended:
            continue
        r = job.crawl.round(round_id)
        rounds.append(_round_row(job, r, "closed" if r.id == current.id else r.state))
        for stage in STAGES_BEFORE:
            mark = job.crawl.mark(r, stage)
            if mark is not None:
                stages.append(_stage_row(r.id, stage, mark))
    return rounds, stages


def _round_row(job: OpenCrawl, r: Round, state: str) -> dict[str, Any]:
    """A row of `rounds`. state: of the round, once it is reported."""
    return {
        "round_id": r.id,
        "round_no": r.no,
        "state": state,
        "nominal_time": r.now,
        "opened_at": r.opened_at,
        "closed_at": r.closed_at,
        "config_digest": r.config_digest,
        "seed": r.seed,
        "buckets": len(r.buckets),
        "planned": (job.crawl.mark(r, "generate") or {}).get("planned", 0),
    }


def _stage_row(round_id: str, stage: str, mark: dict[str, Any]) -> dict[str, Any]:
    """A row of `stages`. mark: what the finished stage reported."""
    counts = {k: v for k, v in mark.items() if k not in _COLUMNS}
    return {
        "round_id": round_id,
        "stage": stage,
        "started": mark["started"],
        "ended": mark["ended"],
        "wall_s": mark["ended"] - mark["started"],
        "cpu_s": mark["cpu_s"],
        "rows_in": mark.get("rows_in"),
        "rows_out": mark.get("rows_out"),
        "rejected": sum(mark.get("rejected", {}).values()),
        "counts": json.dumps(counts, sort_keys=True),
    }


def make_metrics(
    data: dict[str, list[dict[str, Any]]], stages: list[dict[str, Any]], round_: Round
) -> list[dict[str, Any]]:
    """Rows of `metrics` from the report's queries and the stages. data: rows by query name."""
    rows: list[tuple[str, dict[str, Any], Any]] = []
    totals = data["totals"][0] if data["totals"] else {}
    for k, v in totals.items():
        name = "crawl_" + k.replace(" ", "_")
        rows += [(name, {}, v), (f"{name}_total", {}, v)]
    for name, label in (
        ("status", "status"),
        ("states", "state"),
        ("refusals", "reason"),
        ("duplicates", "method"),
    ):
        rows += [(f"crawl_{name}", {label: r["label"]}, r["value"]) for r in data[name]]
    rows += [("crawl_answers_total", {"status": r["label"]}, r["value"]) for r in data["status"]]
    rows += _histogram(data["latency"])
    rows += [
        (f"freshness_{name}", {"promise": r["promise"]}, r[name])
        for r in data["promises"]
        for name in ("pages", "late", "kept", "worst_lag_s")
        if r[name] is not None
    ]
    rows += [
        (f"stage_{k}", {"stage": s["stage"]}, s[k])
        for s in stages
        if s["round_id"] == round_.id
        for k in ("wall_s", "cpu_s")
    ]
    rows += [
        ("stage_memory_bytes", {"stage": s["stage"]}, json.loads(s["counts"]).get("memory_bytes"))
        for s in stages
        if s["round_id"] == round_.id
    ]
    rows += [
        ("urls_left_out", {"reason": reason}, n)
        for s in stages
        if (s["round_id"], s["stage"]) == (round_.id, "generate")
        for reason, n in (json.loads(s["counts"]).get("left_out") or {}).items()
    ]
    return [
        {"round_id": round_.id, "name": n, "labels": json.dumps(labels), "value": float(v or 0)}
        for n, labels, v in rows
    ]


LATENCY_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # upper bounds of data/report/latency.sql


def _histogram(latency: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any], float]]:
    """The times of all answers as a histogram of Prometheus: each bucket holds those before it."""
    name, n = "crawl_answer_seconds", 0.0
    counts = {r["upper_ms"]: r["answers"] for r in latency}
    rows: list[tuple[str, dict[str, Any], float]] = []
    for bound in LATENCY_S:
        n += counts.get(round(bound * 1000), 0)
        rows.append((f"{name}_bucket", {"le": f"{bound:g}"}, n))
    whole = float(sum(r["answers"] for r in latency))
    rows.append((f"{name}_bucket", {"le": "+Inf"}, whole))
    rows.append((f"{name}_sum", {}, sum(float(r["sum_ms"]) for r in latency) / 1000))
    return [*rows, (f"{name}_count", {}, whole)]
