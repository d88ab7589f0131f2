"""rules.sitemaps and rules.xmlscan: the protocol, other people's files, and files that attack."""

from __future__ import annotations

import gzip
import tarfile
from dataclasses import replace

import pytest
from crawlkit.rules.feeds import gzip_text as packed
from crawlkit.rules.feeds.sitemaps import Sitemap, parse
from crawlkit.rules.url.canonical import canonicalize
from hypothesis import given, strategies as st

from tests.examples import examples
from tests.shared_data import shared, shared_rows

U = "http://site.example/sitemap.xml"


def urls(found: Sitemap) -> list[str]:
    return [entry.url.removeprefix("http://site.example") for entry in found.entries]


def sitemap(*entries: str, **options) -> Sitemap:
    return parse(
        ("<urlset>" + "".join(f"<url>{entry}</url>" for entry in entries) + "</urlset>").encode(),
        U,
        **options,
    )


def commons() -> dict[str, bytes]:
    with tarfile.open(shared("suites/crawler_commons/resources.tar.gz")) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}


def test_crawler_commons_counts():
    files = commons()
    rows = shared_rows("suites/crawler_commons/sitemap_counts.jsonl")
    assert len(rows) == 20
    for row in rows:
        body = next(body for name, body in files.items() if name.endswith(row["file"]))
        found = parse(body, canonicalize(row["first"]))
        got = {
            "kind": found.kind,
            "urls": len(found.entries) + len(found.refused),
            "sitemaps": len(found.sitemaps),
            "first": found.entries[0].url if found.entries else next(iter(found.sitemaps)),
            "with_lastmod": sum(entry.lastmod is not None for entry in found.entries),
            "images": sum(len(entry.images) for entry in found.entries),
            "videos": sum(entry.videos for entry in found.entries),
            "news": sum(entry.news for entry in found.entries),
            "alternates": sum(len(entry.alternates) for entry in found.entries),
        }
        want = {
            key: canonicalize(value) if key == "first" else value
            for key, value in row.items()
            if key in got
        }
        assert {key: got[key] for key in want} == want, row["file"]
        assert not found.partial


@pytest.mark.parametrize(
    "entry, want",
    [
        ("<loc>http://site.example/?a=1&amp;b=2</loc>", ["/?a=1&b=2"]),
        ("<loc>http://site.example/?a=1&copy=2</loc>", ["/?a=1&copy=2"]),  # no ";": no reference
        ("<loc>http://site.example/&#233;&#xE9;&eacute;</loc>", ["/%C3%A9%C3%A9%C3%A9"]),
        ("<loc><![CDATA[http://site.example/a?x=1&y=2]]></loc>", ["/a?x=1&y=2"]),
        ("<loc>http://site.example/<!-- x -->a</loc>", ["/a"]),
        ("<loc>/a</loc>", ["/a"]),
        ("<loc>a</loc>", []),
        ("<loc>ftp://site.example/</loc>", []),
        ("<loc>\u00a0http://site.example/a\n</loc>", ["/a"]),
        ("<LOC>http://site.example/a</LOC>", ["/a"]),
        ("<loc >http://site.example/a</loc>", ["/a"]),
        ('<loc x=">">http://site.example/a</loc>', ["/a"]),
        ("<x:loc>http://site.example/a</x:loc>", ["/a"]),
        ("<loc>http://site.example/a", ["/a"]),
        ("<location>http://site.example/a</location>", []),
        ("<!-- <loc>http://site.example/a</loc> --><loc>http://site.example/b</loc>", ["/b"]),
        (
            "<loc>http://site.example/a</loc><video:video><video:content_loc>"
            "http://site.example/v</video:content_loc></video:video>",
            ["/a"],
        ),
        (
            "<image:image><image:loc>http://site.example/i.png</image:loc></image:image>"
            "<loc>http://site.example/a</loc>",
            ["/a"],
        ),
    ],
)
def test_entries(entry, want):
    found = sitemap(entry)
    assert urls(found) == want
    assert found.bad_entries == (0 if want else 1)


@pytest.mark.parametrize(
    "text, want",
    [
        ("2024", 1704067200),
        ("2024-03", 1709251200),
        ("2024-03-01", 1709251200),
        ("2024-03-01T10:00Z", 1709287200),
        ("2024-03-01T10:00:00", 1709287200),
        ("2024-03-01 10:00:00", 1709287200),
        ("2024-03-01t10:00:00.5z", 1709287200.5),
        ("2024-03-01T10:00:00+0200", 1709280000),
        ("2024-03-01T10:00:00-05:30", 1709307000),
        ("2024-02-30", None),
        ("2024-03-01T25:00Z", None),
        ("2024-03-01T10:00:00+99:00", None),
        ("0000-01-01", None),
        ("20240301", None),
        ("\u0662\u0660\u0662\u0664", None),
        ("9" * 5000, None),
    ],
)
def test_lastmod(text, want):
    assert sitemap(f"<loc>/a</loc><lastmod> {text}\n</lastmod>").entries[0].lastmod == want


