"""The three examples of docs/extending.md, written into a copy of the package, do what the page
says.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exports import sample

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/extending.md").read_text("utf-8")
BLOCK = r":\n\n```python\n(.*?)```"
FILES = dict(re.findall(rf"^The new file `(lib/[^`]+)`{BLOCK}", PAGE, re.M | re.S))
LINES = re.findall(rf"^In `(lib/[^`]+)`, below the line `([^`]+)`{BLOCK}", PAGE, re.M | re.S)
SITE = ROOT / "data/samples/site"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The package with everything that the page prints."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(ROOT / "lib", folder / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    for file, text in FILES.items():
        assert not (folder / file).exists()
        (folder / file).write_text(text, "utf-8")
    for file, above, text in LINES:
        insert_below(folder / file, above, text)
    return folder


def insert_below(file: Path, above: str, text: str) -> None:
    """Add text below the one line that is `above`, with its indent."""
    lines = file.read_text("utf-8").splitlines(keepends=True)
    (at,) = (n for n, line in enumerate(lines) if line.strip() == above)
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    lines[at + 1 : at + 1] = [indent + line for line in text.splitlines(keepends=True)]
    file.write_text("".join(lines), "utf-8")


def run(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the copy in place of the package; its exit code is left to the caller."""
    env = os.environ | {"PYTHONPATH": str(copy / "lib")}
    return subprocess.run(
        [sys.executable, *words], cwd=copy, env=env, capture_output=True, text=True, timeout=300
    )


def crawlkit(copy: Path, *words: str) -> dict:
    """The JSON answer of a command of the copy."""
    done = run(copy, "-m", "crawlkit", *words, "--json")
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def test_the_page_has_three_examples():
    assert len(FILES) == 3
    assert len(LINES) == 6
    assert "make docs" in PAGE


@pytest.mark.waits
def test_what_the_page_prints_is_formatted(copy):
    changed = [copy / file for file in {*FILES, *(file for file, _, _ in LINES)}]
    for words in (["check"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *words, "--config", ROOT / "pyproject.toml"]
        done = subprocess.run([*ruff, *changed], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.waits
def test_a_rule_of_the_scope(copy):
    for url, reason in (
        ("http://a.example/print/1", "scope_pattern"),
        ("http://a.example/x?print=1", "scope_pattern"),
        ("http://a.example/printer", None),
    ):
        assert crawlkit(copy, "scope-test", url)["reason"] == reason


@pytest.mark.waits
def test_an_export(copy, tmp_path):
    sample.make(tmp_path / "crawl")
    out = tmp_path / "titles.tsv"
    words = ["export", "titles", "--data", str(tmp_path / "crawl"), "--out", str(out)]
    done = crawlkit(copy, *words)
    lines = out.read_text("utf-8").splitlines()
    assert done["titles"] == len(lines) > 0
    assert all(len(line.split("\t")) == 2 for line in lines)


@pytest.mark.waits
def test_make_docs_finds_the_stage(copy):
    done = run(copy, "-m", "crawlkit.round.contracts", "json")
    assert json.loads(done.stdout)["untitled"] == {"reads": ["pages"], "writes": []}


@pytest.mark.rounds
def test_a_stage(copy, tmp_path):
    words = ["crawl", "--sample", str(SITE), "--rounds", "1", "--data", str(tmp_path / "crawl")]
    crawl = crawlkit(copy, *words)
    (mark,) = (tmp_path / "crawl/state").rglob("untitled*.json")
    counts = json.loads(mark.read_text("utf-8"))
    assert crawl["rounds"] == [mark.parent.name]
    assert counts["rows_in"] > 0
    assert counts["rows_out"] + counts["rejected"]["untitled"] == counts["rows_in"]


@pytest.mark.waits
def test_what_the_page_prints_has_the_types_of_the_package(copy):
    done = run(copy, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"))
    assert done.returncode == 0, done.stdout
