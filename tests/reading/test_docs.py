"""The examples of docs/python.md run in their order and give something."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/python.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.S)

pytestmark = pytest.mark.rounds


def test_the_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for example in EXAMPLES:
        exec(compile(example, "docs/python.md", "exec"), names)
    assert names["pages"].count() == names["rows"] == len(names["titles"]) == len(names["frame"])
    assert 20 < names["table"].num_rows == len(names["relation"].fetchall())
    assert names["body"].startswith(b"<!doctype html>") and names["words"] > 10


def test_each_method_is_there():
    import crawlkit

    crawl = crawlkit.open("nowhere")
    for name in re.findall(r"`(\w+)\(\)`", PAGE):
        assert hasattr(crawl, name) or hasattr(crawl.pages(), name), name
