"""Each message that docs/troubleshooting.md names is one that the program says."""

from __future__ import annotations

import re
from pathlib import Path

import crawlkit
from crawlkit.outcomes import Reason

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(crawlkit.__file__).parent
OF_OTHERS = {"Unable to locate credentials"}  # botocore's


def test_the_messages_are_those_of_the_program():
    source = "".join(p.read_text("utf-8") for p in sorted(PACKAGE.rglob("*.py")))
    source = re.sub(r'"\s*\n\s*f?"', "", source)  # texts that go on in the next line
    page = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
    named = re.findall(r"^\| `([^`]+)`( \(reason\))? \|", page, re.MULTILINE)
    assert len(named) > 20
    lost = [
        words
        for words, is_reason in named
        if words not in OF_OTHERS
        and (words not in set(Reason) if is_reason else words not in source)
    ]
    assert lost == []
