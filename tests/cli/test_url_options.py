"""Every verb takes a URL without a scheme, as seeds are taken."""

from __future__ import annotations

import json

import pytest
import typer
from crawlkit.cli.main import load_all
from crawlkit.cli.url_options import read_url

from tests.cli.call import call
from tests.control.smallcrawl import fill, make_crawl

TOP = typer.main.get_command(load_all())


def arguments():
    """(verb, name of the argument) of each argument that is a URL or several."""
    groups = {"": TOP, "command ": TOP.commands["command"]}
    for path, group in groups.items():
        for verb, command in group.commands.items():
            for p in command.params:
                if p.metavar in ("URL", "URL..."):
                    yield path + verb, p.name


def test_each_such_argument_is_read_by_the_one_function():
    found = dict(arguments())
    assert {"explain", "recrawl", "hint", "boost", "command seeds", "cat", "fetch-one"} <= {*found}
    assert {"scope-test", "command recrawl"} <= {*found}
    for verb, name in found.items():
        command = TOP
        for word in verb.split():
            command = command.commands[word]
        more = ["--points", "1"] if verb.endswith("boost") else []
        given = command.make_context(verb, ["Site.example/x", *more]).params[name]
        assert given in ("http://Site.example/x", ["http://Site.example/x"]), verb


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("site.example", "http://site.example"),
        (" site.example:8080/a?b ", "http://site.example:8080/a?b"),
        ("127.0.0.1/x", "http://127.0.0.1/x"),
        ("https://site.example/", "https://site.example/"),
        ("mailto:a@b.example", "mailto:a@b.example"),
        ("user@site.example", "user@site.example"),
        ("javascript:alert(1.5)", "javascript:alert(1.5)"),
        ("/a.b", "/a.b"),
        ("localhost", "localhost"),
    ],
)
def test_what_is_read_as_a_host(given, read):
    assert read_url(given) == read


def answer(*words: object) -> dict:
    done = call(*words, "--json")
    assert done.code in (0, 1), done.err
    return json.loads(done.out)


def test_verbs_that_look_at_no_crawl(tmp_path):
    assert answer("normalize", "Site.example/a/../b")["canonical"] == "http://site.example/b"
    assert answer("normalize", "a.b/c", "--base", "http://site.example/")["canonical"] == (
        "http://site.example/a.b/c"
    )
    assert answer("scope-test", "site.example")["url"] == "http://site.example/"
    robots = tmp_path / "robots.txt"
    robots.write_text("User-agent: *\nDisallow: /private\n")
    for url, allowed in (("site.example/private", False), ("/private", False), ("/x.y", True)):
        assert answer("robots", robots, url)["allowed"] is allowed, url


@pytest.mark.waits
def test_verbs_of_a_crawl(tmp_path):
    crawl = make_crawl(tmp_path)
    fill(crawl)
    assert answer("explain", "a.test/dead", "--data", tmp_path)["schedule"]["state"] == "dead"
    for verb in (("recrawl",), ("hint",), ("boost", "--points", 5), ("command", "seeds")):
        told = answer(*verb, "a.test/dead", "--data", tmp_path, "--dry-run")
        assert told["target"] == "http://a.test/dead", verb
    told = answer("purge", "--url", "a.test/dead", "--data", tmp_path, "--dry-run")
    assert "http://a.test/dead" in json.dumps(told)
