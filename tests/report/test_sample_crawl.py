"""Reports of a healthy small crawl: the sample site in three rounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from crawlkit.adapters.lake.duckdb_reader import ask
from crawlkit.cli.main import load_all
from crawlkit.config import Config
from crawlkit.crawl.state import Crawl
from crawlkit.observe.views import VIEWS
from crawlkit.report.queries import OF_HISTORY, PLOTTED, read_queries
from typer.testing import CliRunner

pytestmark = pytest.mark.rounds
ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 3


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """The folder, and the events of the command, oldest first."""
    folder = tmp_path_factory.mktemp("sample") / "crawl"
    args = ["crawl", "--sample", str(ROOT / "data/samples/site"), "--rounds", str(ROUNDS)]
    done = CliRunner().invoke(load_all(), [*args, "--data", str(folder), "--json"])
    assert done.exit_code == 0, done.output
    return folder, [json.loads(line) for line in done.stderr.splitlines() if line[:1] == "{"]


def test_each_round_is_ranked_and_reported_before_the_next_begins(crawled):
    done = [(e["round_id"], e["stage"]) for e in crawled[1] if e["event"] == "stage_done"]
    for n in range(1, ROUNDS + 1):
        mine = [stage for round_id, stage in done if round_id == f"r{n:06d}"]
        assert mine[-2:] == ["rank", "report"]
    assert [r for r, _ in done] == sorted(r for r, _ in done)


def test_no_alert_fires_in_a_healthy_small_crawl(crawled):
    reports = [e for e in crawled[1] if e["event"] == "stage_done" and e["stage"] == "report"]
    assert [e["alerts"] for e in reports] == [[]] * ROUNDS
    kept = json.loads((crawled[0] / "report/report.json").read_text("utf-8"))
    assert {a["state"] for a in kept["alerts"]} <= {"ok", "no_data", "no_cause", "off"}


def test_the_sql_that_the_page_shows_runs_in_crawlkit_sql(crawled):
    tables = Crawl(crawled[0], Config()).plain_tables()
    for name, query in read_queries("r000002", PLOTTED | OF_HISTORY).items():
        rows = ask(tables, VIEWS, query.sql, 1000)
        assert rows or name in ("changes", "links_refused"), name


def test_counters_only_grow_from_round_to_round(crawled):
    rows = Crawl(crawled[0], Config()).plain_tables().rows("metrics", ["name", "round_id", "value"])
    grown = {"crawl_requests_total", "crawl_body_bytes_total", "crawl_answer_seconds_count"}
    for name in grown:
        values = [
            r["value"] for r in sorted(rows, key=lambda r: r["round_id"]) if r["name"] == name
        ]
        assert len(values) == ROUNDS and values == sorted(values) and values[0] < values[-1]
