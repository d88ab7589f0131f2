"""Probe rows of topic text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conformance.html_given import page_of


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    page = page_of(given, case_dir)
    words = page.text.split()
    return {
        "title": page.title,
        "text": page.text,
        "words": words,
        "words_set": sorted(set(words)),
        "description": page.metadata.description,
        "keywords": page.metadata.keywords,
        "author": page.metadata.author,
        "og": page.metadata.og,
        "declared_language": page.metadata.declared_language,
    }
