"""Clusters of duplicate pages: which pairs belong together, their connected components, and
the page that represents each.

Exact duplicates share the hash of their normalised text. Candidates for near-duplicates share a
MinHash band or a SimHash block; a pair is merged only after its Jaccard similarity has been counted
on the shingles themselves. The dedup stage finds candidates by a sort
(rules/duplicates/candidate_pairs.py) and uses `match` and `Components`; `cluster_pages` does the
same for pages in memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from crawlkit.rules.duplicates.fingerprint import (
    Fingerprint,
    estimated_jaccard,
    fingerprint,
    hamming,
    jaccard,
    minhash_bands,
    shingles,
    simhash_blocks,
)
from crawlkit.rules.page.links import same_site

K = TypeVar("K", bound=Hashable)
HOT_ANCHORS = 10  # first pages of a hot block, with which its remaining pages are compared
ESTIMATE_SLACK = 0.15  # four standard errors of a MinHash estimate near the threshold
CONTRADICTION = 0.1  # a canonical link between texts less similar than this is not believed ...
CONTRADICTION_SHINGLES = 50  # ... if both are at least this long


class NearPolicy(NamedTuple):
    """Near-duplicates: Jaccard >= `jaccard`, or SimHash distance <= `hamming` with Jaccard >=
    `hamming_jaccard`.

    Pairs up to distance `similar` are recorded and not merged. `max_block`: pages of a block
    compared pair by pair.
    """

    jaccard: float = 0.8
    hamming: int = 3
    hamming_jaccard: float = 0.5
    similar: int = 10
    max_block: int = 1000


DEFAULT_POLICY = NearPolicy()


class Match(NamedTuple):
    """Evidence on one pair.

    `method` is the rule that joins it: exact, minhash, simhash, canonical, redirect; or similar.
    """

    method: str
    distance: int | None = None
    jaccard: float | None = None
    merged: bool = True


def match(
    distance: int, a: np.ndarray, b: np.ndarray, policy: NearPolicy = DEFAULT_POLICY
) -> Match | None:
    """Verdict on a candidate pair by the distance of its SimHashes and its `shingles`; None if the
    two are different.
    """
    similarity = jaccard(a, b)
    if similarity >= policy.jaccard:
        return Match("minhash", distance, similarity)
    if distance <= policy.hamming and similarity >= policy.hamming_jaccard:
        return Match("simhash", distance, similarity)
    return Match("similar", distance, similarity, False) if distance <= policy.similar else None


def worth_counting(a: Fingerprint, b: Fingerprint, policy: NearPolicy = DEFAULT_POLICY) -> bool:
    """Whether the signatures leave it possible that `match` says something: cheap, and before any
    text is read.
    """
    if a.simhash is None or b.simhash is None or a.minhash is None or b.minhash is None:
        return False
    return (
        hamming(a.simhash, b.simhash) <= policy.similar
        or estimated_jaccard(a.minhash, b.minhash) >= policy.jaccard - ESTIMATE_SLACK
    )


def block_pairs(members: Sequence[K], max_block: int) -> Iterator[tuple[K, K]]:
    """Pairs of one candidate block: all of them up to `max_block` members; of the rest each with
    the first ten.
    """
    yield from combinations(members[:max_block], 2)
    for late in members[max_block:]:
        for anchor in members[:HOT_ANCHORS]:
            yield anchor, late


class Components(Generic[K]):
    """Connected components (union by size, path halving)."""

    def __init__(self) -> None:
        self._parent: dict[K, K] = {}
        self._size: dict[K, int] = {}

    def find(self, key: K) -> K:
        """The member that represents the component of `key`."""
        parent = self._parent
        parent.setdefault(key, key)
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    def union(self, a: K, b: K) -> None:
        """Join the components of two members."""
        a, b = self.find(a), self.find(b)
        if a != b:
            small, large = sorted((a, b), key=lambda k: self._size.get(k, 1))
            self._parent[small] = large
            self._size[large] = self._size.get(small, 1) + self._size.get(large, 1)

    def groups(self) -> list[list[K]]:
        """Members of each component, in the order in which they were first seen."""
        out: dict[K, list[K]] = defaultdict(list)
        for key in list(self._parent):
            out[self.find(key)].append(key)
        return list(out.values())


def component_of(a: np.ndarray, b: np.ndarray, n: int) -> np.ndarray:
    """For each of the nodes 0 to n - 1 the smallest node of its connected component.

    a, b: int [m], the ends of the edges.

    Labels sink along edges and are followed to their own labels until none changes (FastSV, Zhang,
    Azad and Hu 2020): for millions of edges.
    """
    label = np.arange(n)
    while True:
        low = np.minimum(label[a], label[b])
        new = label.copy()
        for at in (a, b, label[a], label[b]):
            np.minimum.at(new, at, low)
        new = new[new]
        if (new == label).all():
            return label
        label = new


class Member(NamedTuple):
    """What the choice of a canonical page looks at.

    `named`: members whose canonical link or redirect names it.
    """

    url: str
    inlinks: int = 0
    named: int = 0
    live: bool = True  # answers with a page, not with a redirect


def choose_canonical(members: Iterable[Member]) -> str:
    """The page that represents a cluster: named by its members, most in-links, shortest URL, first
    in order.
    """
    return min(members, key=lambda m: (not m.live, -m.named, -m.inlinks, len(m.url), m.url)).url


@dataclass(frozen=True)
class DupPage:
    """A page as `cluster_pages` takes it; `canonical` and `location` are absolute canonical
    URLs.
    """

    url: str
    text: str = ""
    inlinks: int = 0
    canonical: str | None = None
    status: int = 200
    location: str | None = None


class Cluster(NamedTuple):
    canonical: str
    members: tuple[str, ...]  # URLs, sorted; the canonical one included
    evidence: tuple[tuple[str, str, Match], ...]


@dataclass
class Clustering:
    """Clusters of two and more, and what was left out of the comparison, in numbers."""

    clusters: list[Cluster] = field(default_factory=list)
    similar: list[tuple[str, str, Match]] = field(default_factory=list)
    disbelieved: list[tuple[str, str]] = field(
        default_factory=list
    )  # canonical links that the texts contradict
    exact_skipped: int = 0  # pages that an equal text stood for
    hot_blocks: dict[tuple[str, int, int], int] = field(
        default_factory=dict
    )  # (scheme, band, hash) -> pages not compared pair by pair
    compared: int = 0  # pairs counted on their shingles


def cluster_pages(pages: Sequence[DupPage], policy: NearPolicy = DEFAULT_POLICY) -> Clustering:
    """Clusters of pages whose text or hints say that they are one.

    Work is linear in identical texts and bounded in near-duplicate ones.
    """
    out = Clustering()
    by_url = {p.url: p for p in pages}
    joined: Components[str] = Components()
    evidence: list[tuple[str, str, Match]] = []
    prints = _exact(pages, joined, evidence, out)

    @lru_cache(maxsize=2048)
    def shingles_of(url: str) -> np.ndarray:
        return shingles(by_url[url].text)

    seen: set[tuple[str, str]] = set()  # a pair is in several blocks
    for key, members in _blocks(prints, policy).items():
        if len(members) > policy.max_block:
            out.hot_blocks[key] = len(members) - policy.max_block
        for a, b in block_pairs(members, policy.max_block):
            if (a, b) in seen or joined.find(a) == joined.find(b):
                continue
            seen.add((a, b))
            if not worth_counting(prints[a], prints[b], policy):
                continue
            out.compared += 1
            distance = hamming(prints[a].simhash or 0, prints[b].simhash or 0)
            verdict = match(distance, shingles_of(a), shingles_of(b), policy)
            if verdict and verdict.merged:
                joined.union(a, b)
                evidence.append((a, b, verdict))
            elif verdict:
                out.similar.append((a, b, verdict))

    for page, target, method in _hints(pages, by_url):
        if method == "canonical" and _contradict(shingles_of(page.url), shingles_of(target)):
            out.disbelieved.append((page.url, target))
        else:
            joined.union(page.url, target)
            evidence.append((page.url, target, Match(method)))
    apart = (pair for pair in out.similar if joined.find(pair[0]) != joined.find(pair[1]))
    out.similar = list({pair[:2]: pair for pair in apart}.values())
    out.clusters = _clusters(joined, evidence, by_url)
    return out


def _contradict(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two texts are too different for a canonical link between them to be believed.

    a, b: their shingles.
    """
    return min(len(a), len(b)) >= CONTRADICTION_SHINGLES and jaccard(a, b) < CONTRADICTION


