"""Probe adapter: rules.domains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crawlkit.rules.url.domains import registered_domain


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    return {
        "registered_domain": registered_domain(given["host"], given.get("private_suffixes", True))
    }
