"""Metrics of the newest round as Prometheus text, and the alerts over them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.cli.main import load_all
from crawlkit.config import Config
from crawlkit.control.commands import run_command
from crawlkit.report.alerts import load_rules
from crawlkit.report.exposition import HELP, prometheus_text
from crawlkit.report.history import make_metrics
from crawlkit.report.metrics import alerts_now, current_text, newest_metrics
from typer.testing import CliRunner

from tests.control.smallcrawl import NOW, make_crawl, write

pytestmark = pytest.mark.waits

RUN = CliRunner()
ROOT = Path(__file__).resolve().parents[2]


def report(crawl, no: int, values: dict[str, float], labels: str = "{}") -> None:
    round_id = f"r{no:06d}"
    write(
        crawl,
        "rounds",
        [{"round_id": round_id, "round_no": no, "state": "closed", "nominal_time": NOW}],
        {"round_id": [round_id]},
    )
    write(
        crawl,
        "metrics",
        [
            {"round_id": round_id, "name": n, "labels": labels, "value": v}
            for n, v in values.items()
        ],
        {"round_id": [round_id]},
    )


def test_the_newest_rounds_metrics(tmp_path):
    crawl = make_crawl(tmp_path)
    assert newest_metrics(crawl) == (None, [])
    report(crawl, 9, {"fetch_requests": 5.0})
    report(crawl, 10, {"fetch_requests": 7.0, "fetch_dns_hits": 3.0})
    round_id, rows = newest_metrics(crawl)
    assert round_id == "r000010"
    assert [(r["name"], r["value"]) for r in rows] == [
        ("fetch_dns_hits", 3.0),
        ("fetch_requests", 7.0),
    ]
    text = current_text(crawl)
    assert '\ncrawlkit_fetch_requests{crawl="crawl"} 7.0\n' in text
    assert 'crawlkit_round_info{crawl="crawl",round="r000010"} 1.0' in text
    assert 'crawlkit_alert_firing{crawl="crawl",alert="throttled",severity="page"} 0.0' in text


def stage_rows() -> list[dict]:
    """Rows of `stages` of two rounds."""
    return [
        {
            "round_id": r,
            "stage": s,
            "wall_s": 1.0,
            "cpu_s": 2.0,
            "counts": json.dumps({"left_out": {"host_day_quota": n, "host_cycle_quota": 2}}),
        }
        for r, s, n in (("r1", "generate", 9), ("r2", "generate", 14), ("r2", "fetch", 5))
    ]


def test_what_generate_left_out_is_a_metric_by_reason():
    names = ("totals", "status", "states", "refusals", "duplicates", "latency", "promises")
    rows = make_metrics({name: [] for name in names}, stage_rows(), SimpleNamespace(id="r2"))
    assert {r["labels"]: r["value"] for r in rows if r["name"] == "urls_left_out"} == {
        '{"reason": "host_day_quota"}': 14.0,
        '{"reason": "host_cycle_quota"}': 2.0,
    }


def test_an_outside_reader_reads_the_text():
    parser = pytest.importorskip("prometheus_client.parser")
    rows = [
        {"name": "crawl_refusals", "labels": json.dumps({"reason": 'a"b\\c\nd'}), "value": 3.0},
        {"name": "crawl bytes-stored", "labels": "{}", "value": 1e15},
        {"name": "crawl_refusals", "labels": json.dumps({"reason": "é"}), "value": 4.0},
    ]
    families = {
        f.name: f
        for f in parser.text_string_to_metric_families(prometheus_text("c", rows, [], "r1"))
    }
    assert {s.labels["reason"]: s.value for s in families["crawlkit_crawl_refusals"].samples} == {
        'a"b\\c\nd': 3.0,
        "é": 4.0,
    }
    assert families["crawlkit_crawl_bytes_stored"].samples[0].value == 1e15
    assert all(f.type == "gauge" and f.documentation for f in families.values())


def test_each_rule_has_its_page_and_the_dashboard_reads():
    page = (ROOT / "docs" / "alerts.md").read_text("utf-8")
    assert [r.name for r in load_rules() if f"`{r.name}`" not in page] == []
    dashboard = json.loads((ROOT / "conf" / "grafana-dashboard.json").read_text("utf-8"))
    assert len({p["id"] for p in dashboard["panels"]}) == len(dashboard["panels"])
    for expression in (t["expr"] for p in dashboard["panels"] for t in p["targets"]):
        name = re.search(r"crawlkit_(\w+)", expression)[1]
        family = re.sub(r"(answer_seconds)_(bucket|sum|count)$", r"\1", name)
        assert family in HELP or name.startswith("fetch_"), expression


def test_alerts_command(tmp_path):
    crawl = make_crawl(tmp_path)
    args = ["alerts", "--data", str(tmp_path), "--json"]
    assert RUN.invoke(load_all(), args).exit_code == 0
    report(
        crawl,
        2,
        {"round_error_share": 0.6, "round_throttled_share": 0.01, "frontier_urls": 20_000.0},
    )
    done = RUN.invoke(load_all(), args)
    assert done.exit_code == 1
    found = {a["name"]: a["state"] for a in json.loads(done.stdout)["alerts"]}
    assert [n for n, s in found.items() if s == "firing"] == ["errors_warn", "errors_critical"]
    assert (found["throttled"], found["latency_high"], found["render_queue"]) == (
        "ok",
        "no_data",
        "no_data",
    )
    assert (
        RUN.invoke(
            load_all(),
            [*args, "--set", "alerts.error_share=0.7", "--set", "alerts.error_share_critical=0.7"],
        ).exit_code
        == 0
    )
    assert "errors_warn" in RUN.invoke(load_all(), args[:-1]).stdout
    assert RUN.invoke(load_all(), ["metrics", "--data", str(tmp_path)]).stdout.startswith(
        "# HELP crawlkit_"
    )


def test_a_complaint_pages_for_a_day(tmp_path):
    crawl = make_crawl(tmp_path)
    run_command(crawl, "complain", {"host": "a.test", "reason": "too much"}, actor="me")
    at = crawl.plain_tables().rows("commands", ["at"])[0]["at"]
    states = [
        next(a.state for a in alerts_now(crawl, at + after)[1] if a.name == "complaint")
        for after in (1, 86_401)
    ]
    assert states == ["firing", "ok"]
    run_command(crawl, "complain", {"host": "b.test", "action": "slow"}, actor="me")
    assert (
        read_orders(crawl.objects).policies["b.test"]["delay_s"] == Config().politeness.max_delay_s
    )
