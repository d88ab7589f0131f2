from __future__ import annotations

import random

import numpy as np
import pytest
from crawlkit.rules.duplicates.clusters import (
    Components,
    DupPage,
    Match,
    Member,
    NearPolicy,
    block_pairs,
    choose_canonical,
    cluster_pages,
    component_of,
    match,
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


def test_canonical_page():
    assert choose_canonical([Member("http://a/long", 9), Member("http://a/", 3)]) == "http://a/long"
    assert (
        choose_canonical([Member("http://a/bb"), Member("http://a/b"), Member("http://a/a")])
        == "http://a/a"
    )
    assert (
        choose_canonical([Member("http://a/x", 5), Member("http://a/y", 0, named=1)])
        == "http://a/y"
    )
    assert (
        choose_canonical([Member("http://a/", 5, named=2, live=False), Member("http://a/y")])
        == "http://a/y"
    )


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


def test_components_join_through_the_middle():
    first = prose()
    second = changed(first, 4)
    third = changed(second, 4)
    pages = [
        DupPage(f"http://site.example/{n}", " ".join(t))
        for n, t in enumerate([first, second, third, prose()])
    ]
    found = cluster_pages(pages)
    assert [c.members for c in found.clusters] == [tuple(p.url for p in pages[:3])]
    assert all(m.jaccard >= 0.8 for _, _, m in found.clusters[0].evidence)


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


@pytest.mark.waits
def test_equal_texts_are_linear_and_counted():
    pages = [
        DupPage(f"http://site.example/{n}", "one and the same text here") for n in range(20_000)
    ]
    found = cluster_pages(pages)
    assert len(found.clusters) == 1 and found.exact_skipped == 19_999 and found.compared == 0


def test_hot_blocks_are_bounded_and_reported():
    boilerplate = prose(200)
    pages = [
        DupPage(f"http://site.example/{n}", " ".join([*boilerplate, f"u{n}", f"v{n}"]))
        for n in range(120)
    ]
    found = cluster_pages(pages, NearPolicy(max_block=20))
    assert max(found.hot_blocks.values()) > 80 and found.compared < 200
    assert len(found.clusters) == 1 and len(found.clusters[0].members) == 120
    assert len(list(block_pairs(range(120), 20))) == 190 + 100 * 10


def test_hints():
    text = " ".join(prose())
    pages = [
        DupPage("http://site.example/a", text, canonical="http://site.example/b"),
        DupPage("http://site.example/b", "", canonical="http://site.example/b"),
        DupPage("http://site.example/r", status=301, location="http://site.example/b"),
        DupPage("http://site.example/x", " ".join(prose()), canonical="http://other.example/"),
        DupPage("http://other.example/", " ".join(prose())),
        DupPage("http://site.example/wrong", " ".join(prose()), canonical="http://site.example/a"),
    ]
    found = cluster_pages(pages)
    assert [(c.canonical, c.members) for c in found.clusters] == [
        (
            "http://site.example/b",
            ("http://site.example/a", "http://site.example/b", "http://site.example/r"),
        )
    ]
    assert found.disbelieved == [("http://site.example/wrong", "http://site.example/a")]


def test_loops_of_hints_end():
    pages = [
        DupPage(f"http://site.example/{n}", canonical=f"http://site.example/{(n + 1) % 3}")
        for n in range(3)
    ]
    assert len(cluster_pages(pages).clusters[0].members) == 3
