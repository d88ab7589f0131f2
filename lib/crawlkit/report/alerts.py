"""Alert rules as data (data/alerts.yaml) and their evaluation over a round's figures."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, NamedTuple

import yaml

from crawlkit.config import Alerts

SEVERITIES = ("page", "critical", "warn", "ticket")


class Rule(NamedTuple):
    """Fires if the metric is above or below its threshold.

    `threshold`: a name of `thresholds` or a number. `once_reached`: another metric, which must have
    reached the threshold too.
    """

    name: str
    severity: str
    metric: str
    fires: str
    threshold: str | float
    summary: str
    needs: str | None = None
    once_reached: str | None = None


class Alert(NamedTuple):
    """What a rule says.

    state: firing, ok, no_data (the metric was not measured), off (no threshold is set) or no_cause
    (its part is not built yet).
    """

    name: str
    severity: str
    state: str
    metric: str
    value: float | None
    fires: str
    threshold: float
    summary: str
    needs: str | None


def alert_text(alert: Mapping[str, Any]) -> str:
    """An alert that fires (the fields of Alert), in a line."""
    a = alert
    return (
        f"alert: {a['name']} ({a['severity']}): {a['summary']}; {a['metric']} is {a['value']:g},"
        f" threshold {a['threshold']:g}"
    )


def load_rules(text: str | None = None) -> list[Rule]:
    """The shipped rules, or those of a YAML text of the same form. Raises ValueError."""
    rules = [
        Rule(**row)
        for row in yaml.safe_load(
            text
            if text is not None
            else files("crawlkit").joinpath("data/alerts.yaml").read_text("utf-8")
        )
    ]
    for r in rules:
        if r.severity not in SEVERITIES or r.fires not in ("above", "below"):
            raise ValueError(f"alert {r.name}: severity {r.severity}, fires {r.fires}")
    return rules


def thresholds(cfg: Alerts) -> dict[str, float]:
    """Threshold name -> value."""
    return {
        "target_pages_per_s": cfg.target_pages_per_s,
        "half_target_pages_per_s": cfg.target_pages_per_s / 2,
        "frontier_max": cfg.frontier_max,
        "frontier_min": cfg.frontier_min,
        "error_share": cfg.error_share,
        "error_share_critical": cfg.error_share_critical,
        "throttled_share": cfg.throttled_share,
        "dns_hit_share": cfg.dns_hit_share,
        "duplicate_share": cfg.duplicate_share,
        "latency_ms": cfg.latency_ms,
        "render_queue": cfg.render_queue,
        "growth_bytes_per_day": cfg.growth_bytes_per_day,
        "workers": cfg.workers,
        "filter_drift": cfg.filter_drift,
    }


def evaluate(rules: list[Rule], values: Mapping[str, float], cfg: Alerts) -> list[Alert]:
    """Each rule against the figures, in the rules' order."""
    limits = thresholds(cfg)
    return [
        _alert(
            r, values, float(limits[r.threshold] if isinstance(r.threshold, str) else r.threshold)
        )
        for r in rules
    ]


def _state(rule: Rule, values: Mapping[str, float], limit: float) -> str:
    value = values.get(rule.metric)
    if value is None:
        return "no_cause" if rule.needs else "no_data"
    if rule.fires == "below" and limit <= 0:
        return "off"
    if rule.once_reached is not None and values.get(rule.once_reached, limit) < limit:
        return "ok"
    return "firing" if (value > limit if rule.fires == "above" else value < limit) else "ok"


def _alert(rule: Rule, values: Mapping[str, float], limit: float) -> Alert:
    return Alert(
        rule.name,
        rule.severity,
        _state(rule, values, limit),
        rule.metric,
        values.get(rule.metric),
        rule.fires,
        limit,
        rule.summary,
        rule.needs,
    )


def running_values(progress: Mapping[str, Any], min_answers: int) -> dict[str, float]:
    """Figures of a fetch that is under way (crawl/fetch_progress.py) which alerts look at."""
    out = {"round_workers": float(progress["slots"])}
    if progress["done"] >= min_answers:
        out["round_error_share"] = progress["failed"] / progress["done"]
        out["round_pages_per_s"] = progress["pages_per_s"]
    return out


def round_values(
    figures: Mapping[str, Any],
    fetched: Mapping[str, Any],
    fetch_wall_s: float | None,
    min_answers: int,
) -> dict[str, float]:
    """The figures of a round that alerts look at; a share or mean of too few answers is left out.

    figures: pages (fetched or unchanged), failed, answers, throttled, latency_ms, frontier, known,
    renders_waiting, renders (with renders_failed, render_gains, render_ms, render_p95_ms), copies,
    stored, bytes_last_day of the tables; fetched: counts of the fetch stage.
    """
    out: dict[str, float] = {
        "frontier_urls": figures["frontier"],
        "known_urls": figures["known"],
        "render_queue": figures["renders_waiting"],
        "warc_bytes_last_day": figures["bytes_last_day"],
        "round_workers": fetched.get("slots", 0),
    }
    if figures["renders"]:
        out |= _render_values(figures)
    tried = figures["pages"] + figures["failed"]
    if tried >= min_answers:
        out["round_error_share"] = figures["failed"] / tried
        if fetch_wall_s:
            out["round_pages_per_s"] = figures["pages"] / fetch_wall_s
            out["round_bytes_per_s"] = fetched.get("bytes", 0) / fetch_wall_s
    if figures["answers"] >= min_answers:
        out |= {
            "round_throttled_share": figures["throttled"] / figures["answers"],
            "round_latency_ms": figures["latency_ms"],
        }
    if fetched.get("dns_lookups", 0) >= min_answers:
        out["round_dns_hit_share"] = fetched.get("dns_hits", 0) / fetched["dns_lookups"]
    if figures["stored"] >= min_answers:
        out["duplicate_share"] = figures["copies"] / figures["stored"]
    return {k: float(v) for k, v in out.items()}


def _render_values(figures: Mapping[str, Any]) -> dict[str, float]:
    renders, failed = figures["renders"], figures["renders_failed"]
    out = {"round_renders": renders, "round_renders_failed": failed}
    out["round_render_gain_share"] = figures["render_gains"] / renders
    if failed < renders:
        out["round_render_ms"] = figures["render_ms"]
        out["round_render_p95_ms"] = figures["render_p95_ms"]
    return out
