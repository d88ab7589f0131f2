"""rules.feeds and rules.dates: RSS 2.0, RDF, RFC 4287, RFC 822."""

from __future__ import annotations

import gzip
import json

import pytest
from crawlkit.rules.feeds.collect import MAX_HUBS
from crawlkit.rules.feeds.sitemaps import parse
from crawlkit.rules.feeds.timestamps import feed_date, rfc822_date
from hypothesis import given, strategies as st

U = "http://site.example/news/feed.xml"


def rss(inner: str, head: str = "") -> tuple[list[str], int]:
    found = parse(
        f"<rss><channel><link>http://site.example/</link>{head}{inner}</channel></rss>".encode(), U
    )
    assert found.kind == "rss" and not found.partial
    return [
        entry.url.removeprefix("http://site.example") for entry in found.entries
    ], found.bad_entries


def atom(inner: str, attributes: str = "") -> list[str]:
    found = parse(
        f'<feed {attributes}><link href="http://site.example/"/>{inner}</feed>'.encode(), U
    )
    assert found.kind == "atom" and not found.partial
    return [entry.url.removeprefix("http://site.example") for entry in found.entries]


@pytest.mark.parametrize(
    "item, want",
    [
        ("<link>/a</link>", ["/a"]),
        ("<link>a</link>", ["/news/a"]),
        ("<guid>http://site.example/g</guid>", ["/g"]),  # isPermaLink is true by default
        ('<guid isPermaLink="false">http://site.example/g</guid>', []),
        ('<guid ispermalink="TRUE">http://site.example/g</guid>', ["/g"]),
        ("<guid>12345</guid>", []),
        ('<atom:link rel="self" href="/s"/><link>/a</link>', ["/a"]),
        ('<atom:link href="/s"/>', ["/s"]),
        ('<source url="http://other.example/">x</source><link>/a</link>', ["/a"]),
        ('<media:content url="/m"/><enclosure url="/e"/><link>/a</link>', ["/a"]),
        ("<description><![CDATA[<link>/x</link>]]></description><link>/a</link>", ["/a"]),
        (
            "<description><p><source srcset=x><link>/x</link></description><link>/a</link>",
            ["/a"],
        ),  # markup that is not escaped
        ("<content:encoded><link>/x</link></content:encoded><link>/a</link>", ["/a"]),
        ("<link>javascript:x</link>", []),
        ("", []),
    ],
)
def test_rss_item(item, want):
    assert rss(f"<item>{item}</item>") == (want, 0 if want else 1)


def test_rdf():
    found = parse(
        b'<rdf:RDF><channel rdf:about="/c"><link>/</link></channel><item'
        b' rdf:about="http://site.example/i"><dc:date>2024-03-01</dc:date></item></rdf:RDF>',
        U,
    )
    assert [(entry.url, entry.lastmod) for entry in found.entries] == [
        ("http://site.example/i", 1709251200.0)
    ]


@pytest.mark.parametrize(
    "entry, want",
    [
        ('<link href="/a"/>', ["/a"]),
        (
            '<link rel="enclosure" href="/e"/><link rel="ALTERNATE" href="/a"/><link href="/b"/>',
            ["/a"],
        ),
        ('<source><link href="/s"/><updated>2000</updated></source><link href="/a"/>', ["/a"]),
        (
            '<content type="xhtml"><div><link href="/x"/></div></content><link href="/a"/>',
            ["/a"],
        ),  # only an entry's own link (RFC 4287 4.1.2)
        (
            (
                '<summary type="xhtml"><details><summary>s</summary><link'
                ' href="/x"/></details></summary><link href="/a"/>'
            ),
            ["/a"],
        ),
        (
            (
                '<summary type="xhtml"><source><link href="/x"/></source><link'
                ' href="/y"/></summary><content src="/z"/><link href="/a"/>'
            ),
            ["/a"],
        ),
        ("<link rel='alternate' href='/x?a=1&amp;b=2'></link>", ["/x?a=1&b=2"]),
        ('<link rel="self" href="/s"/>', []),
        (
            '<link rel="http://www.iana.org/assignments/relation/alternate" href="/a"/>',
            ["/a"],
        ),  # RFC 4287 4.2.7.2
        ('<content type="xhtml"><div><a href="/x">x</a></div></content><link href="/a"/>', ["/a"]),
    ],
)
def test_atom_entry(entry, want):
    assert atom(f"<entry>{entry}</entry>") == want


def test_empty_entries_are_counted():
    assert rss('<item/><item rdf:about="/a"/><item href="/b"/>') == (["/a", "/b"], 1)
    found = parse(b'<feed><entry/><entry><link href="/a"/></entry></feed>', U)
    assert (len(found.entries), found.bad_entries) == (1, 1)


@pytest.mark.parametrize("root", ["rss", "feed", "urlset", "sitemapindex"])
def test_an_empty_root_is_whole(root):
    assert not parse(f"<{root}/>".encode(), U).partial


def test_xml_base_is_nested():
    inner = (
        '<entry xml:base="/b/"><link xml:base="c/" href="d"/></entry><entry><link'
        ' href="e"/></entry>'
    )
    assert atom(inner, 'xml:base="http://site.example/x/"') == ["/b/c/d", "/x/e"]
    assert rss('<item xml:base="/b/"><link>d</link></item>') == (["/b/d"], 0)
    assert atom(inner, 'xml:base="mailto:x"') == ["/b/c/d", "/news/e"]  # a base that is none


