"""rules.params: by hand, and its laws."""

from __future__ import annotations

import random

from crawlkit.config import Urls
from crawlkit.rules.url.canonical import canonicalize
from crawlkit.rules.url.params import MIN_PAGES, Seen, propose_params, without_params
from crawlkit.rules.url.policy import UrlPolicy
from hypothesis import given, strategies as st

H = "http://site.example"


def names(rows: list[Seen]) -> list[str]:
    return [p.name for p in propose_params(rows)]


def test_canonical_links_that_leave_it_out():
    rows = [Seen(f"{H}/a{n}?from=x{n}&id={n}", f"{H}/a{n}?id={n}", None) for n in range(MIN_PAGES)]
    (found,) = propose_params(rows)
    assert found == ("from", 5, 0, 0, 0, tuple(row.url for row in rows[:3]))
    assert names(rows[1:]) == []  # one page fewer


def test_equal_texts():
    rows = [
        Seen(f"{H}/a?id={n}&view={v}", None, f"text {n}") for n in range(MIN_PAGES) for v in "xyz"
    ]
    (found,) = propose_params(rows)
    assert found[:5] == ("view", 0, 0, 5, 0)


def test_the_address_without_it_is_one_of_its_values():
    rows = [
        Seen(f"{H}/a{n}{q}", None, f"text {n}") for n in range(MIN_PAGES) for q in ("", "?ref=1")
    ]
    assert names(rows) == ["ref"]
    rows = [
        Seen(f"{H}/a{n}{q}", None, f"text {n}{q}") for n in range(MIN_PAGES) for q in ("", "?ref=1")
    ]
    assert names(rows) == []


def test_canonical_links_to_the_first_page_are_not_believed_where_texts_differ():
    rows = [
        Seen(f"{H}/list{n}?page={p}", f"{H}/list{n}", f"text {n} {p}")
        for n in range(20)
        for p in (2, 3)
    ]
    assert names(rows) == []


def test_one_text_everywhere_is_no_evidence():
    assert (
        names(
            [Seen(f"{H}/a?cat={c}&id={n}", None, "not found") for c in range(20) for n in range(5)]
        )
        == []
    )


def test_one_canonical_link_everywhere_is_no_evidence():
    assert names([Seen(f"{H}/?p={n}", f"{H}/", f"text {n}") for n in range(50)]) == []
    assert names([Seen(f"{H}/a?p={n}", f"{H}/", None) for n in range(50)]) == []


def test_a_host_that_repeats_the_address_says_nothing():
    rows = [
        Seen(f"{H}/a{n}?ref={v}", f"{H}/a{n}?ref={v}", f"text {n}") for n in range(20) for v in "xy"
    ]
    assert names(rows) == []


def test_a_page_that_changes_by_itself_says_nothing():
    rows = [Seen(f"{H}/a{n}?ref=x", None, text) for n in range(20) for text in ("now", "then")]
    assert names(rows) == []


def test_two_that_change_together():
    rng = random.Random(1)
    # the texts say so of src only once s, whose values never come again, is taken out
    rows = [
        Seen(
            f"{H}/a{n}?s={rng.random()}&src={v}",
            f"{H}/a{n}?src={v}" if v == "x" else None,
            f"text {n}",
        )
        for n in range(30)
        for v in "xyz"
    ]
    assert names(rows) == ["s"]  # src is kept by a third of the canonical links
    rows = [
        row if row.canonical is None else row._replace(canonical=row.url.partition("?")[0])
        for row in rows
    ]
    assert names(rows) == ["s", "src"]


PIECES = st.lists(
    st.sampled_from(["id=1", "ID=2", "ref=a", "Ref=b", "page=1", "x", "q=%20", "%C3%A9=1"]),
    max_size=5,
)
URLS = st.tuples(st.sampled_from(["/", "/a", "/b/c"]), PIECES).map(
    lambda t: canonicalize(f"{H}{t[0]}?{'&'.join(t[1])}")
)
ROWS = st.lists(
    st.builds(Seen, URLS, st.none() | URLS, st.none() | st.sampled_from("abc")), max_size=30
)


@given(ROWS, st.integers(1, 4))
def test_laws(rows, least):
    found = propose_params(rows, least)
    assert found == propose_params(rows[::-1] + rows, least)  # neither order nor repetition counts
    for p in found:
        assert max(p.canonical_for, p.text_for) >= least
        assert all(p.name in url.lower() for url in p.examples)
    # pages that are their own canonical address and have texts of their own give no proposal
    assert propose_params([Seen(row.url, row.url, row.url) for row in rows], least) == []


@given(URLS, st.sets(st.sampled_from(["id", "ref", "page", "x", "%c3%a9"])))
def test_without_params_is_what_the_setting_does(url, gone):
    policy = UrlPolicy.of(Urls(host_params={"site.example": tuple(gone)}))
    assert without_params(url, frozenset(gone)) == canonicalize(url, None, policy)
