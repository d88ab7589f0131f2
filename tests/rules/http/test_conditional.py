"""Right values: RFC 9110 8.8.3 (entity tags), 13.1.2, 13.1.3."""

from __future__ import annotations

import math
import time

import pytest
from crawlkit.rules.http.conditional import conditional_headers, fresh_for_s, validators
from hypothesis import given, strategies as st

DATE = "Fri, 01 Mar 2024 10:00:00 GMT"


@pytest.mark.parametrize("etag", ['"abc"', 'W/"abc"', '""', '"a,b"', '"\xe9"', "abc", "5f3-19a"])
def test_tags_are_sent_as_received(etag):
    stored = [("ETAG", etag), ("last-modified", DATE)]
    assert conditional_headers(*validators(stored)) == [
        ("If-None-Match", etag),
        ("If-Modified-Since", DATE),
    ]


@pytest.mark.parametrize(
    "etag", ["*", "a,b", 'a"b', '"a" "b"', '"a\nb"', "", '"' + "x" * 2000 + '"', '"a"\r\nX: 1']
)
def test_tags_that_would_mean_something_else_are_not(etag):
    assert conditional_headers(*validators([("ETag", etag)])) == []
    assert conditional_headers(etag, None) == []


def test_no_date_with_a_line_break():
    assert conditional_headers(None, f"{DATE}\r\nX: 1") == []


def test_two_different_validators_are_none():
    assert validators(
        [("ETag", '"a"'), ("ETag", '"b"'), ("Last-Modified", DATE), ("Last-Modified", DATE)]
    ) == (None, DATE)


@given(st.text(max_size=30), st.text(max_size=30))
def test_what_is_sent_is_one_line_and_unchanged(etag, modified):
    for name, value in conditional_headers(etag, modified):
        assert value == (etag if name == "If-None-Match" else modified)
        assert not set(value) & set("\r\n\0")


@pytest.mark.parametrize(
    ("field", "seconds"),
    [
        ("max-age=60", 60.0),
        ('public, MAX-AGE = "60"', 60.0),
        ("max-age=60, max-age=9", 60.0),
        ("max-age=60, immutable", math.inf),
        ("immutable", None),  # for no time
        ("max-age=0", None),
        ("s-maxage=60", None),
        ("x-max-age=60", None),
        ("no-cache, max-age=60", None),
        ('no-cache="set-cookie", max-age=60', None),
        ("max-age=60, no-store", None),
        ("max-age=-1", None),
        ("max-age=9999999999", None),
        ("x" * 5000 + ", max-age=60", None),  # beyond what is read
        ("", None),
        (None, None),
    ],
)
def test_how_long_an_answer_says_that_it_stays_true(field, seconds):
    """RFC 9111 5.2.2, RFC 8246."""
    assert fresh_for_s(field) == seconds


def test_a_hostile_field_takes_no_time():
    started = time.perf_counter()
    for field in (",max-age=" * 100_000, "max-age=" + " " * 1_000_000, "=" * 1_000_000):
        fresh_for_s(field)
    assert time.perf_counter() - started < 0.5
