"""Probe adapter: rules.robots."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path
from typing import Any

from crawlkit.rules.robots.parser import MAX_BYTES, parse
from crawlkit.rules.url.canonical import as_sent

from tests.conformance.predicates import Every


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    robots = parse(_body(given, case_dir), given.get("max_bytes") or MAX_BYTES)
    agent = given.get("agent", "crawlkit")
    robots_url = given.get("robots_url") or "http://site.example/robots.txt"

    def allowed(url: str) -> bool:
        return robots.match(agent, as_sent(url, robots_url)).allowed

    return {
        "allowed": allowed(given["url"]) if "url" in given else None,
        "crawl_delay": robots.crawl_delay_s(agent),
        "sitemaps": list(robots.sitemap_urls(robots_url)),
        "disallowed": Every(lambda path: not allowed(path), "disallowed"),
        "allowed_paths": Every(allowed, "allowed"),
        "content_signals": {s.key: s.value for s in robots.signals(agent)},
    }


def _body(given: dict[str, Any], case_dir: Path) -> bytes:
    if "robots_b64" in given:
        return base64.b64decode(given["robots_b64"])
    if "robots_file" in given:
        raw = (case_dir / given["robots_file"]).read_bytes()
        return gzip.decompress(raw) if given.get("gunzip") else raw
    return (given.get("robots_txt") or "").encode()