def _exact(
    pages: Sequence[DupPage],
    joined: Components[str],
    evidence: list[tuple[str, str, Match]],
    out: Clustering,
) -> dict[str, Fingerprint]:
    """Joins pages of equal text; returns the fingerprints of one page for each distinct text."""
    first: dict[str, str] = {}
    prints: dict[str, Fingerprint] = {}
    known: dict[str, Fingerprint] = {}
    for p in pages:
        if p.text not in known:
            known[p.text] = fingerprint(p.text)
        digest = known[p.text].text_sha256
        if digest is None:
            continue
        other = first.setdefault(digest, p.url)
        if other == p.url:
            prints[p.url] = known[p.text]
        else:
            out.exact_skipped += 1
            joined.union(other, p.url)
            evidence.append((other, p.url, Match("exact", 0, 1.0)))
    return prints


def _blocks(
    prints: dict[str, Fingerprint], policy: NearPolicy
) -> dict[tuple[str, int, int], list[str]]:
    out: dict[tuple[str, int, int], list[str]] = defaultdict(list)
    for url, p in prints.items():
        if p.simhash is None or p.minhash is None:
            continue
        for band, value in minhash_bands(p.minhash, policy.jaccard):
            out["minhash", band, value].append(url)
        for block, value in simhash_blocks(p.simhash):
            out["simhash", block, value].append(url)
    return {key: members for key, members in out.items() if len(members) > 1}


def _hints(
    pages: Sequence[DupPage], by_url: dict[str, DupPage]
) -> Iterator[tuple[DupPage, str, str]]:
    """(page, the page it names, method).

    A canonical link to another site is no hint; a redirect is one anywhere.
    """
    for p in pages:
        if p.location in by_url and p.location != p.url and 300 <= p.status < 400:
            yield p, p.location or "", "redirect"
        elif p.canonical in by_url and p.canonical != p.url and same_site(p.url, p.canonical or ""):
            yield p, p.canonical or "", "canonical"


def _clusters(
    joined: Components[str], evidence: list[tuple[str, str, Match]], by_url: dict[str, DupPage]
) -> list[Cluster]:
    edges: dict[str, list[tuple[str, str, Match]]] = defaultdict(list)
    for a, b, verdict in evidence:
        edges[joined.find(a)].append((a, b, verdict))
    out = []
    for urls in joined.groups():
        if len(urls) < 2:
            continue
        named: dict[str, int] = defaultdict(int)
        for p in map(by_url.__getitem__, urls):
            for name in {p.canonical, p.location if 300 <= p.status < 400 else None} - {None}:
                named[name or ""] += 1
        canonical = choose_canonical(
            Member(u, by_url[u].inlinks, named[u], by_url[u].status < 300) for u in urls
        )
        out.append(Cluster(canonical, tuple(sorted(urls)), tuple(edges[joined.find(urls[0])])))
    return sorted(out, key=lambda c: c.members)
