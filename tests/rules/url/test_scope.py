"""rules.scope: each named rule, and the order among them."""

from __future__ import annotations

import pytest
from crawlkit.config import ConfigError, ScopeConfig, Urls
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.url.canonical import canonicalize
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.url.scope import Scope, scope_reason
from hypothesis import given, strategies as st

from tests.cputime import within

EVERYTHING = Scope.of(ScopeConfig())


def reason(url: str, depth: int = 0, **config) -> Reason | None:
    return scope_reason(url, depth, Scope.of(ScopeConfig(**config)), 2026)


@pytest.mark.parametrize(
    "config, url, want",
    [
        ({"hosts": ("Site.Example.",)}, "http://site.example:8080/a", None),
        ({"hosts": ("site.example",)}, "http://www.site.example/", Reason.SCOPE_HOST),
        ({"hosts": ("bücher.example",)}, "http://xn--bcher-kva.example/", None),
        ({"domains": ("site.example",)}, "http://a.b.site.example/", None),
        ({"domains": ("site.example",)}, "http://site.example/", None),
        ({"domains": ("site.example",)}, "http://evilsite.example/", Reason.SCOPE_DOMAIN),
        ({"domains": (".site.example", "*.other.example")}, "http://site.example/", None),
        ({"domains": (".site.example", "*.other.example")}, "http://a.other.example/", None),
        (
            {"domains": (".site.example", "*.other.example")},
            "http://evilsite.example/",
            Reason.SCOPE_DOMAIN,
        ),
        ({"prefixes": ("HTTP://site.example/docs/",)}, "http://site.example/docs/a", None),
        (
            {"prefixes": ("http://site.example/docs/",)},
            "http://site.example/docs",
            Reason.SCOPE_PREFIX,
        ),
        ({"prefixes": ("http://site.example",)}, "http://site.example.evil/", Reason.SCOPE_PREFIX),
        (
            {"prefixes": ("http://site.example/docs/",)},
            "https://site.example/docs/a",
            Reason.SCOPE_PREFIX,
        ),
        # what one of them names is in
        ({"hosts": ("a.example",), "domains": ("b.example",)}, "http://www.b.example/", None),
        (
            {"hosts": ("a.example",), "domains": ("b.example",)},
            "http://c.example/",
            Reason.SCOPE_HOST,
        ),
        (
            {"exclude_patterns": (r"/private/", r"\?.*sort=")},
            "http://a.example/x?sort=1",
            Reason.SCOPE_PATTERN,
        ),
        (
            {"exclude_patterns": (r"^http://b\.", r"(a+)+$")},
            "http://c.example/" + "a" * 1000 + "!",
            None,
        ),
    ],
)
def test_named(config, url, want):
    assert reason(url, **config) == want


@pytest.mark.parametrize(
    "config",
    [
        {"hosts": ("http://a.example/",)},
        {"hosts": ("a b",)},
        {"hosts": ("*.a.example",)},
        {"hosts": (".a.example",)},
        {"domains": ("a.*.example",)},
        {"domains": ("a.example/x",)},
        {"prefixes": ("docs/",)},
        {"exclude_patterns": ("(?=x)",)},
        {"exclude_patterns": (r"(a)\1",)},
        {"exclude_patterns": ("(",)},
        {"exclude_patterns": ("",)},
        {"domains": ("",)},
        {"hosts": ("",)},
    ],
)
def test_unusable_settings(config):
    with pytest.raises(ConfigError) as error:
        Scope.of(ScopeConfig(**config))
    assert f"scope.{next(iter(config))}" in str(error.value)


