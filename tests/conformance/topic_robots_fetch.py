"""Probe adapter: rules.robots_fetch, driven over a web of given answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crawlkit.rules.robots.fetching import robots_url

from tests.conformance.predicates import Every, Requests
from tests.conformance.web_loop import WebLoop


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    pages = [given["page"]] if isinstance(given["page"], str) else given["page"]
    loop = WebLoop(given["web"])
    decisions = [loop.crawl(page) for page in pages]
    first = next(iter(loop.verdicts.values()))
    for sitemap in first.robots.sitemap_urls(robots_url(pages[0])):
        if loop.decide(sitemap) == "allow":
            loop.get(sitemap)
    return {
        "decision": decisions[0],
        "decisions": decisions,
        "requested": Requests(loop.requested),
        "not_requested": Every(lambda url: url not in loop.requested, "not requested"),
        "wait_s": first.wait_s,
        "reason_known": loop.known,
        "robots_requested_url": loop.requested[0],
        "robots_final_url": first.final_url,
        "records": loop.records,
        "same_user_agent": len(loop.user_agents) == 1,
        "flag": loop.flag,
    }
