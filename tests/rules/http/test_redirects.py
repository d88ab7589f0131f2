"""rules.redirects: RFC 9110 15.4 and 10.2.2, WHATWG URL, RFC 6761."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from crawlkit.outcomes import Reason
from crawlkit.rules.http.redirects import redirect
from hypothesis import given, strategies as st

PAGE = "http://site.example/a/b"


@pytest.mark.parametrize(
    "status, location, target, permanent, reason",
    [
        (301, "/c", "http://site.example/c", True, None),
        (302, "c?x=1#top", "http://site.example/a/c?x=1", False, None),
        (303, "//other.example", "http://other.example/", False, None),
        (307, "?q", "http://site.example/a/b?q", False, None),
        (308, b"/caf\xc3\xa9", "http://site.example/caf%C3%A9", True, None),
        (302, b"/caf\xe9", "http://site.example/caf%E9", False, None),
        (302, " /c d ", "http://site.example/c%20d", False, None),
        (302, "", None, False, Reason.REDIRECT_LOOP),
        (302, "#x", None, False, Reason.REDIRECT_LOOP),
        (302, "b?utm_source=x", None, False, Reason.REDIRECT_LOOP),
        (302, None, None, False, Reason.REDIRECT_INVALID),
        (302, "http://[::1", None, False, Reason.URL_INVALID),
        (302, "javascript:alert(1)", None, False, Reason.URL_SCHEME),
        (302, "http://0x7f.1/", None, False, Reason.ADDRESS_FORBIDDEN),
        (302, "http://[::ffff:10.0.0.1]/", None, False, Reason.ADDRESS_FORBIDDEN),
        (302, "http://LOCALHOST/", None, False, Reason.ADDRESS_FORBIDDEN),
        (302, "http://a.localhost./", None, False, Reason.ADDRESS_FORBIDDEN),
        (302, "http://8.8.8.8/", "http://8.8.8.8/", False, None),
        (302, "http://site10/", "http://site10/", False, None),
        (300, "/c", None, False, Reason.HTTP_3XX),
        (304, "/c", None, False, Reason.HTTP_3XX),
        (305, "/c", None, False, Reason.HTTP_3XX),
        (200, "/c", None, False, None),
        (201, "/c", None, False, None),
    ],
)
def test_redirect(status, location, target, permanent, reason):
    hop = redirect(PAGE, status, location)
    assert (hop.target, hop.permanent, hop.reason) == (target, permanent, reason)
    assert hop.refused == (
        reason
        in (
            Reason.REDIRECT_INVALID,
            Reason.URL_INVALID,
            Reason.URL_SCHEME,
            Reason.ADDRESS_FORBIDDEN,
        )
    )


def test_allowed_networks():
    assert (
        redirect(PAGE, 302, "http://localhost:8000/x", allow=[ip_network("127.0.0.0/8")]).target
        == "http://localhost:8000/x"
    )


@given(st.integers(100, 999), st.one_of(st.text(max_size=80), st.binary(max_size=80)))
def test_never_raises(status, location):
    redirect(PAGE, status, location)