@pytest.mark.parametrize(
    "url, want",
    [
        ("http://a.example/" + "x" * 2030, None),
        ("http://a.example/" + "x" * 2040, Reason.SCOPE_PATH_LENGTH),
        ("http://a.example/a/a/a/x", None),
        ("http://a.example/a/b/a/b/a/b/a/b/", Reason.SCOPE_REPEATED_SEGMENTS),
        ("http://a.example/0/0/0/0/0/0/", None),
        ("http://a.example/2024/01/01/a.html", None),
        ("http://a.example/2031/04/30/", Reason.SCOPE_DATE_RANGE),
        ("http://a.example/x/1850-04-30", Reason.SCOPE_DATE_RANGE),
        ("http://a.example/calendar/2031/04/", Reason.SCOPE_DATE_RANGE),
        ("http://a.example/events?month=2031-4", Reason.SCOPE_DATE_RANGE),
        ("http://a.example/?year=3000", Reason.SCOPE_DATE_RANGE),
        ("http://a.example/topic/2451/10", None),
        ("http://a.example/p/20310430", None),
        ("http://a.example/isbn/978-2451-10-12", None),
        ("http://a.example/(S(lit3py55t21z5v55vlm25s55))/x.aspx", Reason.SCOPE_SESSION_ID),
        ("http://a.example/(4hqa0555fwsecu455xqckv45)/x.aspx", Reason.SCOPE_SESSION_ID),
        ("http://a.example/x;jsessionid=1", Reason.SCOPE_SESSION_ID),
        ("http://a.example/x?b=1&SESSIONID=2", Reason.SCOPE_SESSION_ID),
        ("http://a.example/x?SID=9682993c8daa2c5497996114facdc805", Reason.SCOPE_SESSION_ID),
        ("http://a.example/x?sid=26/11/29/0912207&b=1", None),
        ("http://a.example/x?inside=2", None),
        ("http://a.example/A.JPG?x=1", Reason.MEDIA_NOT_CRAWLED),
        ("http://a.example/a.tar.gz", Reason.SCOPE_EXTENSION),
        ("http://a.example/a.pdf", None),
        ("http://a.example/v1.zip/x", None),
        ("http://a.example/?file=a.zip", None),
    ],
)
def test_rules_on_one_url(url, want):
    assert scope_reason(url, 0, EVERYTHING, 2026) == want


def test_depth_and_kind():
    assert [reason("http://a.example/", depth) for depth in (15, 16)] == [None, Reason.SCOPE_DEPTH]
    assert (
        reason("http://a.example/a.jpg", 3, max_depth=2) is Reason.SCOPE_DEPTH
    )  # the first rule that says so
    assert scope_reason("http://a.example/sitemap.xml.gz", 0, EVERYTHING, 2026, page=False) is None


@given(st.text(max_size=100))
def test_never_raises(text):
    try:
        url = canonicalize("http://a.example/" + text)
    except Refused:
        return
    scope_reason(url, 0, EVERYTHING, 2026)


@pytest.mark.waits
@pytest.mark.parametrize(
    "path",
    [
        "/" * 65_000,
        "2024/01" * 9_000,
        "/(S(aaaaaaaa" * 5_000,
        "a" * 65_000,
        "?" + "year=1" * 10_000,
        "/calendar" + "/2031/1" * 9_000,
    ],
)
def test_linear(path):
    scope = Scope.of(ScopeConfig(max_url_bytes=65_536))
    within(0.5, lambda: scope_reason("http://a.example/" + path, 0, scope, 2026))


@pytest.mark.parametrize(
    "urls, scope, inside, outside",
    [
        ({"fold_www": True}, {"hosts": ("www.a.example",)}, ["http://a.example/x"], []),
        (
            {"fold_www": True},
            {"prefixes": ("http://www.a.example/docs/",)},
            ["http://www.a.example/docs/x"],
            ["http://www.a.example/doc", "http://b.example/docs/"],
        ),
        (
            {"fold_slash": True},
            {"prefixes": ("http://a.example/docs/",)},
            ["http://a.example/docs/", "http://a.example/docs", "http://a.example/docs/x/"],
            ["http://a.example/docs2", "http://a.example/"],
        ),
        (
            {"remove_session": False},
            {"prefixes": ("http://a.example/list?sid=42",)},
            ["http://a.example/list?sid=42&p=1", "http://a.example/list?p=1&sid=421"],
            ["http://a.example/list", "http://a.example/list?sid=7", "http://a.example/l?sid=42"],
        ),
        (
            {},
            {"prefixes": ("http://a.example/ex?User=A&Back=",)},
            ["http://a.example/ex?User=A&Back=B&Do=F", "http://a.example/ex?Back=&User=A"],
            ["http://a.example/ex?User=B&Back=", "http://a.example/ex?User=A"],
        ),
        ({"fold_index": True}, {"prefixes": ("http://a.example/x/",)}, ["http://a.example/x/"], []),
        (
            {"extra_tracking": ("q",)},
            {"prefixes": ("http://a.example/?p",)},
            ["http://a.example/?page=1&q=2"],
            ["http://a.example/?q=2"],
        ),
    ],
)
def test_the_scope_is_read_by_the_rules_of_the_urls(urls, scope, inside, outside):
    policy = UrlPolicy.of(Urls(**urls))
    compiled = Scope.of(ScopeConfig(**scope), policy)
    for url in (*inside, *outside):
        reason = scope_reason(canonicalize(url, policy=policy), 0, compiled, 2026)
        assert (reason is None) == (url in inside), url
