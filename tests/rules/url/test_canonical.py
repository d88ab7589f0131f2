"""rules.urls against the WHATWG rows, other people's suites, and its own laws."""

from __future__ import annotations

import hashlib
import json

import duckdb
import pytest
from crawlkit.config import Urls
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.url import canonical as urls
from crawlkit.rules.url.canonical import (
    UrlPolicy,
    as_found,
    canonical_many,
    canonicalize,
    host_of,
    host_sql,
    origin_of,
    split,
    url_key,
)
from hypothesis import given, strategies as st

from tests.cputime import within
from tests.examples import examples
from tests.shared_data import shared

PLAIN = UrlPolicy(remove_session=False)


def canonical(
    url: str | bytes, base: str | None = None, policy: UrlPolicy = urls.DEFAULT_POLICY
) -> str | Reason:
    try:
        return canonicalize(url, base, policy)
    except Refused as refused:
        return refused.reason


def wpt() -> list[dict]:
    return [
        row
        for row in json.loads(shared("suites/wpt/urltestdata.json").read_text("utf-8"))
        if isinstance(row, dict)
    ]


def test_wpt_rows():
    """Every row: the canonical form of its href where that is http(s), else a refusal; failures are
    refused.
    """
    rows = wpt()
    same = refused = 0
    for row in rows:
        got = canonical(row["input"], row["base"])
        href = None if row.get("failure") else row["href"]
        want = (
            canonical(href) if href is not None and href.startswith(("http:", "https:")) else None
        )
        if want is None or isinstance(want, Reason):
            # Three hrefs are valid URLs whose host is dots, or no host once its final dots are
            # gone.
            assert want is None or href in ("http://./", "http://../", "http://foo.09../")
            assert isinstance(got, Reason), row
            refused += 1
        else:
            assert got == want, row
            same += 1
    assert (same + refused, sum(bool(row.get("failure")) for row in rows)) == (888, 267)


def test_urlcanon_ipv4():
    """Numbers as hosts are IPv4 addresses; null: no address, which WHATWG refuses or leaves
    a name.
    """
    for host, want in json.loads(
        shared("suites/urlcanon/funky_ipv4.json").read_text("utf-8")
    ).items():
        got = canonical(f"http://{host}/")
        assert (
            got == f"http://{want}/"
            if want
            else isinstance(got, Reason) or got == f"http://{host.rstrip('.').lower()}/"
        ), host


def test_urlcanon_path_dots():
    rows = json.loads(shared("suites/urlcanon/path_dots.json").read_text("utf-8"))["special"]
    for path, want in rows.items():  # the suite keeps backslashes, which WHATWG reads as slashes
        assert canonical("http://site.example" + path) == "http://site.example" + want.replace(
            "\\", "/"
        ), path


# Rows of other forms, by rule: urlcanon decodes escapes of reserved characters again and again,
# reads a host of dots as
# 0.0.0.0, keeps the mojibake of its source, collapses slashes, and takes names of other parameters
# as its own.
OTHER_FORM = {
    "semantic_precise": lambda url, want: (
        "%" in url
        or "%" in want
        or "0.0.0.0" in want
        or not url.isascii()
        or not url.lower().lstrip().startswith("http")
        or "//" in url.split("//", 1)[-1]
        or "\\\\" in url
    ),
    "supplemental_whatwg": lambda url, want: (
        "0.0.0.0" in want or not url.isascii() or not want.startswith("http")
    ),
}


@pytest.mark.parametrize("name, least", [("semantic_precise", 40), ("supplemental_whatwg", 50)])
def test_urlcanon_rows_of_our_form(name, least):
    rows = {
        url: want
        for url, want in json.loads(
            shared(f"suites/urlcanon/{name}.json").read_text("utf-8")
        ).items()
        if not OTHER_FORM[name](url, want)
    }
    assert len(rows) >= least
    for url, want in rows.items():
        assert canonical(url) == canonical(want), url


