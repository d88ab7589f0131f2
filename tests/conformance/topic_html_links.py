"""Probe rows of topic html-links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crawlkit.outcomes import Reason

from tests.conformance.html_given import page_of

NO_ADDRESS = (Reason.URL_INVALID, Reason.URL_HOST_EMPTY, Reason.URL_TOO_LONG)


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    page = page_of(given, case_dir)
    found = page.links
    usable = [
        link
        for link in found.links
        if link.refused in (None, Reason.NOFOLLOW, Reason.MEDIA_NOT_CRAWLED)
    ]
    anchors = [link for link in usable if link.kind in ("a", "area")]
    flags: dict[str, set[str]] = {}
    for link in anchors:
        told = {"nofollow", "sponsored", "ugc"}.intersection(link.rel.split())
        flags[link.url] = flags.get(link.url, told) & told
    return {
        "links": list(dict.fromkeys(link.url for link in anchors)),
        "base": found.base,
        "images": [url for url, _ in found.images],
        "canonical": found.canonical,
        "canonical_conflict": found.canonical_conflict,
        "canonical_cross_site": found.canonical_cross_site,
        "alternates": [list(pair) for pair in found.alternates],
        "next": found.first("next"),
        "prev": found.first("prev"),
        "frames": list(
            dict.fromkeys(link.url for link in usable if link.kind in ("frame", "iframe"))
        ),
        "link_flags": {url: sorted(tokens) for url, tokens in flags.items()},
        "bad_links": sum(
            link.kind in ("a", "area") and link.refused in NO_ADDRESS for link in found.links
        ),
        "outlinks": [link.url for link in page.outlinks],
    }
