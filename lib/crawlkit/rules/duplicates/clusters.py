"""Which pairs of texts belong together, and the connected components of such pairs.

Exact duplicates share the hash of their normalised text. Candidates for near-duplicates share a
MinHash band or a SimHash block (rules/duplicates/candidate_pairs.py); a pair is merged only after
its Jaccard similarity has been counted on the shingles themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from crawlkit.rules.duplicates.candidate_pairs import candidate_pairs
from crawlkit.rules.duplicates.fingerprint import (
    Fingerprint,
    fingerprint,
    hamming,
    jaccard,
    minhash_bands,
    shingles,
    simhash_blocks,
)

K = TypeVar("K", bound=Hashable)
ANCHORS = 10  # first texts of a block, with which the others are compared
# of a row of `duplicates`: a page that another one stands for; a redirect is an alias, no copy
IS_COPY = "method NOT IN ('canonical', 'redirect')"
MAX_WHOLE_GROUP = 30  # texts of a group all of whose pairs are counted
CONTRADICTION = 0.1  # a canonical link between texts less similar than this is not believed ...
CONTRADICTION_SHINGLES = 50  # ... if both are at least this long


class NearPolicy(NamedTuple):
    """Near-duplicates: Jaccard >= `jaccard`, or SimHash distance <= `hamming` with Jaccard >=
    `hamming_jaccard`.

    Pairs up to distance `similar` are recorded and not merged.
    """

    jaccard: float = 0.8
    hamming: int = 3
    hamming_jaccard: float = 0.5
    similar: int = 10


DEFAULT_POLICY = NearPolicy()


class Match(NamedTuple):
    """Evidence on one pair.

    `method` is the rule that joins it: minhash, simhash; or similar.
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


def contradict(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two texts are too different for a canonical link between them to be believed.

    a, b: their `shingles`.
    """
    return min(len(a), len(b)) >= CONTRADICTION_SHINGLES and jaccard(a, b) < CONTRADICTION


def near_pairs(texts: Mapping[K, str], policy: NearPolicy = DEFAULT_POLICY) -> list[tuple[K, K]]:
    """Pairs of ids whose texts are equal or merged by `match`, each once, by the order of `texts`.

    Work and pairs are linear in the texts: of a group of more than MAX_WHOLE_GROUP, each is paired
    with its candidates alone (`candidate_pairs`), and equal texts with the first of them.
    """
    names = list(texts)
    prints = [fingerprint(text) for text in texts.values()]
    first: dict[str, int] = {}
    for n, p in enumerate(prints):
        if p.text_sha256 is not None:
            first.setdefault(p.text_sha256, n)
    shingles_of = lru_cache(maxsize=4096)(lambda n: shingles(texts[names[n]]))

    def merged(a: int, b: int) -> bool:
        if prints[a].text_sha256 == prints[b].text_sha256:
            return True
        distance = hamming(prints[a].simhash or 0, prints[b].simhash or 0)
        verdict = match(distance, shingles_of(a), shingles_of(b), policy)
        return verdict is not None and verdict.merged

    pairs = {(a, b) for a, b in _candidates(prints, sorted(first.values()), policy) if merged(a, b)}
    pairs |= {(first[p.text_sha256], n) for n, p in enumerate(prints) if p.text_sha256} - {
        (n, n) for n in first.values()
    }
    joined: Components[int] = Components()
    for a, b in pairs:
        joined.union(a, b)
    for group in joined.groups():
        if len(group) <= MAX_WHOLE_GROUP:
            others = (pair for pair in combinations(sorted(group), 2) if pair not in pairs)
            pairs |= {pair for pair in others if merged(*pair)}
    return [(names[a], names[b]) for a, b in sorted(pairs)]


def _candidates(
    prints: Sequence[Fingerprint], places: Sequence[int], policy: NearPolicy
) -> list[tuple[int, int]]:
    """Pairs of places, the smaller first, whose texts share a band or a block."""
    keys: list[tuple[str, int, int, int]] = []
    for n in places:
        p = prints[n]
        if p.simhash is not None and p.minhash is not None:
            keys += [("s", band, value, n) for band, value in simhash_blocks(p.simhash)]
            keys += [
                ("m", band, value, n) for band, value in minhash_bands(p.minhash, policy.jaccard)
            ]
    if not keys:
        return []
    keys.sort()
    begins = np.array([True, *(a[:3] != b[:3] for a, b in pairwise(keys))])
    block = np.cumsum(begins) - 1
    place = np.arange(len(keys)) - np.flatnonzero(begins)[block]
    number = np.array([key[3] for key in keys])
    simhash = np.array([prints[n].simhash or 0 for n in number], np.int64).view(np.uint64)
    i, j = candidate_pairs(block, place, simhash, ANCHORS)
    # by the later text, whose others are few and those of many: their shingles are at hand
    pairs = np.unique(np.stack([number[j], number[i]], axis=1), axis=0)
    return [(int(a), int(b)) for b, a in pairs]
