"""`--sample` with and without a folder."""

from __future__ import annotations

import pytest
import typer
from crawlkit.cli.main import load_all
from crawlkit.cli.seed_options import SAMPLE

from tests.cli.call import call

CRAWL = typer.main.get_command(load_all()).commands["crawl"]


@pytest.mark.parametrize(
    ("words", "sample", "urls"),
    [
        ("", None, []),
        ("--sample", SAMPLE, []),
        ("--sample --rounds 1", SAMPLE, []),
        ("--sample http://a.example/", SAMPLE, ["http://a.example/"]),
        ("http://a.example/ --sample", SAMPLE, ["http://a.example/"]),
        ("--sample my/site http://a.example/", "my/site", ["http://a.example/"]),
        ("--sample=my/site", "my/site", []),
    ],
)
def test_what_a_command_line_says(words, sample, urls):
    given = CRAWL.make_context("crawl", words.split()).params
    assert (given["sample"], given["urls"] or []) == (sample, urls)


@pytest.mark.rounds
def test_the_sample_that_comes_with_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call("crawl", "--sample", "--rounds", 1, "--data", "site", "--json")
    assert done.code == 0, done.err
    assert list((tmp_path / "site/warc").rglob("*.warc.gz"))
    assert call("crawl", "--sample", "none", "--data", "x").err == (
        "crawlkit: none/site.json: No such file or directory\n"
    )
