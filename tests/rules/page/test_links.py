from __future__ import annotations

import pytest
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.page.links import (
    MAX_LINKS,
    KnownReferences,
    base_url,
    parse_refresh,
    read_links,
)
from crawlkit.rules.page.markup import read_html, srcset_urls
from crawlkit.rules.url import canonical
from crawlkit.rules.url.canonical import UrlPolicy, as_found, canonicalize
from hypothesis import given, strategies as st

from tests.cputime import within

URL = "http://site.example/a/b"


def links(markup: str, headers=(), encoding="utf-8"):
    return read_links(read_html(markup), URL, headers, encoding)


def test_kinds_order_and_refusals():
    found = links(
        "<link rel='stylesheet' href=/s><link rel=ALTERNATE type='application/rss+xml'"
        " href=/feed><link rel=amphtml href=/amp><link rel=alternate media='only screen and"
        " (max-width: 640px)' href='http://m.site.example/'><link rel='alternate stylesheet'"
        " href=/alt.css><a href=/1 rel='NoFollow ugc'>one</a><a href='http://[bad'>x</a><a"
        " href='mailto:a@site.example'>y</a><iframe src=/f></iframe><img src=/i alt='an i'><video"
        " src=/v poster=/p>"
    )
    assert [(link.kind, link.url, link.refused) for link in found.links] == [
        ("feed", "http://site.example/feed", None),
        ("amphtml", "http://site.example/amp", None),
        ("mobile", "http://m.site.example/", None),
        ("a", "http://site.example/1", Reason.NOFOLLOW),
        ("a", "http://[bad", Reason.URL_INVALID),
        ("a", "mailto:a@site.example", Reason.URL_SCHEME),
        ("iframe", "http://site.example/f", None),
        ("image", "http://site.example/i", Reason.MEDIA_NOT_CRAWLED),
        ("image", "http://site.example/p", Reason.MEDIA_NOT_CRAWLED),
        ("media", "http://site.example/v", Reason.MEDIA_NOT_CRAWLED),
    ]
    assert found.links[3].anchor == "one" and found.links[3].rel.split() == ["nofollow", "ugc"]


@pytest.mark.parametrize(
    "href,base",
    [
        ("/d/", "http://site.example/d/"),
        ("http://cdn.example", "http://cdn.example/"),
        ("", URL),
        ("data:text/html,x", URL),  # HTML Standard 4.2.3: such a base is ignored
        ("javascript:x", URL),
        ("http://[bad", URL),
        (
            "ftp://site.example/x",
            "ftp://site.example/x",
        ),  # legal: what is relative to it is not crawled
    ],
)
def test_base(href, base):
    assert base_url(href, URL) == base


def test_base_of_another_scheme_makes_no_false_links():
    assert (
        links("<base href='ftp://site.example/'><a href=x>").links[0].refused == Reason.URL_SCHEME
    )


def test_canonical_in_the_head_comes_before_the_body():
    head = "<html><head><link rel=canonical href=/h></head><body>"
    assert links(head + "<link rel=canonical href=/b>").canonical == "http://site.example/h"
    assert links("<p>x<link rel=canonical href=/b>").canonical == "http://site.example/b"
    assert links("<link rel=canonical href=''>").canonical is None
    two = links("<link rel=canonical href=/x><link rel=canonical href=/y>")
    assert two.canonical_conflict and two.canonical is None
    assert (
        links("<link rel=canonical href=/x><link rel=canonical href=/x>").canonical
        == "http://site.example/x"
    )


def test_link_fields():
    # RFC 8288 3.5
    headers = [
        ("Link", '<http://site.example/c>; rel="canonical", </n>;rel=next; title="a, b; <c>"'),
        ("link", '</other>; rel="canonical"; anchor="http://elsewhere.example/"'),
        ("LINK", '</de>;; rel=alternate; ;hreflang="de";'),  # empty parameters (RFC 8288 B.3)
    ]
    found = links("<base href='/d/'>", headers)
    assert [(link.kind, link.url, link.where) for link in found.links] == [
        ("canonical", "http://site.example/c", "header"),
        ("next", "http://site.example/n", "header"),
        ("alternate", "http://site.example/de", "header"),
    ]
    assert found.canonical == "http://site.example/c" and found.alternates == [
        ("de", "http://site.example/de")
    ]


@pytest.mark.parametrize(
    "srcset,urls",
    [
        ("a 1x, b 2x", ["a", "b"]),
        ("a,b.png 1x,c 2x", ["a,b.png", "c"]),
        ("a,, b", ["a", "b"]),
        (" , a (x,y) 2x,b", ["a", "b"]),
        ("data:image/png;base64,AA== 1x, b", ["data:image/png;base64,AA==", "b"]),
        ("", []),
        (",", []),
    ],
)
def test_srcset(srcset, urls):
    assert list(srcset_urls(srcset)) == urls


@pytest.mark.parametrize(
    "content,expected",
    [
        # HTML Standard, shared declarative refresh steps
        ("0;url=/n", (0, "/n")),
        ("5; URL = '/n' x", (5, "/n")),
        ('5;url="a\'b"c', (5, "a'b")),
        ("3 /n", (3, "/n")),
        ("3,/n", (3, "/n")),
        ("1.9;url=x", (1, "x")),
        (".5;url=x", (0, "x")),
        ("5;ur=x", (5, "ur=x")),
        ("30", (30, "")),
        ("", None),
        ("x", None),
        ("-1;url=x", None),
        ("5url=x", None),
    ],
)
def test_refresh(content, expected):
    assert parse_refresh(content) == expected


