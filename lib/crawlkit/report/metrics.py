"""Metrics of a crawl: those of its newest round as Prometheus text, and the alerts over them.

Read without Spark.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from crawlkit.adapters.store.pending_commands import read_pending
from crawlkit.crawl.state import Crawl
from crawlkit.report.alerts import Alert, evaluate, load_rules
from crawlkit.rules.frontier.command_rules import URL_VERBS

DAY_S = 86_400.0
PREFIX = "crawlkit_"


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


def prometheus_text(
    crawl_id: str, rows: Iterable[Mapping[str, Any]], alerts: Iterable[Alert], round_id: str | None
) -> str:
    """Rows (name, labels as JSON, value) and alerts in the text exposition format 0.0.4, all of
    them gauges.
    """
    series: dict[str, dict[str, float]] = {}

    def add(name: str, labels: Mapping[str, Any], value: float) -> None:
        text = ",".join(
            f'{_name(k)}="{_escape(str(v))}"' for k, v in {"crawl": crawl_id, **labels}.items()
        )
        series.setdefault(PREFIX + _name(name), {})[f"{{{text}}}"] = value

    for row in rows:
        add(row["name"], json.loads(row["labels"]), row["value"])
    for a in alerts:
        add("alert_firing", {"alert": a.name, "severity": a.severity}, float(a.state == "firing"))
    if round_id is not None:
        add("round_info", {"round": round_id}, 1.0)
    out = []
    for name, values in sorted(series.items()):
        out += [
            f"# TYPE {name} gauge",
            *(f"{name}{labels} {value!r}" for labels, value in sorted(values.items())),
        ]
    return "\n".join([*out, ""])


def _name(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", text)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
