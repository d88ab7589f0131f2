"""Prometheus' text: types, HELP, a histogram that adds up; another's parser reads it."""

from __future__ import annotations

import json
import re

import pytest
from crawlkit.report.alerts import load_rules
from crawlkit.report.exposition import HELP, prometheus_text
from crawlkit.report.history import make_metrics

from tests.report.test_metrics import stage_rows

LATENCY = [
    {"label": "10-30", "upper_ms": 30, "answers": 4, "sum_ms": 80},
    {"label": "300-1k", "upper_ms": 1000, "answers": 3, "sum_ms": 1500},
    {"label": "10k+", "upper_ms": None, "answers": 1, "sum_ms": 12000},
]


class Round:
    id = "r000002"


def made(**more) -> str:
    data = {"totals": [{"requests": 8, "stored bytes": 99, "errors": 1}], "latency": LATENCY}
    data["promises"] = []
    data |= {"status": [{"label": "200", "value": 7}], "states": [], "refusals": []}
    rows = make_metrics(data | {"duplicates": []} | more, stage_rows(), Round)
    return prometheus_text("c", rows, [], "r000002")


def test_an_outside_reader_finds_the_types():
    parser = pytest.importorskip("prometheus_client.parser")
    families = {f.name: f for f in parser.text_string_to_metric_families(made())}
    assert families["crawlkit_crawl_requests"].type in ("gauge", "counter")
    kinds = {f.name: f.type for f in families.values()}
    assert kinds["crawlkit_crawl_answers"] == "counter"
    assert kinds["crawlkit_crawl_answer_seconds"] == "histogram"
    buckets = {
        s.labels["le"]: s.value
        for s in families["crawlkit_crawl_answer_seconds"].samples
        if s.name.endswith("_bucket")
    }
    # 4 until 30 ms, 7 until 1 s, 8 in all; 0.08 + 1.5 + 12 s
    assert buckets == {
        **{"0.01": 0, "0.03": 4, "0.1": 4, "0.3": 4, "1": 7, "3": 7, "10": 7, "+Inf": 8}
    }
    rest = {s.name: s.value for s in families["crawlkit_crawl_answer_seconds"].samples}
    assert rest["crawlkit_crawl_answer_seconds_sum"] == pytest.approx(13.58)
    assert rest["crawlkit_crawl_answer_seconds_count"] == 8


def test_each_family_is_whole_and_has_its_help():
    """Strictly: HELP, TYPE, then its samples and nobody else's; buckets in order."""
    seen: list[str] = []
    for line in made().splitlines():
        if line.startswith("# HELP "):
            seen.append(line.split()[2])
            assert line.split(maxsplit=3)[3].endswith(".")
        elif line.startswith("# TYPE "):
            assert line.split()[2] == seen[-1]
        else:
            assert re.fullmatch(r'[a-z_]+\{(\w+="[^"]*",?)*\} [-+0-9.e]+', line), line
            assert line.startswith(seen[-1])
    assert len(seen) == len(set(seen)) and seen == sorted(seen)
    bounds = re.findall(r'le="([^"]+)"', made())
    assert bounds == sorted(bounds, key=float)


def test_what_a_rule_looks_at_has_a_meaning():
    metrics = {r.metric for r in load_rules() if r.needs is None}
    assert metrics <= set(HELP)


def test_what_cannot_be_a_name_is_none():
    row = {"name": "fetch a-b", "labels": json.dumps({"x y": 'a"b\\c\nd'}), "value": 1.0}
    assert 'crawlkit_fetch_a_b{crawl="c",x_y="a\\"b\\\\c\\nd"} 1.0' in prometheus_text(
        "c", [row], [], None
    )
