"""The table of verbs is true, and `--help` and `--version` load nothing of a crawl."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from crawlkit.cli.main import load_all
from crawlkit.cli.root import app
from crawlkit.cli.verb_table import PANELS, VERBS

TOP = typer.main.get_command(load_all())


def test_each_verb_is_in_the_table():
    assert set(TOP.commands) == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_the_line_of_a_verb_is_the_first_of_its_own_help(verb):
    first = " ".join((TOP.commands[verb].help or "").split("\n\n")[0].split("\b")[0].split())
    assert VERBS[verb][1] == first


@pytest.mark.parametrize("verb", [v for v in VERBS if not hasattr(TOP.commands[v], "commands")])
def test_a_verb_is_in_its_module(verb):
    command = next(c for c in app.registered_commands if _name(c) == verb)
    assert command.callback.__module__ == f"crawlkit.cli.verbs.{VERBS[verb][0]}"


def _name(command):
    return command.name or command.callback.__name__.rstrip("_").replace("_", "-")


@pytest.mark.waits
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["nonsense"]])
def test_help_loads_no_crawl(arguments):
    code = (
        "import sys; from crawlkit.cli.main import run\n"
        f"try: run({arguments!r})\n"
        "except SystemExit: pass\n"
        "heavy = {'pyspark', 'pyarrow', 'crawlkit.config', 'duckdb', 'deltalake'}\n"
        "heavy &= {*sys.modules}\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ("crawl" in done.stdout) or "No such command" in done.stderr


def test_each_verb_is_in_one_group():
    assert sorted(v for verbs in PANELS.values() for v in verbs) == sorted(VERBS)
    assert list(PANELS) == ["Crawl", "Look", "Steer", "Check", "Export", "Upkeep", "Stages"]
    for panel, verbs in PANELS.items():
        for verb in verbs:
            assert TOP.commands[verb].rich_help_panel == panel


@pytest.mark.waits
def test_help_shows_the_groups_in_their_order():
    shown = subprocess.run(
        [sys.executable, "-m", "crawlkit", "--help"], capture_output=True, text=True, check=True
    ).stdout
    places = [shown.index(f"─ {panel} ─") for panel in PANELS]
    assert places == sorted(places) and "─ Commands ─" not in shown
    for verb in VERBS:
        assert f"│ {verb} " in shown, verb
