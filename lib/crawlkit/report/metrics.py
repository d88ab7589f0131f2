"""Metrics of a crawl: those of its newest round as Prometheus text, and the alerts over them.

Read without Spark.
"""

from __future__ import annotations

import time
from typing import Any

from crawlkit.adapters.store.pending_commands import read_pending
from crawlkit.crawl.state import Crawl
from crawlkit.report.alerts import Alert, evaluate, load_rules
from crawlkit.report.exposition import prometheus_text
from crawlkit.rules.frontier.command_rules import URL_VERBS

DAY_S = 86_400.0


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
