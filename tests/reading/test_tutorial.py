"""docs/tutorial.md and docs/tutorial.ipynb run from their first line to their last."""

from __future__ import annotations

import ast
import csv
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.cli.call import call
from tests.slot.slotweb import SlotWeb, page

DOCS = Path(__file__).parents[2] / "docs"
# of the page in its order: a command, what it prints, an example in Python
PARTS = re.compile(r"^    (crawlkit [^\n]*)$|^```(text|python)\n(.*?)^```$", re.M | re.S)

pytestmark = pytest.mark.rounds


def parts() -> list[tuple[str, str]]:
    """(command, text or python; what it is) in the order of the page."""
    found = PARTS.finditer((DOCS / "tutorial.md").read_text("utf-8"))
    return [("command", m[1].strip()) if m[1] else (m[2], m[3]) for m in found]


def test_the_tutorial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    shown = ""
    with SlotWeb({"site.example": {"/": page("<title>mine</title>")}}) as web:
        fetch = web.config().fetch.model_dump(mode="json", include=LOOPBACK)
        Path("loopback.yaml").write_text(yaml.safe_dump({"fetch": fetch}))
        for kind, text in parts():
            if kind == "python":
                exec(compile(text, "docs/tutorial.md", "exec"), names)
            elif kind == "text":
                assert all(line in shown for line in text.splitlines()), (text, shown)
            else:
                words = shlex.split(text)[1:]
                # the one site of the page that is not the sample is on loopback here
                more = ["--config", "loopback.yaml"] if "site.example" in text else []
                done = call(*words, *more)
                assert done.code == 0, (text, done.err)
                shown = done.out
                assert "  refused: " not in shown, (text, shown)
    assert len(names["pages"]) == 14
    assert len(list(csv.DictReader(open("pages.csv")))) == 14 + 1  # the sitemap
    assert (
        names["longest"]["words"].is_monotonic_decreasing and names["longest"]["words"].min() > 99
    )
    assert names["linked"].total() > 50 and len(names["sizes"]) >= 14
    assert "mine" in call("cat", "site.example", "--data", "mine").out


LOOPBACK = {"connect_to", "allow_private", "ports"}


def test_the_notebook(tmp_path, monkeypatch):
    """Its code cells in their order, each with the value that a notebook would show."""
    monkeypatch.chdir(tmp_path)
    book = json.loads((DOCS / "tutorial.ipynb").read_text("utf-8"))
    assert (book["nbformat"], len({c["id"] for c in book["cells"]})) == (4, len(book["cells"]))
    names: dict = {}
    shown = []
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            *body, last = ast.parse("".join(cell["source"])).body
            exec(compile(ast.Module(body, []), "tutorial.ipynb", "exec"), names)
            assert isinstance(last, ast.Expr)
            shown.append(eval(compile(ast.Expression(last.value), "tutorial.ipynb", "eval"), names))
    outcomes, longest, states, record, why, broken = shown
    assert outcomes["fetched"] == 16 and len(longest) == 5
    assert "robots_skipped" in repr(states) and record[0] == 200
    assert any("it is due at" in reason for reason in why)
    assert list(broken["from_url"].unique()) == ["http://harbour.example/"]
