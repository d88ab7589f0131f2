"""Right values: RFC 6265 by section (and draft-ietf-httpbis-rfc6265bis for prefixes and Secure)."""

from __future__ import annotations

import pytest
from crawlkit.rules.http.cookies import (
    MAX_COOKIES,
    MAX_LIFETIME_S,
    cookie_date,
    cookie_header,
    default_path,
    domain_match,
    parse_set_cookie,
    path_match,
    receive,
)
from hypothesis import given, strategies as st

NOW = 1_709_294_400.0


def sent(
    *lines: str,
    host="site.example",
    path="/",
    secure=False,
    to="site.example",
    to_path="/",
    to_secure=False,
    later=0.0,
):
    return cookie_header(
        receive((), host, path, secure, lines, NOW), to, to_path, to_secure, NOW + later
    )


@pytest.mark.parametrize(
    "line, header",
    [
        ("a=1", "a=1"),
        (" a = 1 ;x", "a=1"),
        ("a=", "a="),
        ("a=b=c", "a=b=c"),
        ('a="1 2"', 'a="1 2"'),
        ("a=1; HttpOnly; SameSite=Strict; Unknown=x", "a=1"),
        ("=1", None),
        ("a", None),
        ("", None),
        (";;;", None),
        ("a=\x01", None),
        ("a=" + "x" * 5000, None),
        ("a=1; Domain=site.example", "a=1"),
        ("a=1; Domain=.SITE.example", "a=1"),
        ("a=1; Domain=", "a=1"),
        ("a=1; domain=other.example", None),
        ("a=1; Domain=example", None),
        ("a=1; Domain=com", None),
        ("a=1; Domain=co.uk", None),
        ("a=1; Domain=www.site.example", None),
        ("a=1; Domain=te.example", None),
        ("a=1; Path=/", "a=1"),
        ("a=1; Path=/x", None),
        ("a=1; Path=x", "a=1"),
        ("a=1; Secure", None),
        ("a=1; Max-Age=10", "a=1"),
        ("a=1; Max-Age=0", None),
        ("a=1; Max-Age=-1", None),
        ("a=1; Max-Age=x", "a=1"),
        ("a=1; Max-Age=", "a=1"),
        ("a=1; Expires=Wed, 09 Jun 2099 10:18:14 GMT", "a=1"),
        ("a=1; Expires=Wed, 09 Jun 2021 10:18:14 GMT", None),
        ("a=1; Expires=never", "a=1"),
        ("a=1; Expires=Wed, 09 Jun 2021 10:18:14 GMT; Max-Age=10", "a=1"),
        ("__Secure-a=1", None),
        ("__Host-a=1; Secure; Path=/", None),
    ],
)
def test_one_line(line, header):
    assert sent(line) == header


def test_host_only_and_domain_cookies():
    assert sent("a=1", to="www.site.example") is None
    assert sent("a=1; Domain=site.example", to="www.site.example") == "a=1"
    assert sent("a=1; Domain=site.example", host="www.site.example") == "a=1"
    assert sent("a=1; Domain=github.io", host="x.github.io", to="y.github.io") is None
    assert sent("a=1; Domain=2.3.4", host="1.2.3.4", to="1.2.3.4") is None
    assert sent("a=1", host="1.2.3.4", to="1.2.3.4") == "a=1"


def test_secure_and_prefixes():
    assert (
        sent("a=1; Secure", secure=True) is None
        and sent("a=1; Secure", secure=True, to_secure=True) == "a=1"
    )
    assert sent("__Host-a=1; Secure; Path=/", secure=True, to_secure=True) == "__Host-a=1"
    assert (
        sent("__Host-a=1; Secure", secure=True, to_secure=True) is None
    )  # 6265bis 5.7: the attribute is required
    assert (
        sent("__Host-a=1; Secure; Path=/; Domain=site.example", secure=True, to_secure=True) is None
    )


def test_prefixes_in_any_case():  # 6265bis 5.4
    assert sent("__secure-a=1", secure=True, to_secure=True) is None
    assert (
        sent("__HOST-a=1; Secure; Path=/; Domain=site.example", secure=True, to_secure=True) is None
    )
    assert sent("__host-a=1; Secure; Path=/", secure=True, to_secure=True) == "__host-a=1"


