"""The id of a session is long and random; a page's number, date or name is not."""

import pytest
from crawlkit.rules.url.canonical import canonicalize
from crawlkit.rules.url.session_values import is_session_value


@pytest.mark.parametrize(
    "value",
    [
        "9682993c8daa2c5497996114facdc805",  # md5
        "r2t5uvjq435r4q7ib3vtdjq120",  # PHP, 5 bits a character
        "EOHBLBDDPFCLHKPGGKLILNAM",  # ASP
        "lit3py55t21z5v55vlm25s55",  # ASP.NET
        "123e4567-e89b-12d3-a456-426614174000",
        "s%3AwY8vNq3Rk2Zt6Lp9Xb1Jm4Hd",  # a signed one of Express
        "0000Xg7fT2kLqW9zB4nRcV1yPd8:-1",  # a node behind it
    ],
)
def test_a_session(value):
    assert is_session_value(value)
    assert canonicalize(f"http://a.example/x?sid={value}&b=1") == "http://a.example/x?b=1"


@pytest.mark.parametrize(
    "value",
    [
        "42",
        "4711",
        "26/11/29/0912207",
        "20261129091220123",  # a time in ms
        "2026-11-29T09:12:20.000Z",
        "keynote-of-the-conference-2026",
        "conference2026keynote",
        "IntroductionToAlgorithms",
        "TheQuickBrownFoxJumpsOverTheDog",
        "a8f3",
        "10.1000/182",
        "",
    ],
)
def test_a_page(value):
    assert not is_session_value(value)
    url = f"http://a.example/x?session_id={value}"
    assert canonicalize(url) == url


def test_what_only_sessions_are_called_needs_no_long_value():
    assert canonicalize("http://a.example/?PHPSESSID=1&SessionId=9&b=2") == "http://a.example/?b=2"