def test_urlcanon_idempotence_rows():
    for url in json.loads(shared("suites/urlcanon/idempotence.json").read_text("utf-8")):
        once = canonical(url)
        assert isinstance(once, Reason) or canonical(once) == once


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        (
            "http://a.example/m.php?name=N&file=a&utm_source=x",
            "http://a.example/m.php?name=N&file=a",
        ),
        ("http://a.example/%7euser/%2f", "http://a.example/%7euser/%2f"),
        ("http://a.example/x;jsessionid=1?b=%c3%bc&a", "http://a.example/x?b=%c3%bc&a"),
        ("HTTP://u:p@A.example:80/q?b=100%&a#f", "http://a.example/q?b=100%&a"),
        ("http://a.example/?a=1&b=2", None),
        ("http://a.example/?b=2&utm_source=x", None),
        ("http://a.example/b/../\u00fc?x", None),
    ],
)
def test_a_request_keeps_the_spelling_as_found(url, sent):
    known = canonicalize(url)
    assert as_found(url, known) == sent
    assert sent is None or canonicalize(sent) == known


@given(st.text("ab?&=%/;.#27eé ", max_size=20))
def test_the_spelling_as_found_has_the_same_key(text):
    url = canonicalize(f"http://a.example/{text}")
    sent = as_found(f"/{text}", url, "http://a.example/x")
    assert sent is None or (sent != url and canonicalize(sent) == url)


@pytest.mark.parametrize(
    "url, reason",
    [
        ("http://", Reason.URL_HOST_EMPTY),
        ("http://.../x", Reason.URL_HOST_EMPTY),
        ("https://?q", Reason.URL_HOST_EMPTY),
        ("http://a b/", Reason.URL_INVALID),
        ("no scheme", Reason.URL_INVALID),
        ("http://256.1.1.1../", Reason.URL_INVALID),
        ("mailto:someone@site.example", Reason.URL_SCHEME),
        ("ws://site.example/", Reason.URL_SCHEME),
        ("http://site.example/" + "a" * 70_000, Reason.URL_TOO_LONG),
        ("http://site.example/" + "é" * 30_000, Reason.URL_TOO_LONG),
    ],
)
def test_reasons(url, reason):
    assert canonical(url) == reason


def test_credentials_are_not_in_messages():
    with pytest.raises(Refused) as refused:
        canonicalize("http://name:secret@site example/")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "raw, want",
    [
        ("http://site.example/caf\u00e9".encode(), "http://site.example/caf%C3%A9"),
        (b"http://site.example/caf\xe9", "http://site.example/caf%E9"),  # not UTF-8: byte by byte
        (
            "http://site.example/\ud800",
            "http://site.example/%EF%BF%BD",
        ),  # WHATWG: a lone surrogate is U+FFFD
        (
            "http://site.example/..;jsessionid=1/b",
            "http://site.example/b",
        ),  # dot segments again after the removal
        ("http://site.example/x/..;jsessionid=1/../y", "http://site.example/x/y"),  # and before it
        ("http://0x7f.1../", "http://127.0.0.1/"),  # the host is read anew without its final dots
        ("http://site.example/a?&&b=1&", "http://site.example/a?b=1"),
        ("http://site.example/a?=", "http://site.example/a?="),
        ("http://site.example/%41%2e%2E%2f", "http://site.example/A..%2F"),
        ("http://site.example/?utm%5Fsource=x&ok=1", "http://site.example/?ok=1"),
    ],
)
def test_by_hand(raw, want):
    assert canonical(raw) == want
    assert canonical(want) == want


@pytest.mark.parametrize(
    "settings_, url, want",
    [
        (
            {"remove_tracking": False},
            "http://a.example/?utm_source=x",
            "http://a.example/?utm_source=x",
        ),
        (
            {"remove_session": False},
            "http://a.example/x;jsessionid=1?sid=2",
            "http://a.example/x;jsessionid=1?sid=2",
        ),
        (
            {"extra_tracking": ("promo*",)},
            "http://a.example/?Promo_id=1&b=2",
            "http://a.example/?b=2",
        ),
        ({"extra_session": ("tok",)}, "http://a.example/?TOK=1&b=2", "http://a.example/?b=2"),
        (
            {"host_params": {"a.example": ("view",)}},
            "http://a.example/?view=1&b=2",
            "http://a.example/?b=2",
        ),
        (
            {"host_params": {"a.example": ("view",)}},
            "http://b.example/?view=1",
            "http://b.example/?view=1",
        ),
        ({"fold_www": True}, "http://www.www.a.example/", "http://a.example/"),
        ({"fold_www": True}, "http://www.example/", "http://www.example/"),
        ({"fold_index": True}, "http://a.example/x/Index.HTML?p=1", "http://a.example/x/?p=1"),
        ({"fold_slash": True}, "http://a.example/x//", "http://a.example/x"),
        (
            {"fold_slash": True, "fold_index": True},
            "http://a.example/index.php/index.html/",
            "http://a.example/",
        ),
        (
            {"keep_route_fragments": ("a.example",)},
            "http://A.example/#!/%7ex y",
            "http://a.example/#!/~x%20y",
        ),
        (
            {"keep_route_fragments": ("a.example",)},
            "http://a.example/#/it's#2`",
            "http://a.example/#/it's#2%60",
        ),  # WHATWG URL 1.3, fragment percent-encode set
    ],
)
def test_settings(settings_, url, want):
    policy = UrlPolicy.of(Urls(**settings_))
    assert canonical(url, None, policy) == want
    assert canonical(want, None, policy) == want


