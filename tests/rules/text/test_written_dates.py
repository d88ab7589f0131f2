"""Days as people write them; right values are read by hand."""

import datetime as dt
import time

import pytest
from crawlkit.rules.text.written_dates import MAX_TEXT_CHARS, read_day
from hypothesis import given, strategies as st

CASES = [
    ("2025-09-04T12:00:00+02:00", None, "2025-09-04"),
    ("Published: 2025/9/4", None, "2025-09-04"),
    ("20250904", None, None),
    ("September 4, 2025", "en", "2025-09-04"),
    ("Sept. 4th, 2025 by Ann Author", "en", "2025-09-04"),
    ("Thu, 4 Sep 2025 10:00:00 GMT", None, "2025-09-04"),
    ("30th March 2025, 16:26", "en-GB", "2025-03-30"),
    ("4. März 2025", "de", "2025-03-04"),
    ("le 1er août 2025", "fr", "2025-08-01"),
    ("4 de septiembre de 2025", "es", "2025-09-04"),
    ("4 września 2025", "pl", "2025-09-04"),
    ("4 сентября 2025 г.", "ru", "2025-09-04"),
    ("4 KASIM 2025", "tr", "2025-11-04"),
    ("4 NİSAN 2025", "tr", "2025-04-04"),
    ("4 ſep 2025", "en", "2025-09-04"),
    ("2025年9月4日", "ja", "2025-09-04"),
    ("2025년 9월 4일", "ko", "2025-09-04"),
    ("04.09.2025", "en", "2025-09-04"),
    ("09/04/2025", "en-US", "2025-09-04"),
    ("09/04/2025", "en", "2025-09-04"),
    ("09/04/2025", "en-GB", "2025-04-09"),
    ("09/04/2025", "fr", "2025-04-09"),
    ("11-29-2024, 09:03 AM", "fr", "2024-11-29"),
    ("29/11/2024", "en-US", "2024-11-29"),
    ("February 30, 2025 and March 1, 2025", "en", None),  # each form's first is looked at
    ("version 2.10.2025.1", "en", None),
    ("from 1 May 1945", "en", None),
    ("May 2025", "en", None),
    ("", None, None),
]


@pytest.mark.parametrize(("text", "language", "day"), CASES)
def test_days(text, language, day):
    assert read_day(text, language) == day


@given(st.dates(dt.date(1990, 1, 1), dt.date(2099, 12, 31)))
def test_every_day_is_read_in_every_form(day):
    forms = ("%Y-%m-%d", "%B %d, %Y", "%d %b %Y", "%d.%m.%Y", "%Y/%m/%d", "%A, %d %B %Y %H:%M")
    assert {read_day(day.strftime(f), "en") for f in forms} == {day.isoformat()}


@given(st.text(max_size=500), st.none() | st.text(max_size=12))
def test_any_text_gives_a_day_of_the_calendar_or_none(text, language):
    assert (day := read_day(text, language)) is None or dt.date.fromisoformat(day).year >= 1990


def test_a_long_text_is_cut():
    start = time.process_time()
    assert read_day("1 " * 10**6 + "2025") is None
    assert read_day("2025-1" * MAX_TEXT_CHARS) is None
    assert time.process_time() - start < 0.2
