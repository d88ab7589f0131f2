"""Pages whose text goes into no file for others: `noarchive`, and `unavailable_after` a time that
has passed (docs/rules/html.md).
"""

from __future__ import annotations

import datetime

import pyarrow.dataset as ds

from crawlkit.exports.source import Source


def withheld(source: Source, now: datetime.datetime | None = None) -> set[str]:
    """capture_ids of such pages. now: with a zone; None: the clock."""
    at = now or datetime.datetime.now(datetime.UTC)
    return {
        row["capture_id"]
        for row in source.rows(
            "pages", ["capture_id", "robots_meta"], ds.field("robots_meta").is_valid()
        )
        if any(d in ("noarchive", "nocache") or _has_passed(d, at) for d in row["robots_meta"])
    }


def _has_passed(directive: str, now: datetime.datetime) -> bool:
    name, _, value = directive.partition("=")
    if name != "unavailable_after":
        return False
    at = datetime.datetime.fromisoformat(value)
    return (at if at.tzinfo else at.replace(tzinfo=datetime.UTC)) <= now
