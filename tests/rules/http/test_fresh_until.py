"""Freshness of stored answers, by hand from RFC 9111."""

import pytest
from crawlkit.rules.http.fresh_until import MAX_FRESH_S, fresh_until

NOW = 1_767_225_600.0  # 2026-01-01 00:00:00 UTC
DATE = ("Date", "Thu, 01 Jan 2026 00:00:00 GMT")


@pytest.mark.parametrize(
    "headers, fresh_s",
    [
        ([("Cache-Control", "public, max-age=600")], 600),
        ([("Cache-Control", "max-age=600"), ("Age", "100")], 500),
        ([("Cache-Control", "max-age=600"), ("Age", "700")], 0),
        ([("Cache-Control", "max-age=600"), ("Age", "x")], 600),
        ([("Cache-Control", "max-age=600, no-cache")], 0),
        ([("Cache-Control", "max-age=600"), ("Cache-Control", "no-store")], None),
        ([("Cache-Control", "max-age=600"), ("Vary", "*")], None),
        ([("Cache-Control", "max-age=999999999")], MAX_FRESH_S),
        ([DATE, ("Expires", "Thu, 01 Jan 2026 01:00:00 GMT")], 3600),
        ([DATE, ("Expires", "0")], 0),  # invalid: expired (5.3)
        ([DATE, ("Expires", "Wed, 31 Dec 2025 00:00:00 GMT")], 0),
        # max-age comes before Expires (5.3)
        ([DATE, ("Expires", "0"), ("Cache-Control", "max-age=5")], 5),
        ([DATE, ("Last-Modified", "Wed, 31 Dec 2025 14:00:00 GMT")], 3600),  # a tenth of 10 h
        ([DATE, ("Last-Modified", "Wed, 01 Jan 2020 00:00:00 GMT")], 86_400),
        ([], 0),
    ],
)
def test_until_when_an_answer_may_be_used(headers, fresh_s):
    until = fresh_until(headers, NOW)
    assert (None if until is None else until - NOW) == fresh_s
