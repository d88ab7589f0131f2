"""The columns of what goes into a parse task and comes out of it, as Spark's DDL."""

from __future__ import annotations

from crawlkit.tables import FILES_DDL, TABLES

ITEM_COLUMNS = (
    "capture_id string",
    "kind string",
    "vouched array<string>",
    "url_key binary",
    "url string",
    "host string",
    "domain string",
    "depth int",
    "redirects int",
    "outcome string",
    "content_type string",
    "truncated string",
    "redirect_to string",
    "redirect_sent_url string",
    "quality double",
    "reserves string",
    "file string",
    "offset bigint",
    "length bigint",
    "doc_filename string",
    "doc_offset bigint",
    "doc_length bigint",
)
_PAGE = ", ".join(
    f"{c.name}: {c.type}"
    for c in TABLES["pages"].columns
    if c.name not in ("capture_id", "round_id")
)
_LINK = ", ".join(
    f"{c.name}: {c.type}"
    for c in TABLES["links"].columns
    if c.name not in ("capture_id", "round_id")
)
FOUND = (
    "url_key: binary, url: string, host: string, domain: string, host_bucket: int, source: string,"
    " fetch_kind: string, depth: int, redirects: int, parent_key: binary, due_at: double,"
    " sent_url: string"
)
# one row for each item; page is null for redirects and rejects
PARSED_SCHEMA = (
    f"capture_id string, page struct<{_PAGE}>, links array<struct<{_LINK}>>, found"
    f" array<struct<{FOUND}>>, rejects array<struct<item: string, reason: string, detail: string>>"
)
# what a task reports: a data file, a count or a found row; one struct of each row is not null
WRITTEN_SCHEMA = (
    f"added struct<table string, {FILES_DDL}>, counted struct<what: string, reason: string, n:"
    f" bigint>, found struct<{FOUND}>"
)
