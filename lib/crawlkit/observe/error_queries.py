"""Queries of `crawlkit errors`."""

from __future__ import annotations

from crawlkit.report.queries import IS_MISSING

ERRORS = """
    WITH failed AS (
        SELECT round_id, url, url_key, outcome, reason, status, detail, started FROM errors
        WHERE {wanted} ORDER BY round_id DESC, started DESC LIMIT {limit}
    ),
    linked AS (
        SELECT to_key, min(from_url) AS referrer FROM links
        SEMI JOIN failed ON to_key = url_key GROUP BY to_key
    )
    SELECT round_id, url, outcome, reason, status, detail, referrer
    FROM failed LEFT JOIN linked ON to_key = url_key ORDER BY round_id DESC, started DESC
"""
ERROR_COUNTS = """
    SELECT outcome, reason, count(*) AS n, count(DISTINCT host) AS hosts FROM errors
    WHERE {wanted} GROUP BY outcome, reason ORDER BY n DESC, reason
"""


def where_errors(
    host: str | None, reason: str | None, round_id: str | None, all_kinds: bool
) -> str:
    """The condition of both. all_kinds: missing robots.txt files and sitemaps too."""
    named = {"host": host and host.lower(), "reason": reason, "round_id": round_id}
    wanted = [f"{name} = {_quote(value)}" for name, value in named.items() if value is not None]
    return " AND ".join([*wanted, "true" if all_kinds else f"NOT ({IS_MISSING})"])


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