def test_parts():
    assert split("https://site.example:8443/a?b=c") == ("https", "site.example", 8443, "/a?b=c")
    assert split("http://[2001:db8::1]/") == ("http", "[2001:db8::1]", 80, "/")
    assert host_of("http://site.example:8080/") == "site.example"
    assert origin_of("http://site.example:8080/x?http://b/") == "http://site.example:8080"
    assert url_key("http://site.example/") == hashlib.sha256(b"http://site.example/").digest()[:16]
    assert canonical_many(["/a", "mailto:x"], "http://site.example/")[0] == "http://site.example/a"


PIECES = [
    "http://",
    "https://",
    "HTTP:",
    "javascript:",
    "mailto:",
    "x-y.z+1:",
    "Ftp:",
    "file:",
    "wss:",
    "1a:",
    "//",
    "/",
    "\\",
    "site.example",
    "Bücher.example",
    "127.1",
    "0x7f.1",
    "[::1]",
    "xn--bcher-kva.example",
    "..",
    ".",
    "%2e",
    "%2E%2e",
    "%",
    "%41",
    "%c3%a9",
    "%zz",
    "é",
    "\u3002",
    "?",
    "&",
    "=",
    "a",
    "B",
    "~",
    "'",
    '"',
    " ",
    "\t",
    "\n",
    "#",
    "@",
    ":",
    ":80",
    ":0443",
    ";jsessionid=1",
    "utm_source=x",
    "sid=1",
    "b=2&a=1",
    "|",
    "[",
    "^",
    "`",
    "{",
    "+",
    "$",
    "\ud800",
    "\x00",
    "\x7f",
    "\u00ad",
]
URL_TEXT = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(PIECES), max_size=14).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=10).map(
        lambda p: "http://site.example/" + "".join(p)
    ),
)


def by_parser(url: str, base: str | None) -> str | Reason:
    """The canonical form without the short ways: everything through the standard's parser."""
    try:
        origin, path, query, fragment = urls._parse(url, base, urls.DEFAULT_POLICY)
        return urls._finish(origin, path, query, fragment, urls.DEFAULT_POLICY)
    except Refused as refused:
        return refused.reason


@examples(500)
@given(URL_TEXT, st.one_of(st.none(), st.just("http://site.example/d/e?f#g"), URL_TEXT))
def test_laws(text, base):
    """A fixed point; the short ways and the standard's parser agree; nothing but Refused is
    raised.
    """
    got = canonical(text, base)
    assert got == by_parser(text, base)
    if isinstance(got, str) and not isinstance(got, Reason):
        assert got.isascii() and canonical(got) == got
        assert split(got).path_query.startswith("/") and got.startswith(origin_of(got) + "/")


@pytest.mark.waits
@pytest.mark.parametrize(
    "url",
    [
        "http://a.example/" + "%" * 65_000,
        "http://a.example/" + "/.." * 21_000,
        "http://a.example/?" + "&" * 65_000,
        "http://" + "a." * 32_000,
        "http://a.example/" + ";jsessionid=" * 5_000,
        "http://a.example/" + "../" * 21_000 + "?" + "a=" * 100,
    ],
)
def test_long_input_is_linear(url):
    within(0.5, lambda: (canonical(url), canonical(url[17:], "http://site.example/")))


@pytest.mark.parametrize(
    "url",
    [
        "http://host.example/",
        "https://host.example:8443/a:b",
        "http://[2001:db8::1]/x",
        "http://[::1]:81/:",
        "http://a/b//c?[d]",
    ],
)
def test_a_host_is_the_splits_and_the_patterns(url):
    assert canonicalize(url) == url
    [(said,)] = duckdb.execute(f"SELECT {host_sql('url')} FROM (SELECT ? AS url)", [url]).fetchall()
    assert host_of(url) == split(url).host == said