@pytest.mark.parametrize(
    ("line", "host", "path", "header"),
    [
        ("a=evil", "site.example", "/", "a=good"),
        ("a=; Max-Age=0", "site.example", "/", "a=good"),
        ("a=evil; Domain=site.example", "www.site.example", "/", "a=good"),
        ("a=evil; Path=/in/x", "site.example", "/in/x", "a=good"),
        ("b=free", "site.example", "/in/", "a=good; b=free"),
        ("a=free; Path=/", "site.example", "/", "a=good; a=free"),
    ],
)
def test_http_leaves_secure_cookies_alone(line, host, path, header):  # 6265bis 5.7
    jar = receive(
        (),
        "site.example",
        "/in/y",
        True,
        ["a=good; Secure" + ("; Path=/in" if "free" in line or "/in" in line else "; Path=/")],
        NOW,
    )
    assert (
        cookie_header(
            receive(jar, host, path, False, [line], NOW), "site.example", "/in/x", True, NOW
        )
        == header
    )


def test_a_dead_secure_cookie_guards_nothing():
    jar = receive((), "site.example", "/", True, ["a=good; Secure; Max-Age=10"], NOW)
    assert (
        cookie_header(
            receive(jar, "site.example", "/", False, ["a=new"], NOW + 11),
            "site.example",
            "/",
            False,
            NOW + 11,
        )
        == "a=new"
    )


@pytest.mark.parametrize(
    "domain",
    [
        "b\u00fccher.example",
        "b\u00fccher.example".encode().decode("latin-1"),
        "xn--bcher-kva.example",
    ],
)
def test_domain_in_letters(domain):  # 5.1.2
    jar = receive((), "xn--bcher-kva.example", "/", False, [f"a=1; Domain={domain}"], NOW)
    assert cookie_header(jar, "www.xn--bcher-kva.example", "/", False, NOW) == "a=1"


def test_long_attributes_are_ignored():
    assert sent(f"a=1; Path=/{'x' * 1024}; Path2=y", to_path="/z") == "a=1"


def test_order_replacement_and_removal():
    assert sent("a=1", "b=2; Path=/x/y", "c=3; Path=/x", to_path="/x/y/z") == "b=2; c=3; a=1"
    assert sent("a=1", "b=2", "a=3") == "a=3; b=2"
    assert sent("a=1", "b=2", "a=; Max-Age=0") == "b=2"
    assert sent("a=1; Max-Age=10", later=11) is None
    assert sent("a=1", "a=2; Max-Age=-99999999999999999999") is None  # 5.2.2: any number of digits
    assert sent("a=1; Max-Age=" + "9" * 4000) == "a=1"


def test_bounds():
    jar = receive((), "site.example", "/", False, [f"c{n}=1" for n in range(200)], NOW)
    assert len(jar) == MAX_COOKIES and jar[-1].name == "c199"
    assert (
        parse_set_cookie("a=1; Max-Age=999999999999", "site.example", "/", False, NOW).expires
        == NOW + MAX_LIFETIME_S
    )


@pytest.mark.parametrize(
    "path, default",
    [("/", "/"), ("/a", "/"), ("/a/", "/a"), ("/a/b?c=/d", "/a"), ("", "/"), ("x", "/")],
)
def test_default_path(path, default):
    assert default_path(path) == default


@pytest.mark.parametrize(
    "path, cookie, fits",
    [
        ("/", "/", True),
        ("/a", "/a", True),
        ("/a/b", "/a", True),
        ("/ab", "/a", False),
        ("/a/b", "/a/", True),
        ("/a", "/a/", False),
    ],
)
def test_path_match(path, cookie, fits):
    assert path_match(path, cookie) is fits


def test_domain_match():
    assert domain_match("a.b", "b") and not domain_match("ab", "b") and not domain_match("b", "a.b")


@pytest.mark.parametrize(
    "text, unix",
    [
        ("Wed, 09 Jun 2021 10:18:14 GMT", 1623233894),
        ("Wednesday, 09-Jun-21 10:18:14 GMT", 1623233894),
        ("Wed Jun  9 10:18:14 2021", 1623233894),
        ("9 jun 2021 10:18:14", 1623233894),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("01 Jan 70 00:00:00", 0),
        ("", None),
        ("Jun 2021", None),
        ("31 Feb 2021 10:00:00", None),
        ("09 Jun 2021 25:00:00", None),
        ("09 Jun 1500 10:00:00", None),
        ("x" * 10_000, None),
    ],
)
def test_cookie_date(text, unix):
    assert cookie_date(text) == unix


@given(st.text(max_size=80), st.text(max_size=20))
def test_no_line_raises(line, path):
    receive(
        (),
        "site.example",
        path,
        True,
        [line, f"a=1;{line}", f"a=1; expires={line}", f"a=1; domain={line}"],
        NOW,
    )
