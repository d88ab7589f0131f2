"""The dedup stage over rounds of made texts: against all pairs in memory, run again, with hot
blocks.
"""

from __future__ import annotations

import random

import pytest
from crawlkit.config import parse_config
from crawlkit.crawl.state import Crawl
from crawlkit.round.job import Job
from crawlkit.rules.duplicates.fingerprint import fingerprint, hamming, jaccard, shingles
from crawlkit.rules.url.canonical import url_key

pytestmark = pytest.mark.waits
NOW = 1_767_225_600.0


def make(options, folder, *sets) -> Job:
    return Job(Crawl(folder, parse_config("", "test", sets)), quick=True, **options)


def read(job: Job, texts: dict[str, str]):
    """A new round whose pages (URL -> text) have been parsed."""
    round_ = job.crawl.open_round(NOW)
    rows = []
    for n, (url, text) in enumerate(texts.items()):
        prints = fingerprint(text)._asdict()
        rows.append(
            {
                "capture_id": f"{round_.id}-{n:06d}",
                "round_id": round_.id,
                "url_key": url_key(url),
                "url": url,
                "text": text,
                "text_bytes": len(text),
                **prints,
            }
        )
    with job.crawl.lock:
        job.tables.replace("pages", rows, {"round_id": [round_.id]})
    return round_


def prose(rng: random.Random, words: int = 120) -> list[str]:
    return [
        f"{rng.choice('bdfgklmnprstvz')}{rng.choice('aeiou')}{rng.randrange(2000)}"
        for _ in range(words)
    ]


def near(base: list[str], rng: random.Random, changed: int) -> str:
    """The text with a few words of its own."""
    out = [*base]
    for at in rng.sample(range(len(out)), changed):
        out[at] = f"w{rng.randrange(10**9)}"
    return " ".join(out)


def template(n: int, seed: int = 5, changed: int = 1) -> dict[str, str]:
    rng = random.Random(seed)
    base = prose(rng)
    return {f"http://t.example/{seed}/{k:05d}": near(base, rng, changed) for k in range(n)}


def rows_of(job: Job, name: str) -> list[str]:
    return sorted(map(repr, job.read(name).rows()))


Texts = dict[str, list[str]]  # URL -> its texts, the newest last


def clusters_with_evidence(job: Job, texts: Texts) -> set[frozenset[str]]:
    """The clusters. Each member's evidence is what its text and one of the page named say."""
    by_cluster: dict[str, list[dict]] = {}
    for r in job.tables.rows(
        "duplicates",
        [
            "url",
            "cluster_id",
            "canonical_url",
            "method",
            "evidence_url",
            "distance",
            "jaccard",
            "size",
        ],
    ):
        by_cluster.setdefault(r["canonical_url"], []).append(r)
        assert r["cluster_id"] == url_key(r["canonical_url"])
        told, mine = (r["method"], r["distance"], r["jaccard"]), texts[r["url"]][-1]
        if r["url"] == r["canonical_url"]:
            assert (*told, r["evidence_url"]) == ("canonical", 0, 1.0, None)
        else:
            assert told in [verdict(mine, other) for other in texts[r["evidence_url"]]]
    assert all(r["size"] == len(rows) for rows in by_cluster.values() for r in rows)
    return {frozenset(r["url"] for r in rows) for rows in by_cluster.values()}


def verdict(a: str, b: str) -> tuple[str, int, float] | None:
    if a == b:
        return "exact", 0, 1.0
    distance, alike = (
        hamming(fingerprint(a).simhash, fingerprint(b).simhash),
        jaccard(shingles(a), shingles(b)),
    )
    return (
        ("minhash", distance, alike)
        if alike >= 0.8
        else ("simhash", distance, alike)
        if distance <= 3 and alike >= 0.5
        else None
    )


def components(texts: Texts) -> set[frozenset[str]]:
    """URLs whose texts of now are joined by pairs of texts that are, or once were, a page's: all
    pairs are looked at.
    """
    every = sorted({t for of_url in texts.values() for t in of_url})
    root = {t: t for t in every}

    def find(t):
        while root[t] != t:
            t = root[t]
        return t

    for n, a in enumerate(every):
        for b in every[:n]:
            if verdict(a, b):
                root[find(a)] = find(b)
    groups: dict[str, set[str]] = {}
    for url, of_url in texts.items():
        groups.setdefault(find(of_url[-1]), set()).add(url)
    return {frozenset(g) for g in groups.values() if len(g) > 1}


def put(texts: Texts, new: dict[str, str]) -> None:
    for url, text in new.items():
        texts.setdefault(url, []).append(text)


@pytest.mark.parametrize("anchors", [1, 10])
def test_rounds_of_changing_pages(on, tmp_path, anchors):
    """Three rounds in which pages come, change and become equal; each deduplicated twice."""
    rng, job = (
        random.Random(anchors),
        make(on, tmp_path, f"dedup.block_anchors={anchors}"),
    )
    families = [prose(rng) for _ in range(3)]
    texts: Texts = {}
    for _ in range(3):
        new = {
            f"http://h.example/{rng.randrange(60)}": near(
                rng.choice(families), rng, rng.choice((0, 0, 1, 2, 3, 60))
            )
            for _ in range(40)
        }
        put(texts, new)
        round_ = read(job, new)
        job.run("dedup", round_)
        before = {
            name: rows_of(job, name) for name in ("contents", "sim_bands", "similar", "duplicates")
        }
        job.run("dedup", round_, force=True)
        assert {name: rows_of(job, name) for name in before} == before
        job.crawl.close(round_)
        assert clusters_with_evidence(job, texts) == components(texts)


def test_a_page_joined_by_a_text_that_no_page_has_any_more(on, tmp_path):
    """The evidence is that text, by a page that had it; not that the two pages that are left were
    equal.
    """
    rng = random.Random(1)
    base = prose(rng)
    between = near(base, rng, 3).split()
    far = near(between, rng, 3)
    assert (
        verdict(" ".join(base), " ".join(between))
        and verdict(" ".join(between), far)
        and not verdict(" ".join(base), far)
    )
    job, texts = make(on, tmp_path), {}
    for new in (
        {"http://h.example/": " ".join(base), "http://h.example/between": " ".join(between)},
        {"http://h.example/between": " ".join(prose(rng)), "http://h.example/far": far},
    ):
        put(texts, new)
        job.run("dedup", round_ := read(job, new))
        job.crawl.close(round_)
    assert clusters_with_evidence(job, texts) == {
        frozenset({"http://h.example/", "http://h.example/far"})
    }


def test_pages_of_one_template(on, tmp_path):
    """Three thousand nearly equal texts and three thousand equal ones in one round, and again with
    other texts in the next: pairs follow the number of texts.
    """
    job, texts = make(on, tmp_path), {}
    for n in range(2):
        rng = random.Random(n)
        base = prose(rng)
        new = {f"http://t.example/{k}": near(base, rng, 1) for k in range(3000)}
        new |= {
            f"http://same.example/{k}": (
                f"the same text {n} of a page that has a few more words than three"
            )
            for k in range(3000)
        }
        put(texts, new)
        done = job.run("dedup", round_ := read(job, new))
        job.crawl.close(round_)
        assert job.tables.count("similar", {"round_id": [round_.id]}) < 3000 * 100
        assert done["cpu_s"] < 60
        assert sorted(len(c) for c in clusters_with_evidence(job, texts)) == [3000, 3000]
