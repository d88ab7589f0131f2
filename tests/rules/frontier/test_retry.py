"""Retry-After, HTTP dates and the retries of a URL.

Expected values: RFC 9110 examples, REQUIREMENTS D3 and D4.
"""

from __future__ import annotations

import email.utils
import time

import pytest
from crawlkit.config import Retry
from crawlkit.outcomes import Reason
from crawlkit.rules.frontier.retry import Action, url_retry
from crawlkit.rules.http.retry_after import http_date, retry_after_s
from hypothesis import given, strategies as st

NOW = 1_709_294_400.0  # 2024-03-01T12:00:00Z
DAY = 86_400.0


@pytest.mark.parametrize(
    "text",
    ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"],
)
def test_the_three_date_forms_of_rfc_9110(text):
    assert http_date(text, NOW) == 784_111_777.0


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "sun, 06 nov 1994 08:49:37 gmt",
        "06 Nov 1994 08:49:37 GMT",
        "Sun, 06-Nov-1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 10:49:37 +0200",
        "Sun, 06 Nov 1994 03:19:37 -05:30",
        "Sun, 06 Nov 94 08:49:37 GMT",
    ],
)
def test_dates_are_read_robustly(text):
    assert http_date(text, NOW) == 784_111_777.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "Sun, 06 Nov 1994 08:49:37 PST",
        "Sun, 006 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 199 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Foo 1994 08:49:37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, ٠٦ Nov 1994 08:49:37 GMT",
        "x" * 10_000,
        "Sun, 06 Nov 1994 08:49:37 GMT" * 9,
    ],
)
def test_other_texts_are_no_dates(text):
    assert http_date(text, NOW) is None


def test_two_digit_years_lie_within_fifty_years():
    assert time.gmtime(http_date("Friday, 01-Mar-74 12:00:00 GMT", NOW)).tm_year == 2074
    assert time.gmtime(http_date("Friday, 01-Mar-75 12:00:00 GMT", NOW)).tm_year == 1975


@given(st.integers(-11_000_000_000, 250_000_000_000))
def test_law_imf_dates_read_back(seconds):
    assert http_date(email.utils.format_datetime(_utc(seconds), usegmt=True), NOW) == seconds


def _utc(seconds: int):
    from datetime import datetime, timedelta, timezone

    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("value", "date", "expected"),
    [
        ("7", None, 7.0),
        (" 120 ", None, 120.0),
        ("0", None, 0.0),
        ("1.5", None, 2.0),
        ("1.0", None, 1.0),
        ("99999999999999999999999", None, DAY),
        ("9" * 100_000, None, DAY),
        ("86401", None, DAY),
        ("-1", None, None),
        ("+1", None, None),
        ("soon", None, None),
        ("٧", None, None),
        ("", None, None),
        (None, None, None),
        ("Fri, 01 Mar 2024 12:02:00 GMT", None, 120.0),
        ("Fri, 01 Mar 2024 11:00:00 GMT", None, 0.0),  # past
        (
            "Fri, 01 Mar 2024 11:02:00 GMT",
            "Fri, 01 Mar 2024 11:00:00 GMT",
            120.0,
        ),  # their clock is an hour behind
        ("Fri, 01 Mar 2024 12:02:00 GMT", "no date", 120.0),
        ("Fri, 01 Mar 2124 12:02:00 GMT", None, DAY),
    ],
)
def test_retry_after(value, date, expected):
    assert retry_after_s(value, NOW, DAY, date) == expected


@given(st.text(max_size=80), st.text(max_size=40))
def test_law_retry_after_never_raises_and_is_bounded(value, date):
    wait = retry_after_s(value, NOW, DAY, date)
    assert wait is None or 0 <= wait <= DAY


CFG = Retry()


@pytest.mark.parametrize(
    ("status", "error", "attempt", "action", "wait_s"),
    [
        (500, None, 1, Action.RETRY, 30.0),
        (502, None, 2, Action.RETRY, 120.0),
        (503, None, 3, Action.RETRY, 300.0),
        (500, None, 4, Action.LATER, 0.0),
        (408, None, 1, Action.RETRY, 30.0),
        (404, None, 1, Action.DEAD, 0.0),
        (410, None, 1, Action.DEAD, 0.0),
        (451, None, 1, Action.DEAD, 0.0),
        (403, None, 1, Action.LATER, 7 * DAY),
        (400, None, 1, Action.NO_RETRY, 0.0),
        (401, None, 1, Action.NO_RETRY, 0.0),
        (418, None, 1, Action.NO_RETRY, 0.0),
        (429, None, 9, Action.RETRY, 30.0),
        (None, Reason.TIMEOUT, 1, Action.RETRY, 30.0),
        (None, Reason.CONNECT_REFUSED, 3, Action.RETRY, 300.0),
        (None, Reason.DNS_FAIL, 4, Action.LATER, 0.0),
        (None, Reason.HTTP_MALFORMED, 1, Action.NO_RETRY, 0.0),
        (None, Reason.ADDRESS_FORBIDDEN, 1, Action.NO_RETRY, 0.0),
        (None, "never heard of", 1, Action.NO_RETRY, 0.0),
        (304, None, 1, Action.RETRY, 30.0),  # nothing was asked
    ],
)
def test_url_retry(status, error, attempt, action, wait_s):
    assert url_retry(status, error, attempt, CFG) == (action, wait_s, False)


def test_jitter_and_the_hosts_wait_lengthen():
    assert url_retry(500, None, 1, CFG, jitter=0.999).wait_s < 45.0
    assert url_retry(500, None, 1, CFG, host_wait_s=3600.0).wait_s == 3600.0
    assert url_retry(429, None, 1, CFG, host_wait_s=3600.0).wait_s == 3600.0


def test_304():
    assert url_retry(304, None, 1, CFG, sent_conditional=True, has_copy=True) == (
        Action.NO_RETRY,
        0.0,
        True,
    )
    assert (
        url_retry(304, None, 1, CFG, sent_conditional=True).action is Action.REFETCH_UNCONDITIONAL
    )
