"""Probe rows of topic meta-robots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conformance.html_given import page_of


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    page = page_of(given, case_dir)
    robots = page.robots
    return {
        "noindex": robots.noindex,
        "nofollow": robots.nofollow,
        "noarchive": robots.noarchive,
        "unavailable_after": robots.unavailable_after,
        "ai_signals": list(robots.ai_signals),
        "tdm_reservation": robots.tdm_reservation,
        "frontier_rows": len(page.outlinks),
    }