def test_dates_of_entries():
    found = parse(
        b"<feed><entry><link"
        b' href="/a"/><published>2024-01-01</published><updated>2024-03-01</updated></entry>'
        b"<entry><link"
        b' href="/b"/><issued>junk</issued></entry></feed>',
        U,
    )
    assert [entry.lastmod for entry in found.entries] == [1709251200.0, None]


def test_a_cut_feed_keeps_what_is_clear():
    found = parse(b"<rss><channel><item><link>/a</link></item><item><link>/b</link><title>x", U)
    assert found.partial and [entry.url[-2:] for entry in found.entries] == ["/a", "/b"]
    found = parse(b'<feed><entry><link href="/a"/></entry><entry><link href="/b', U)
    assert found.partial and [entry.url[-2:] for entry in found.entries] == ["/a"]


@pytest.mark.parametrize(
    "text, want",
    [
        ("Fri, 01 Mar 2024 10:00:00 GMT", 1709287200),
        ("Fri, 01 Mar 2024 10:00:00 +0200", 1709280000),
        ("1 Mar 2024 10:00 EST", 1709305200),
        ("Fri, 01 Mar 24 10:00:00 GMT", 1709287200),
        ("Fri, 01 Mar 2024", 1709251200),
        ("Fri, 31 Feb 2024 10:00:00 GMT", None),
        ("yesterday", None),
        ("", None),
        ("1" * 60, None),
        ("x" * 10_000, None),
    ],
)
def test_rfc822(text, want):
    assert rfc822_date(text) == want


@given(st.one_of(st.text(max_size=70), st.text("0123456789 -:+TZJanFri,", max_size=64)))
def test_any_text_is_a_date_or_none(text):
    assert isinstance(feed_date(text), float | None)


FEED_URL = "https://feeds.example/blog.json"
JSON_FEED = """{
  "version": "https://jsonfeed.org/version/1.1", "title": "A blog", "feed_url": "x",
  "items": [
    {"id": "1", "url": "https://blog.example/a", "date_published": "2026-01-02T03:04:05Z"},
    {"id": "https://partner.example/b", "date_modified": "2026-01-03"},
    {"id": "2", "url": "/c", "date_published": 7},
    {"id": "not an address"}, "no item", {"id": 3, "url": null}
  ]}"""


@pytest.mark.parametrize("wrap", [str.encode, lambda t: gzip.compress(t.encode())])
def test_items_of_a_json_feed(wrap):
    found = parse(wrap(JSON_FEED), FEED_URL)
    assert (found.kind, found.refused, found.partial) == ("json", [], False)
    assert [(e.url, e.lastmod) for e in found.entries] == [
        ("https://blog.example/a", 1767323045.0),
        ("https://partner.example/b", 1767398400.0),
        ("https://feeds.example/c", None),
    ]
    assert found.bad_entries == 3


@pytest.mark.parametrize(
    "text",
    ["{", "{}", "[]", '{"version": 1, "items": []}', '{"version": "1.1", "items": []}', "{" * 9999],
)
def test_other_json_is_no_feed(text):
    assert parse(text.encode(), FEED_URL).kind == "none"


@pytest.mark.parametrize(
    "text",
    [
        "<rss><channel><item><link>http://blog.example/a</link></item></channel></rss>",
        "<feed><entry><link href='http://blog.example/a'/></entry></feed>",
        "<rdf:RDF><item><link>http://blog.example/a</link></item></rdf:RDF>",
    ],
)
def test_a_feed_may_name_pages_of_any_site(text):
    found = parse(text.encode(), "https://feeds.example/blog")
    assert [e.url for e in found.entries] == ["http://blog.example/a"] and not found.refused


ATOM = "<feed xmlns='http://www.w3.org/2005/Atom'>"
RSS = "<rss version='2.0' xmlns:atom='http://www.w3.org/2005/Atom'><channel>"
LINKS = (
    "<{0}link rel='hub' href='https://hub.example/'/><{0}link rel='self' href='/feed?b=1&amp;a=2'/>"
)
ENTRY = "<entry><id>http://site.example/1</id><link rel='self' href='/1.atom'/>{}</entry>"
NAMED = [("hub", "https://hub.example/"), ("self", "http://site.example/feed?a=2&b=1")]


@pytest.mark.parametrize(
    "text",
    [
        ATOM + LINKS.format("") + ENTRY.format("") + "</feed>",
        ATOM + ENTRY.format("<source><link rel='hub' href='/no'/></source>") + LINKS.format(""),
        RSS + LINKS.format("atom:") + "<item><link>/1</link></item></channel></rss>",
        RSS + "<image><link rel='hub' href='/no'/></image>" + LINKS.format("atom:"),
        json.dumps(
            {
                "version": "https://jsonfeed.org/version/1.1",
                "feed_url": "http://site.example/feed?b=1&a=2",
                "hubs": [
                    {"type": "rssCloud", "url": "http://no.example/"},
                    {"type": "WebSub", "url": "https://hub.example/"},
                    {"type": "WebSub", "url": 5},
                    None,
                ],
                "items": [],
            }
        ),
    ],
)
def test_the_hubs_of_a_feed_are_its_own_links(text):
    found = parse(text.encode(), "http://site.example/feed")
    assert sorted(found.hubs) == NAMED
    assert found.spellings["http://site.example/feed?a=2&b=1"].endswith("/feed?b=1&a=2")


def test_hubs_are_few():
    many = "".join(f"<link rel='hub' href='/{n}'/>" for n in range(1000))
    assert len(parse((ATOM + many + "</feed>").encode(), "http://site.example/").hubs) == MAX_HUBS
