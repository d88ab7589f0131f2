"""Probe rows of topic dedup, through the dedup stage: two `texts`, some `pages`, or pages to
`generate`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from crawlkit.config import parse_config
from crawlkit.crawl.state import Crawl
from crawlkit.outcomes import Refused
from crawlkit.round.job import Job
from crawlkit.rules.duplicates.fingerprint import fingerprint, hamming, jaccard, shingles
from crawlkit.rules.page.links import same_site
from crawlkit.rules.url.canonical import canonicalize, url_key

DIGITS = 4  # of a similarity, as the rows give it
NOW = 1_767_225_600.0


class Given(NamedTuple):
    url: str
    text: str = ""
    inlinks: int = 0
    canonical: str | None = None
    location: str | None = None


class Found(NamedTuple):
    clusters: list[list[str]]  # URLs, the page that stands for them first
    kept: list[str]
    skipped: int  # pages with the text of another, and blocks of which not all pairs were compared


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    sets = [f"dedup.jaccard={given['threshold']}"] if given.get("threshold") else []
    if "texts" in given:
        return _two_texts(given["texts"], sets)
    if "generate" in given:
        found = run(_generated(given["generate"]), sets)
        return {"clusters": len(found.clusters), "ends": True, "skips_reported": found.skipped > 0}
    pages = [_page(p) for p in given["pages"]]
    found = run(pages, sets)
    names = [p["url"].rsplit("/", 1)[1] for p in given["pages"]]
    texts = [shingles(p.text) for p in pages]
    return {
        "clusters": sorted(map(sorted, found.clusters)),
        "canonical": found.clusters[0][0] if found.clusters else None,
        "kept": [p.url for p in pages if p.url in found.kept],
        "jaccard_pairs": {
            f"{names[a]}-{names[b]}": round(jaccard(texts[a], texts[b]), DIGITS)
            for a, b in combinations(range(len(pages)), 2)
        },
        "ends": True,
        "skips_reported": found.skipped > 0,
    }


def run(pages: Sequence[Given], sets: Sequence[str] = ()) -> Found:
    """The stage over one round of such pages."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(Crawl(folder, parse_config("", "probe", sets)), quick=True, engine="local")
        round_ = job.crawl.open_round(NOW)
        read, redirects = [], []
        prints = {text: fingerprint(text)._asdict() for text in {p.text for p in pages}}
        for n, p in enumerate(pages):
            row = {"capture_id": f"{n:06d}", "round_id": round_.id, "url_key": url_key(p.url)}
            row["url"] = p.url
            if p.location is not None:
                end = {"kind": "page", "is_outcome": True, "outcome": "redirected"}
                redirects.append(row | end | {"redirect_to": p.location})
                continue
            foreign = p.canonical is not None and not same_site(p.url, p.canonical)
            text = {"text": p.text, "text_bytes": len(p.text), **prints[p.text]}
            hint = {"canonical": p.canonical, "flags": ["cross_site_canonical"] * foreign}
            read.append(row | text | hint)
        ranks = [{"url_key": url_key(p.url), "inlinks": p.inlinks} for p in pages]
        part = {"round_id": [round_.id]}
        with job.crawl.lock:
            job.tables.replace("pages", read, part)
            job.tables.replace("captures", redirects, part)
            job.tables.replace("ranks", ranks)
        counts = job.run("dedup", round_)
        clusters: dict[str, list[str]] = {}
        members = job.tables.rows("duplicates", ["url", "canonical_url", "method"])
        for row in sorted(members, key=lambda r: r["url"] != r["canonical_url"]):
            clusters.setdefault(row["canonical_url"], []).append(row["url"])
        equal = sum(r["method"] == "exact" for r in members)
        kept = [r["url"] for r in job.tables.rows("contents", ["url"])]
        job.stop()
    return Found(list(clusters.values()), kept, equal + counts["blocks_cut"])


def _two_texts(texts: list[str], sets: Sequence[str]) -> dict[str, Any]:
    a, b = (fingerprint(t) for t in texts)
    found = run([Given(f"http://site.example/{n}", t) for n, t in enumerate(texts)], sets)
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


def _generated(spec: dict[str, Any]) -> list[Given]:
    body = "one and the same text of a page that is served under very many addresses " * 20
    return [
        Given(f"http://site.example/{n}", body if spec.get("same_text") else f"{body} {n}")
        for n in range(spec["pages"])
    ]


def _page(given: dict[str, Any]) -> Given:
    moved = 300 <= (given.get("status") or 200) < 400
    return Given(
        given["url"],
        given.get("text") or "",
        given.get("inlinks") or 0,
        _absolute(given, "canonical"),
        _absolute(given, "location") if moved else None,
    )


def _absolute(given: dict[str, Any], key: str) -> str | None:
    try:
        return canonicalize(given[key], given["url"]) if given.get(key) else None
    except Refused:
        return None
