"""Pages whose text goes into no file for others: `noarchive`, and `unavailable_after` a time that
has passed (docs/rules/html.md).
"""

from __future__ import annotations

import datetime

import pyarrow.dataset as ds

from crawlkit.exports.source import Source
from crawlkit.rules.robots.meta_dates import has_passed


def withheld(source: Source, now: datetime.datetime | None = None) -> set[str]:
    """capture_ids of such pages. now: with a zone; None: the clock."""
    at = (now or datetime.datetime.now(datetime.UTC)).astimezone(datetime.UTC)
    iso_now = f"{at:%Y-%m-%dT%H:%M:%SZ}"
    return {
        row["capture_id"]
        for row in source.rows(
            "pages", ["capture_id", "robots_meta"], ds.field("robots_meta").is_valid()
        )
        if any(d in ("noarchive", "nocache") or _is_over(d, iso_now) for d in row["robots_meta"])
    }


def _is_over(directive: str, iso_now: str) -> bool:
    name, _, date = directive.partition("=")
    return name == "unavailable_after" and has_passed(date, iso_now)
