"""Probe adapter: rules.shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crawlkit.rules.url.canonical import canonicalize
from crawlkit.rules.url.pattern import same_shape


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    first, second = (canonicalize(url) for url in given["urls"])
    return {"same_shape": same_shape(first, second)}
