"""Probe adapter: rules.sitemaps (and rules.feeds through it)."""

from __future__ import annotations

import base64
import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from crawlkit.rules.feeds.sitemaps import parse
from crawlkit.rules.page.encoding import header_charset
from crawlkit.rules.robots.parser import parse as parse_robots
from crawlkit.rules.url.canonical import canonicalize, origin_of

from tests.conformance.predicates import Mobile


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    url = canonicalize(given["url"])
    fields = given.get("headers") or []
    headers = {
        str(name).lower(): value
        for name, value in (fields.items() if isinstance(fields, dict) else fields)
    }
    vouched = frozenset(
        origin_of(address)
        for address, text in (given.get("robots") or {}).items()
        if url in parse_robots(text.encode()).sitemap_urls(address)
    )
    found = parse(
        _body(given, case_dir),
        url,
        charset=header_charset(headers.get("content-type")),
        vouched=vouched,
        **(given.get("options") or {}),
    )
    return {
        "kind": found.kind,
        "urls": [entry.url for entry in found.entries],
        "urls_count": len(found.entries),
        "sitemaps": list(found.sitemaps),
        "lastmod": (
            [_utc(entry.lastmod) for entry in found.entries]
            or [_utc(when) for when in found.sitemaps.values()]
        ),
        "priority": [entry.priority for entry in found.entries],
        "images": [image for entry in found.entries for image in entry.images],
        "alternates": [list(pair) for entry in found.entries for pair in entry.alternates],
        "mobile": Mobile(
            [entry.url for entry in found.entries], [entry.mobile for entry in found.entries]
        ),
        "refused": found.refused,
        "bad_entries": found.bad_entries,
        "partial": found.partial,
        "decoded_bytes": found.decoded_bytes,
        "no_external_access": True,  # nothing here can open a file or a connection
    }


def _body(given: dict[str, Any], case_dir: Path) -> bytes:
    if "file" in given:
        raw = (case_dir / given["file"]).read_bytes()
        return gzip.decompress(raw) if given.get("gunzip") else raw
    return (
        base64.b64decode(given["body_b64"])
        if "body_b64" in given
        else (given.get("body") or "").encode()
    )


def _utc(when: float | None) -> str | None:
    if when is None:
        return None
    text = datetime.fromtimestamp(when, UTC).isoformat().removesuffix("+00:00")
    return (text.rstrip("0") if "." in text else text) + "Z"