@pytest.mark.parametrize(
    "text, want", [("0.8", 0.8), ("", 0.5), ("-1", 0.0), ("1e9", 1.0), ("inf", 0.5), ("0,8", 0.5)]
)
def test_priority(text, want):
    assert sitemap(f"<loc>/a</loc><priority>{text}</priority>").entries[0].priority == want


@pytest.mark.parametrize(
    "body, kind",
    [
        (b"", "none"),
        (b"  \r\n", "none"),
        (b"<", "none"),
        (b"</urlset>", "none"),
        (b"<!DOCTYPE html><html><urlset><url><loc>/a</loc></url></urlset>", "none"),
        (b'{"error": "http://site.example/a"}', "none"),
        (b"\x00\x01\x02" * 100, "none"),
        (b"<urlset/>", "urlset"),
        (b"\xef\xbb\xbf  <?xml version='1.0'?><!-- x --><!DOCTYPE urlset><urlset>", "urlset"),
        ("<urlset><url><loc>http://site.example/a</loc></url></urlset>".encode("utf-16"), "urlset"),
        (b"http://site.example/a", "text"),
        (b"# head\nHTTP://site.example/a\n", "text"),
        (b"no url\n" * 200 + b"http://site.example/a\n", "none"),
        (b"<sitemapindex/>", "index"),
        (b"<rdf:RDF><item><link>/a</link></item></rdf:RDF>", "rss"),
    ],
)
def test_kinds(body, kind):
    assert parse(body, U).kind == kind


def test_encodings():
    text = "<urlset><url><loc>http://site.example/é</loc></url></urlset>"
    for body, charset, want in [
        (text.encode(), None, "/%C3%A9"),
        (text.encode("latin-1"), "iso-8859-1", "/%C3%A9"),
        (
            b'<?xml version="1.0" encoding="windows-1252"?>' + text.encode("latin-1"),
            None,
            "/%C3%A9",
        ),
        (text.encode("utf-16-le"), "utf-16le", "/%C3%A9"),
        (text.encode("latin-1"), None, "/%EF%BF%BD"),
        (text.encode(), "no-such-charset", "/%C3%A9"),
        (b'<?xml version="1.0" encoding="utf-16"?>' + text.encode(), None, "/%C3%A9"),
    ]:
        assert urls(parse(body, U, charset=charset)) == [want]


def test_whose_pages_it_may_name():
    locs = [
        "http://site.example/cat/a",
        "http://site.example/b",
        "https://site.example/cat/a",
        "http://www.site.example/cat/a",
        "http://other.example/a",
    ]
    entries = [f"<loc>{loc}</loc>" for loc in locs]
    body = ("<urlset>" + "".join(f"<url>{entry}</url>" for entry in entries) + "</urlset>").encode()
    here = "http://site.example/cat/map.xml?x=/y/"
    assert [entry.url for entry in parse(body, here).entries] == locs[:4]
    assert [entry.url for entry in parse(body, here, strict_location=True).entries] == locs[:1]
    assert parse(body, here, strict_location=True).refused == locs[1:]
    assert (
        parse(body, here, strict_location=True, vouched=frozenset({"http://other.example"}))
        .entries[1]
        .url
        == locs[4]
    )


def test_index():
    found = parse(
        b"<sitemapindex><sitemap><loc>/1.xml</loc><lastmod>2024</lastmod></sitemap><sitemap>"
        b"/2.xml</sitemap><sitemap/><sitemap><loc>http://other.example/</loc></sitemap><url>"
        b"<loc>/a</loc></url></sitemapindex>",
        U,
    )
    assert found.sitemaps == {
        "http://site.example/1.xml": 1704067200.0,
        "http://site.example/2.xml": None,
    }
    assert (found.entries, found.refused, found.bad_entries) == ([], ["http://other.example/"], 1)
    assert parse(b"<urlset><url/><url></url><url><loc>/a</loc></url></urlset>", U).bad_entries == 2


