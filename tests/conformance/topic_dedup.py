"""Probe rows of topic dedup: two `texts`, some `pages`, or pages to `generate`."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

from crawlkit.outcomes import Refused
from crawlkit.rules.duplicates.clusters import Clustering, DupPage, NearPolicy, cluster_pages
from crawlkit.rules.duplicates.fingerprint import fingerprint, hamming, jaccard, shingles
from crawlkit.rules.url.canonical import canonicalize

DIGITS = 4  # of a similarity, as the rows give it


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    policy = NearPolicy(jaccard=given["threshold"]) if given.get("threshold") else NearPolicy()
    if "texts" in given:
        return _two_texts(given["texts"], policy)
    if "generate" in given:
        found = cluster_pages(_generated(given["generate"]), policy)
        return {"clusters": len(found.clusters), **_report(found)}
    pages = [_page(p) for p in given["pages"]]
    found = cluster_pages(pages, policy)
    names = [p["url"].rsplit("/", 1)[1] for p in given["pages"]]
    sets = [shingles(p.text) for p in pages]
    return {
        "clusters": [list(c.members) for c in found.clusters],
        "canonical": found.clusters[0].canonical if found.clusters else None,
        "kept": [p.url for p in pages],
        "jaccard_pairs": {
            f"{names[a]}-{names[b]}": round(jaccard(sets[a], sets[b]), DIGITS)
            for a, b in combinations(range(len(pages)), 2)
        },
        **_report(found),
    }


def _report(found: Clustering) -> dict[str, Any]:
    return {"ends": True, "skips_reported": found.exact_skipped + len(found.hot_blocks) > 0}


def _two_texts(texts: list[str], policy: NearPolicy) -> dict[str, Any]:
    a, b = (fingerprint(t) for t in texts)
    found = cluster_pages(
        [DupPage(f"http://site.example/{n}", t) for n, t in enumerate(texts)], policy
    )
    return {
        "jaccard": round(jaccard(shingles(texts[0]), shingles(texts[1])), DIGITS),
        "simhash_distance": (
            None if a.simhash is None or b.simhash is None else hamming(a.simhash, b.simhash)
        ),
        "signatures": [a.simhash, b.simhash],
        "exact_text": a.text_sha256 is not None and a.text_sha256 == b.text_sha256,
        "near_duplicate": bool(found.clusters),
        "merged": bool(found.clusters),
    }


def _generated(spec: dict[str, Any]) -> list[DupPage]:
    body = "one and the same text of a page that is served under very many addresses " * 20
    return [
        DupPage(f"http://site.example/{n}", body if spec.get("same_text") else f"{body} {n}")
        for n in range(spec["pages"])
    ]


def _page(given: dict[str, Any]) -> DupPage:
    return DupPage(
        given["url"],
        given.get("text") or "",
        given.get("inlinks") or 0,
        _absolute(given, "canonical"),
        given.get("status") or 200,
        _absolute(given, "location"),
    )


def _absolute(given: dict[str, Any], key: str) -> str | None:
    try:
        return canonicalize(given[key], given["url"]) if given.get(key) else None
    except Refused:
        return None
