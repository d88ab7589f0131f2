"""Keys of IndexNow: where they are, for which URLs they speak, digests by sha256sum."""

from __future__ import annotations

import pytest
from crawlkit.outcomes import Refused
from crawlkit.rules.feeds.ping_keys import KEY, is_governed, key_digests, key_location

HOST, FIRST = "www.site.example", "http://www.site.example/a/b"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "http://www.site.example/0123abcd.txt"),
        ("https://www.site.example/catalog/key.txt", "https://www.site.example/catalog/key.txt"),
        ("http://WWW.site.example:80/k", "http://www.site.example/k"),
    ],
)
def test_where_the_key_is(given, expected):
    assert key_location(HOST, "0123abcd", given, FIRST) == expected


@pytest.mark.parametrize(
    "given",
    ["http://site.example/k.txt", "http://www.site.example@evil.example/k", "ftp://x/", "x"],
)
def test_a_key_elsewhere_is_none(given):
    with pytest.raises((ValueError, Refused)):
        key_location(HOST, "0123abcd", given, FIRST)


@pytest.mark.parametrize(
    ("url", "location", "expected"),
    [
        ("http://h.example/any?x=1", "http://h.example/k.txt", True),
        ("https://h.example/any", "http://h.example/k.txt", True),
        ("http://h.example/catalog/item", "http://h.example/catalog/k.txt", True),
        ("http://h.example/catalog/", "http://h.example/catalog/k.txt?a=/x/y", True),
        ("http://h.example/help", "http://h.example/catalog/k.txt", False),
        ("http://h.example/catalogue", "http://h.example/catalog/k.txt", False),
        ("http://h.example:8080/", "http://h.example/k.txt", False),
        ("http://other.example/", "http://h.example/k.txt", False),
    ],
)
def test_for_which_urls_it_speaks(url, location, expected):
    assert is_governed(url, location) is expected


def test_the_forms_of_a_key_file():
    forms = key_digests("0123abcd")
    assert "64eab0705394501ced0ff991bf69077fd3846c1d964e3db28d9600891715d848" in forms  # alone
    assert "943d650b60aa37ee8e210332bc446819038e6b1e724bc0b67b4788fae2bf9cf8" in forms  # CR LF
    assert "f693bc984bf5c1fff07c468b937442dd12d49a773f21ac10885b2921fff15a3c" in forms  # BOM, LF
    assert "a1844cba0c8e504c152c5e6edd1aa0f186578622b9d4501c8dfa17377d7d172d" not in forms


@pytest.mark.parametrize("bad", ["short", "x" * 129, "with space", "\u0661" * 8, "12345678\n"])
def test_what_is_no_key(bad):
    assert not KEY.fullmatch(bad)