def test_limit_of_entries():
    found = sitemap(*(f"<loc>/{n}</loc>" for n in range(6)), max_entries=5)
    assert urls(found) == ["/0", "/1", "/2", "/3", "/4"] and found.partial
    assert (
        sitemap("<loc>/1</loc>", "<loc>/1</loc>", max_entries=1).partial is False
    )  # named twice, one entry


GOOD = (
    b"<urlset>"
    + b"".join(b"<url><loc>http://site.example/%d</loc></url>" % n for n in range(3000))
    + b"</urlset>"
)


@pytest.mark.waits
def test_gzip():
    packed = gzip.compress(GOOD, mtime=0)
    half = len(GOOD) // 2
    members = gzip.compress(GOOD[:half], mtime=0) + gzip.compress(GOOD[half:], mtime=0)
    for body in (packed, gzip.compress(packed), members, packed + b"\0" * 1000):
        found = parse(body, U)
        assert (len(found.entries), found.partial) == (3000, False)
    assert not parse(packed[:-4], U).partial  # nothing but the check sum is missing
    for body in (packed[: len(packed) // 2], packed[:2000] + b"\xff" * 100):
        found = parse(body, U)
        assert found.partial and 0 < len(found.entries) <= 3000
    assert parse(gzip.compress(gzip.compress(packed)), U).kind == "none"
    assert parse(b"\x1f\x8b", U).kind == "none"


def test_cut_anywhere_keeps_the_finished_entries():
    body = (
        b"<urlset><url><loc>http://site.example/a</loc></url><url><loc>"
        b"http://site.example/bcd</loc></url></urlset>"
    )
    for size in range(len(body)):
        found = parse(body[:size], U)
        assert set(urls(found)) <= {"/a", "/bcd"}  # never /b or /bc
        assert found.partial == (size >= len("<urlset>"))


@pytest.mark.parametrize("chunk", [1, 2, 7, 64])
def test_pieces_do_not_matter(chunk, monkeypatch):
    bodies = [
        body
        for name, body in commons().items()
        if ("sitemaps/" in name or "rss/" in name) and len(body) <= 20_000
    ]
    whole = [replace(parse(body, U), decoded_bytes=0) for body in bodies]
    monkeypatch.setattr(packed, "_CHUNK", chunk)
    assert [replace(parse(body, U), decoded_bytes=0) for body in bodies] == whole


PIECES = [
    "<urlset>",
    "</urlset>",
    "<url>",
    "</url>",
    "<loc>",
    "</loc>",
    "<lastmod>",
    "<image:image>",
    "<rss>",
    "<item>",
    "<feed>",
    "<entry>",
    '<link href="',
    '"/>',
    "http://site.example/a",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<?",
    "?>",
    "<!DOCTYPE x [",
    "]>",
    "&amp;",
    "&",
    "<",
    ">",
    '"',
    "'",
    "\n",
    "é",
    "\x00",
    "<sitemapindex>",
    "<sitemap>",
]


@examples(400)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.lists(st.sampled_from(PIECES), max_size=30).map(lambda p: "".join(p).encode()),
        st.binary(max_size=60).map(lambda b: b"\x1f\x8b\x08\0\0\0\0\0\0\0" + b),
    )
)
def test_never_raises(body):
    found = parse(body, U)
    assert found.kind in ("urlset", "index", "text", "rss", "atom", "none")
    assert all(canonicalize(entry.url) == entry.url for entry in found.entries)


@pytest.mark.parametrize(
    "inner, found",
    [
        ("<url><loc>{a}</loc><loc>{b}</loc></url>", "ab"),
        ("<url><loc><url>{a}</url></loc></url><url><loc>{b}</loc></url>", "ab"),
        ("<url>{a}</url><url>\n {b} </url>", "ab"),
        ("<url><loc>\u200b{a}\ufeff</loc></url><url><loc>\u00a0{b}\u2060</loc></url>", "ab"),
        ("<url><loc>{a}</loc><image><loc>{b}</loc></image></url>", "a"),
    ],
)
def test_addresses_that_are_written_in_odd_ways(inner, found):
    site = "http://site.example/"
    text = f"<urlset>{inner.format(a=site + 'a', b=site + 'b')}</urlset>"
    got = parse(text.encode(), f"{site}sitemap.xml")
    assert [e.url for e in got.entries] == [site + name for name in found]


def test_a_mobile_alternate_needs_no_language():
    link = "<xhtml:link rel='alternate' media='(max-width: 640px)' href='http://m.site.example/'/>"
    text = f"<urlset><url><loc>http://site.example/</loc>{link}</url></urlset>"
    (entry,) = parse(text.encode(), "http://site.example/sitemap.xml").entries
    assert entry.alternates == [("", "http://m.site.example/")]
