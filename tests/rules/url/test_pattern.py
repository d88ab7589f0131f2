"""rules.shapes: programs' URLs have one shape, people's have many."""

from __future__ import annotations

import pytest
from crawlkit.rules.url.canonical import canonicalize
from crawlkit.rules.url.pattern import same_shape, url_shape
from hypothesis import given, strategies as st

H = "http://site.example"


@pytest.mark.parametrize(
    "first, second",
    [
        ("/p/1", "/p/98765432"),
        ("/cal?m=2024-01", "/cal?m=1999-12"),
        ("/item123.html", "/item9.html"),
        ("/s/9f86d081884c7d65", "/s/60303ae22b998861"),
        ("/s/9f86d081884c7d65", "/s/17"),
        ("/s/9f86d081884c7d65", "/s/deadbeefcafebabe"),
        ("/s/550e8400-e29b-41d4-a716-446655440000", "/s/67E55044-10B1-426F-9247-BB680E5FE0C8"),
        ("/(S(lit3py55t21z5v55vlm25s55))/a", "/(S(abc3py55t21z5v55vlm25s99))/a"),
        ("/x?tok=dQw4w9WgXcQAbCdEf01", "/x?tok=Zz9876543210AbCdEfGhIj"),
        ("/x/aGVsbG9Xb3JsZEhlbGxvV29ybGQ", "/x/Zmlyc3RQYWdlU2Vjb25kUGFnZQ"),
    ],
)
def test_same(first, second):
    assert same_shape(H + first, H + second)


@pytest.mark.parametrize(
    "first, second",
    [
        ("/p/1", "/q/1"),
        ("/blog/my-first-post", "/blog/second-post"),
        ("/x?page=1", "/x?sort=1"),
        ("/a/1", "/a/1/2"),
        ("/a", "/a/"),
        ("/wiki/%E6%97%A5%E6%9C%AC", "/wiki/%E4%B8%AD%E5%9B%BD"),
        ("/internationalization", "/internationalisation"),
        ("/deadbeef", "/facade"),
    ],
)
def test_different(first, second):
    assert not same_shape(H + first, H + second)


def test_host_is_part_of_it():
    assert url_shape("http://h1.example:8080/1?2=3") == "http://h1.example:8080/*?*=*"


@given(st.text("aB3%-/?=&é", max_size=60))
def test_a_shape_is_its_own_shape(text):
    shape = url_shape(canonicalize(H + "/" + text))
    assert url_shape(shape) == shape
