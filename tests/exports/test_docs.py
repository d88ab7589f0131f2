"""Every command of docs/exports.md and docs/planner.md runs as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from crawlkit.cli.main import load_all
from crawlkit.cli.verbs import export as cli_export
from typer.testing import CliRunner

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS = [
    line.strip()
    for name in ("exports.md", "planner.md")
    for line in re.findall(r"^    (crawlkit .*)$", (DOCS / name).read_text("utf-8"), re.MULTILINE)
]

pytestmark = pytest.mark.waits


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("site").symlink_to(data)
    done = CliRunner().invoke(load_all(), shlex.split(command)[1:])
    assert done.exit_code == 0, done.output


def test_all_verbs_are_there():
    text = (DOCS / "exports.md").read_text("utf-8")
    assert {c.name for c in cli_export.export.registered_commands} == set(
        re.findall(r"`([a-z-]+)`", " ".join(re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)))
    )
