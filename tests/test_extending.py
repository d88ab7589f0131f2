"""The three examples of docs/extending.md do what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from crawlkit.cli import export as export_cli
from crawlkit.cli.main import load_all
from crawlkit.config import Config, parse_config
from crawlkit.crawl.state import Crawl
from crawlkit.outcomes import Reason
from crawlkit.round import job as jobs
from crawlkit.rules.url import scope
from typer.testing import CliRunner

from tests.exports import sample

PAGE = (Path(__file__).parents[1] / "docs/extending.md").read_text("utf-8")
FILES = dict(re.findall(r"^`(lib/[^`]+)`:\n\n```python\n(.*?)```", PAGE, re.M | re.S))
LINES = dict(
    re.findall(r"^The line, in .*?`(lib/[^`]+)`.*?:\n\n```python\n(.*?)\n```", PAGE, re.M | re.S)
)


def run(file: str) -> dict[str, object]:
    """The names that a file of the page defines."""
    names: dict[str, object] = {}
    exec(FILES[file], names)
    return names


def test_the_page_has_three_examples():
    assert len(FILES) == len(LINES) == 3
    assert all((Path(__file__).parents[1] / place).is_file() for place in LINES)


def test_a_rule_of_the_scope(monkeypatch):
    names = run("lib/crawlkit/rules/url/print_pages.py")
    line = eval(LINES["lib/crawlkit/rules/url/scope.py"].strip().rstrip(","), names)
    monkeypatch.setattr(scope, "RULES", (*scope.RULES, line))
    rules = scope.Scope.of(Config().scope)
    for url, reason in (
        ("http://a.example/print/1", Reason.SCOPE_PATTERN),
        ("http://a.example/x?print=1", Reason.SCOPE_PATTERN),
        ("http://a.example/printer", None),
    ):
        assert scope.scope_reason(url, 0, rules, 2026) == reason


def test_an_export(tmp_path):
    folder = tmp_path / "crawl"
    sample.make(folder)
    names = run("lib/crawlkit/exports/titles.py") | {"add_export": export_cli.add_export}
    load_all()
    before = [*export_cli.export.registered_commands]
    try:
        exec(LINES["lib/crawlkit/cli/export.py"], names)
        out = tmp_path / "titles.tsv"
        words = ["export", "titles", "--data", str(folder), "--out", str(out), "--json"]
        done = CliRunner().invoke(load_all(), words)
    finally:
        export_cli.export.registered_commands = before
    assert done.exit_code == 0, done.output
    lines = out.read_text("utf-8").splitlines()
    assert json.loads(done.output)["titles"] == len(lines) > 0
    assert all(len(line.split("\t")) == 2 for line in lines)


@pytest.mark.spark
def test_a_stage(spark, tmp_path, monkeypatch):
    names = run("lib/crawlkit/round/untitled.py")
    line = eval("{" + LINES["lib/crawlkit/round/job.py"] + "}", names | {"Stage": jobs.Stage})
    monkeypatch.setattr(jobs, "STAGES", jobs.STAGES | line)
    job = jobs.Job(Crawl(tmp_path, parse_config("", "test")), quick=True, spark=spark)
    round_ = job.crawl.open_round(0.0)
    pages = [("http://a.example/1", "page", "A title"), ("http://a.example/2", "feed", None)]
    with job.crawl.lock:
        rows = [
            {"url": url, "kind": kind, "title": title, "round_id": round_.id}
            for url, kind, title in pages
        ]
        job.tables.replace("pages", rows, {"round_id": [round_.id]})
    counts = job.run("untitled", round_)
    assert (counts["rows_in"], counts["rows_out"], counts["rejected"]) == (2, 1, {"feed": 1})
