"""Redirects that lead to the same page are followed in one visit; a loop is a request sent
before.
"""

import pytest
from crawlkit.rules.http.visit import MAX_HOPS, Sent, next_hop
from crawlkit.rules.url.canonical import DEFAULT_POLICY

HOST = "http://site.example"


def hop(sent, location, status=301, cookie=False, session=False):
    before = [Sent(HOST + url, n) for url, n in sent]
    found = next_hop(before, status, location, cookie, session, DEFAULT_POLICY)
    return found and (found.url.removeprefix(HOST), found.cookies)


@pytest.mark.parametrize(
    "url, location, then",
    [
        ("/a%2Cb", "/a%2cb", "/a%2cb"),
        ("/l?cat=9&page=2", "/l?page=2&cat=9", "/l?page=2&cat=9"),
        ("/p?id=7", "http://site.example:80/p?id=7&utm_source=direct", None),
        ("/p?id=7", "/p?utm_source=direct&id=7", "/p?utm_source=direct&id=7"),
        ("/caf%C3%A9", "/caf%c3%a9#top", "/caf%c3%a9"),
        ("/x", "/y", None),
        ("/x", "http://other.example/x", None),
        ("/x", "https://site.example/x", None),
        ("/x", "/x", None),
        ("/x", "javascript:1", None),
        ("/x", None, None),
    ],
)
def test_another_spelling_of_the_same_key(url, location, then):
    if "site.example:80" in (location or ""):
        assert hop([(url, 0)], location) == ("/p?id=7&utm_source=direct", 0)
    else:
        assert hop([(url, 0)], location) == (then and (then, 0))


def test_each_spelling_once():
    sent = [("/a%2Cb", 0), ("/a%2cb", 0)]
    assert hop(sent, "/a%2Cb") is None and hop(sent, "/a%2cb") is None
    assert hop(sent, "/a%2cb?") == ("/a%2cb?", 0)


def test_a_detour_that_sets_a_cookie():
    start = [("/doi/1", 0)]
    assert hop(start, "/doi/1?cookieSet=1") is None  # without a session: a later round's
    assert hop(start, "/doi/1?cookieSet=1", 302, session=True) == ("/doi/1?cookieSet=1", 0)
    there = [*start, ("/doi/1?cookieSet=1", 0)]
    assert hop(there, "/doi/1", 302, cookie=True, session=True) == ("/doi/1", 1)
    assert hop(there, "/doi/1", 302, cookie=False, session=True) is None  # sent before
    assert hop([*there, ("/doi/1", 1)], "/doi/1?cookieSet=1", 302, False, True) == (
        "/doi/1?cookieSet=1",
        1,
    )
    assert hop(start, "https://site.example/doi/1", 302, True, True) is None  # another origin


@pytest.mark.parametrize("status", [200, 300, 304, 404, 503, None])
def test_what_is_no_redirect_ends_the_visit(status):
    assert hop([("/x", 0)], "/x?", status) is None


def test_a_visit_ends_although_each_answer_sets_a_cookie():
    sent = [("/x", 0)]
    while found := hop(sent, "/x", 302, cookie=True, session=True):
        sent.append(found)
    assert len(sent) == MAX_HOPS + 1
