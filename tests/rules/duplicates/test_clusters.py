from __future__ import annotations

import random
import time
from itertools import combinations

import numpy as np
import pytest
from crawlkit.rules.duplicates.clusters import (
    MAX_WHOLE_GROUP,
    Components,
    Match,
    component_of,
    contradict,
    match,
    near_pairs,
)
from crawlkit.rules.duplicates.fingerprint import fingerprint, hamming, shingles
from hypothesis import given, strategies as st

random.seed(5)
VOCABULARY = [f"w{i}" for i in range(2000)]


def prose(n: int = 300) -> list[str]:
    return random.choices(VOCABULARY, k=n)


def changed(text: list[str], places: int) -> list[str]:
    out = list(text)
    for i in random.sample(range(len(out)), places):
        out[i] = f"x{i}"
    return out


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40))
def test_components_are_those_of_the_graph(edges):
    joined: Components[int] = Components()
    for a, b in edges:
        joined.union(a, b)
    reach = {v: {v} for edge in edges for v in edge}
    for _ in reach:
        for a, b in edges:
            reach[a] |= reach[b]
            reach[b] |= reach[a]
    assert {frozenset(g) for g in joined.groups()} == {frozenset(r) for r in reach.values()}


def verdict(a: list[str], b: list[str]) -> Match | None:
    x, y = " ".join(a), " ".join(b)
    return match(
        hamming(fingerprint(x).simhash or 0, fingerprint(y).simhash or 0), shingles(x), shingles(y)
    )


def test_pairs():
    text = prose()
    found = verdict(
        text, changed(text, 4)
    )  # 4 words spoil at most 12 of 298 shingles: (298-12)/(298+12)
    assert found and found.method == "minhash" and found.jaccard >= 286 / 310
    assert verdict(text, prose()) is None


def test_simhash_merges_only_with_shared_shingles():
    shared_shingles, other = np.array([1, 2, 3], np.uint64), np.array([1, 2, 3, 4, 5], np.uint64)
    assert match(3, shared_shingles, other) == Match("simhash", 3, 0.6)
    assert match(4, shared_shingles, other) == Match("similar", 4, 0.6, False)
    assert match(3, shared_shingles[:1], shared_shingles[1:2]) == Match("similar", 3, 0.0, False)
    assert match(11, shared_shingles, other) is None


@given(st.integers(1, 60), st.lists(st.tuples(st.integers(0, 59), st.integers(0, 59)), max_size=80))
def test_components_of_arrays_are_those_of_the_union_find(n, edges):
    edges = [(a % n, b % n) for a, b in edges]
    joined = Components()
    for node in range(n):
        joined.find(node)
    for a, b in edges:
        joined.union(a, b)
    right = {node: min(members) for members in joined.groups() for node in members}
    a, b = (np.array([e[k] for e in edges], np.int64) for k in (0, 1))
    assert component_of(a, b, n).tolist() == [right[node] for node in range(n)]


def test_a_long_chain_is_one_component():
    n = 200_000
    order = np.random.default_rng(1).permutation(n)
    assert not component_of(order[:-1], order[1:], n).any()


def families(sizes: list[int], places: int) -> dict[str, str]:
    """So many texts of each family, with words of their own at some places, and an equal one."""
    texts = {}
    for f, size in enumerate(sizes):
        base = prose(100)
        for n in range(size):
            texts[f"{f}-{n}"] = " ".join(changed(base, places))
        texts[f"{f}-equal"] = texts[f"{f}-0"]
    return texts


@pytest.mark.parametrize("places", [1, 3, 6])
def test_pairs_of_small_groups_are_all_there_are(places):
    texts = families([7, 12, 2], places)

    def is_pair(a: str, b: str) -> bool:
        found = verdict(texts[a].split(), texts[b].split())
        return texts[a] == texts[b] or (found is not None and found.merged)

    assert set(near_pairs(texts)) == {p for p in combinations(texts, 2) if is_pair(*p)}


def test_pairs_of_a_large_group_join_all_of_it():
    n = 20 * MAX_WHOLE_GROUP
    texts = families([n], 1)
    pairs = near_pairs(texts)
    assert len(pairs) == len(set(pairs)) < 60 * n
    joined: Components[str] = Components()
    for a, b in pairs:
        joined.union(a, b)
    assert [len(g) for g in joined.groups()] == [n + 1]


@pytest.mark.waits
def test_equal_texts_are_linear():
    texts = {str(n): "one and the same text here" for n in range(20_000)}
    start = time.process_time()
    assert len(near_pairs(texts)) == 19_999
    assert time.process_time() - start < 20


def test_texts_that_contradict_a_canonical_link():
    one, other = shingles(" ".join(prose())), shingles(" ".join(prose()))
    assert contradict(one, other) and not contradict(one, one)
    assert not contradict(one[:20], other)
