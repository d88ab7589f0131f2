"""`pip install crawlkit` alone: every verb is there, and those that need an extra name it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from crawlkit.cli.verb_table import VERBS

ROOT = Path(__file__).resolve().parents[2]


def run(*words: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tests.without_extras", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, timeout=120)


@pytest.fixture(scope="module")
def crawl(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bare") / "site"
    done = run("crawl", "--sample", "--rounds", 1, "--data", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.waits
@pytest.mark.parametrize(
    "words",
    [
        ("hosts",),
        ("sql", "SELECT count(*) FROM pages"),
        ("sql", "SELECT count(*) FROM cc_index"),
        ("errors", "--all"),
        ("export", "cdxj"),
        ("export", "pages"),
        ("export", "wet"),
        ("freshness",),
        ("maintain",),
        ("audit",),
    ],
    ids=" ".join,
)
def test_verbs_of_every_day(crawl, words):
    done = run(*words, "--data", crawl)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


@pytest.mark.waits
@pytest.mark.parametrize(
    "words",
    [
        ("round", "--data", "s3://bucket/crawl"),
        ("status", "--data", "s3://bucket/crawl"),
        ("export", "cc-index", "--out", "s3://bucket/index"),
        ("round", "--engine", "spark"),
        ("crawl", "--sample", "--set", "render.enabled=true"),
        ("sql", "SELECT 1", "--engine", "spark"),
    ],
    ids=" ".join,
)
def test_what_needs_an_extra_names_it(crawl, words):
    more = () if "--data" in words else ("--data", crawl)
    done = run(*words, *more)
    assert "Traceback" not in done.stderr, done.stderr
    if words[0] != "crawl":  # pages are deferred, and the end of the crawl says why
        assert done.returncode == 2
        assert "crawlkit[" in done.stderr or "make setup-" in done.stderr, done.stderr


@pytest.mark.waits
def test_all_modules_of_verbs_load():
    modules = sorted({module for module, *_ in VERBS.values()})
    code = (
        "import sys, importlib\nfrom tests.without_extras import NotInstalled, of_extras\n"
        "sys.meta_path.insert(0, NotInstalled(of_extras()))\n"
        f"for name in {modules!r}: importlib.import_module(f'crawlkit.cli.verbs.{{name}}')\n"
        "import crawlkit, crawlkit.api, crawlkit.control.app\n"
        "from crawlkit.reading.crawl_data import CrawlData\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