def test_refreshes_of_a_page():
    assert links(
        "<meta http-equiv=refresh content='0;url=javascript:x'><meta http-equiv=Refresh"
        " content='2;url=/y'>"
    ).refresh == ("http://site.example/y", 2)
    assert links("<meta http-equiv=refresh content='9;url=/a/b'>").refresh is None
    assert (
        links("<meta http-equiv=' refresh' content='0;url=/y'>").refresh is None
    )  # a keyword is compared whole (HTML Standard 2.3.3)
    assert links("", [("Refresh", "0; url=/h")]).refresh == ("http://site.example/h", 0)
    found = links("<noscript><meta http-equiv=refresh content='0;url=/n'></noscript>")
    assert found.refresh is None and [link.url for link in found.links] == ["http://site.example/n"]


def test_queries_in_the_pages_encoding():
    assert (
        links("<a href='/ü?q=ü'>", encoding="windows-1252").links[0].url
        == "http://site.example/%C3%BC?q=%FC"
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "area", "base", "img", "link rel=canonical", "iframe"]),
            st.text(max_size=30),
        ),
        max_size=8,
    )
)
def test_links_are_canonical_or_refused(elements):
    markup = "".join(
        f"<{tag} href='{value}' src='{value}' srcset='{value}'>" for tag, value in elements
    )
    for link in links(markup, [("Link", f"<{v}>; rel={v}") for _, v in elements]).links:
        if link.refused in (None, Reason.NOFOLLOW):
            assert canonicalize(link.url) == link.url


@pytest.mark.waits
def test_a_srcset_of_a_million_addresses_is_read_up_to_the_limit():
    references = ",".join(f"a{n} 1x" for n in range(MAX_LINKS + 10))
    images = links(f"<img src=/first srcset='{references}'><img src=/late>").images
    assert [url for url, _ in images[:2]] == [
        "http://site.example/first",
        "http://site.example/a/a0",
    ] and len(images) == MAX_LINKS
    assert len(within(0.8, lambda: links("<img srcset='" + "a 1x," * 2_000_000 + "'>")).images) == 1


BASES = st.sampled_from(
    [
        "http://www.site.example/a/b;jsessionid=1/c?d=e",
        "https://site.example:81/.a/b",
        "http://site.example/d;jsessionid=3",
        "http://site.example/%41/index.html?q='",
        "data:text/html,x",
    ]
) | st.from_regex(r"http://a\.b(:80|:81)?(/[a|./'~%;-]{0,5})?(\?[a/.'%]{0,3})?", fullmatch=True)
POLICIES = st.sampled_from(
    [UrlPolicy(), *(UrlPolicy(**{f"fold_{what}": True}) for what in ("www", "index", "slash"))]
)


@given(BASES, POLICIES, st.text("ab1./-_#", max_size=9) | st.just("index.html"))
def test_a_plain_reference_is_what_the_whole_way_makes_of_it(base, policy, reference):
    try:
        url = canonicalize(reference, base, policy)
        expected = url, None, as_found(reference, url, base, policy)
    except Refused as e:
        expected = reference, e.reason, None
    assert KnownReferences(base, "utf-8", policy)[reference] == expected


@given(BASES)
def test_parts_of_a_base_are_those_of_the_parser(base):
    try:
        expected = canonical._parse(base, None, UrlPolicy())[:3]
    except Refused:
        expected = None
    assert canonical._base(base) == expected


@pytest.mark.parametrize(
    "other",
    [
        '<link rel=canonical hreflang=de href="https://a.example/de">',
        '<link rel=canonical lang=de href="https://a.example/de">',
        '<link rel=canonical media="only screen" href="https://m.a.example/">',
        '<link rel="canonical alternate" type="application/rss+xml" href="https://a.example/rss">',
    ],
)
def test_a_canonical_link_of_another_form_of_the_page_is_none(other):
    own = '<link rel=canonical href="https://a.example/x">'
    for text, want in ((other, None), (other + own, "https://a.example/x")):
        got = links(f"<head>{text}</head>")
        assert (got.canonical, got.canonical_conflict) == (want, False)


def hubs(markup: str, headers=()):
    found = links(markup, headers).links
    assert {link.refused for link in found} <= {Reason.HUB_LINK}  # none is for the frontier
    return [(link.kind, link.url) for link in found]


def test_hubs_by_link_fields_before_the_head_and_never_in_the_body():
    """WebSub (W3C Recommendation 2018), 4."""
    field = [("Link", '<https://hub.example/>; rel="hub", </feed>; rel=self')]
    head = "<link rel='HUB' href='/hub'><link rel=self href=/>"
    in_body = f"<body><p>x</p>{head}"
    own = [("hub", "http://site.example/hub"), ("self", "http://site.example/")]
    given = [("hub", "https://hub.example/"), ("self", "http://site.example/feed")]
    assert hubs(head) == own and hubs(in_body) == []
    assert hubs(head, field) == given
    assert hubs(head, [("link", "</h>; rel=hub")]) == [("hub", "http://site.example/h"), *own]
    assert hubs("", [("Link", "</h>; rel='hub self'")]) == []  # no quotes of RFC 9110
    assert hubs("", [("Link", '</h>; rel="hub self"; anchor="/other"')]) == []
