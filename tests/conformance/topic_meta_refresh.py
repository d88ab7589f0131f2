"""Probe rows of topic meta-refresh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conformance.html_given import page_of


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    page = page_of(given, case_dir)
    refresh = page.links.refresh
    return {
        "refresh": {"url": refresh.url, "seconds": refresh.seconds} if refresh else None,
        "refresh_immediate": bool(refresh and refresh.seconds == 0),
        "outlinks": [link.url for link in page.outlinks],
    }
