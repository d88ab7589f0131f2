"""Every alert rule: fires by its metric beyond its threshold, is silent otherwise."""

from __future__ import annotations

import pytest
from crawlkit.config import Alerts
from crawlkit.report.alerts import Rule, evaluate, load_rules, round_values, thresholds

CFG = Alerts(profile="large", target_pages_per_s=10.0)
RULES = {r.name: r for r in load_rules()}
# name -> (threshold of the requirement, severity)
REQUIRED = {
    "rate_low": (10.0, "warn"),
    "rate_half": (5.0, "critical"),
    "frontier_large": (100e6, "warn"),
    "frontier_small": (10_000, "ticket"),
    "errors_warn": (0.05, "warn"),
    "errors_critical": (0.10, "critical"),
    "throttled": (0.05, "page"),
    "dns_hits_low": (0.90, "warn"),
    "duplicates_high": (0.30, "warn"),
    "latency_high": (3000, "warn"),
    "render_queue": (10_000, "warn"),
    "robots_violations": (0, "page"),
    "growth_high": (4e12, "warn"),
    "workers_few": (1, "critical"),
    "complaint": (0, "page"),
    "filter_drift": (0.01, "ticket"),
    "mirrors": (0, "ticket"),
    "traps": (0, "ticket"),
}


def state(name: str, values: dict[str, float], cfg: Alerts = CFG) -> str:
    return next(a.state for a in evaluate(load_rules(), values, cfg) if a.name == name)


def test_the_rules_are_those_required():
    assert set(RULES) == set(REQUIRED)
    for a in evaluate(load_rules(), {}, CFG):
        assert (a.threshold, a.severity) == REQUIRED[a.name]
        assert a.state == ("no_cause" if a.needs else "no_data")


@pytest.mark.parametrize("name", REQUIRED)
def test_a_rule_fires_by_its_metric_alone(name):
    rule, limit = RULES[name], REQUIRED[name][0]
    bad, good = (
        (limit + max(limit * 0.01, 0.001), limit)
        if rule.fires == "above"
        else (limit * 0.99, limit)
    )
    assert state(name, {rule.metric: bad}) == "firing"
    assert state(name, {rule.metric: good}) == "ok"
    others = {
        r.metric: 1e15 if r.fires == "above" else 0.0
        for r in RULES.values()
        if r.metric != rule.metric
    }
    assert state(name, others) in ("no_data", "no_cause")


def test_without_a_target_the_rate_is_not_judged():
    assert state("rate_low", {"round_pages_per_s": 0.0}, Alerts()) == "off"


def test_the_frontier_of_a_small_crawl_may_be_small():
    for known, expected in ((9_999, "ok"), (10_000, "firing")):
        assert state("frontier_small", {"frontier_urls": 7, "known_urls": known}) == expected


def test_a_small_crawl_is_not_judged_by_what_it_cannot_have():
    """Few URLs wait at its end, most names are new to it, and some of its links are dead."""
    ended = {"frontier_urls": 0, "known_urls": 15_000, "round_dns_hit_share": 0.5}
    ended |= {"round_error_share": 0.12}
    states = {a.name: a.state for a in evaluate(load_rules(), ended, Alerts())}
    assert (states["frontier_small"], states["dns_hits_low"]) == ("off", "off")
    assert (states["errors_warn"], states["errors_critical"]) == ("ok", "ok")
    large = {a.name: a.state for a in evaluate(load_rules(), ended, CFG)}
    firing = {n for n, s in large.items() if s == "firing"}
    assert firing == {"frontier_small", "dns_hits_low", "errors_warn", "errors_critical"}


def test_a_threshold_that_is_set_counts_with_either_profile():
    assert Alerts(profile="large", error_share=0.3).error_share == 0.3
    assert Alerts(error_share=0.01).error_share == 0.01


def test_thresholds_are_the_configurations():
    cfg = Alerts(error_share=0.5)
    assert state("errors_warn", {"round_error_share": 0.4}, cfg) == "ok"
    named = {r.threshold for r in RULES.values() if isinstance(r.threshold, str)}
    assert named <= set(thresholds(cfg))


@pytest.mark.parametrize(
    "text",
    [
        "- {name: a, severity: shout, metric: m, fires: above, threshold: 1, summary: s}",
        "- {name: a, severity: warn, metric: m, fires: beside, threshold: 1, summary: s}",
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(text):
    with pytest.raises(ValueError, match="alert a"):
        load_rules(text)


def test_own_rules():
    (rule,) = load_rules(
        "- {name: a, severity: warn, metric: m, fires: above, threshold: 2.5, summary: s}"
    )
    assert rule == Rule("a", "warn", "m", "above", 2.5, "s")
    assert evaluate([rule], {"m": 3.0}, CFG)[0].state == "firing"


def test_the_figures_of_a_round():
    figures = {
        "pages": 90,
        "failed": 10,
        "answers": 200,
        "throttled": 20,
        "latency_ms": 250.0,
        "frontier": 7,
        "renders_waiting": 7,
        "renders": 4,
        "renders_failed": 1,
        "render_gains": 3,
        "render_ms": 900.0,
        "render_p95_ms": 2100.0,
        "known": 900,
        "copies": 30,
        "stored": 100,
        "bytes_last_day": 12345,
    }
    assert round_values(
        figures, {"slots": 2, "bytes": 600, "dns_lookups": 100, "dns_hits": 95}, 30.0, 50
    ) == {
        "frontier_urls": 7,
        "known_urls": 900,
        "render_queue": 7,
        "warc_bytes_last_day": 12345,
        "round_workers": 2,
        "round_error_share": 0.1,
        "round_pages_per_s": 3.0,
        "round_bytes_per_s": 20.0,
        "round_throttled_share": 0.1,
        "round_latency_ms": 250.0,
        "round_dns_hit_share": 0.95,
        "duplicate_share": 0.3,
        "round_renders": 4,
        "round_renders_failed": 1,
        "round_render_gain_share": 0.75,
        "round_render_ms": 900.0,
        "round_render_p95_ms": 2100.0,
    }
    few = round_values(figures | {"stored": 0, "renders": 0}, {"dns_lookups": 3}, None, 1000)
    assert few == {
        "frontier_urls": 7,
        "known_urls": 900,
        "render_queue": 7,
        "warc_bytes_last_day": 12345,
        "round_workers": 0,
    }
