from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from functools import lru_cache

import pytest
from crawlkit.model import Answer, Capture
from crawlkit.outcomes import Reason
from crawlkit.rules.http.content_types import kind_of, media_type, sole_type
from crawlkit.rules.page.encoding import header_charset
from crawlkit.rules.page.language import detect_language
from crawlkit.rules.page.metadata import language_tag
from crawlkit.rules.page.other_formats import plain_text
from crawlkit.rules.page.page import parse_page
from crawlkit.rules.page.structured_data import json_ld
from crawlkit.slot.recorder import describe
from hypothesis import given, strategies as st

from tests.cputime import within
from tests.examples import examples
from tests.shared_data import shared

URL = "http://site.example/a/b"

ARTICLE = """<!doctype html><html lang="en-GB"><head><meta charset=utf-8><title>The title</title>
<meta name=description content=" What it
 says "><meta name=author content="A. Author"><meta property="og:title" content="OG"><meta \
property="article:published_time" content="2024-05-01T10:00:00Z">
<link rel=canonical href="/a/b"><script type="application/ld+json">{"@type": "Article", "author": \
{"name": "Someone"}, "datePublished": "2024-05-02"}</script>
</head><body><nav><a href="/">Home</a> <a href="/x" rel=nofollow>X</a></nav>
<article itemscope itemtype="http://schema.org/Article"><h1 itemprop=headline>The title</h1>
<p itemprop=articleBody>The first paragraph is long enough to be counted as running text, and it \
has a <a href="/more">link</a> in it.</p>
<p>The second paragraph is also long enough to be counted as running text; it follows the first \
one.</p></article>
<div class="sidebar"><p>A notice at the side that is long enough, too, but no part of the text at \
all.</p></div>
<footer><p>All rights reserved by the people of this imaginary site, who have written \
nothing.</p></footer></body></html>"""


@pytest.mark.waits
def test_an_article():
    page = parse_page(ARTICLE.encode(), URL, "text/html")
    meta = page.metadata
    assert (page.kind, page.encoding) == ("html", ("utf-8", "meta"))
    assert (page.title, meta.description, meta.author, meta.published) == (
        "The title",
        "What it says",
        "A. Author",
        "2024-05-01T10:00:00Z",
    )
    assert (meta.declared_language, page.language, meta.og) == ("en-GB", "en", {"og:title": "OG"})
    assert page.main_text.split("\n") == [
        (
            "The first paragraph is long enough to be counted as running text, and it has a link"
            " in it."
        ),
        (
            "The second paragraph is also long enough to be counted as running text; it follows the"
            " first one."
        ),
    ]
    assert "All rights reserved" in page.text and page.text.startswith("Home X\nThe title\n")
    assert [link.url for link in page.outlinks] == [
        URL,
        "http://site.example/",
        "http://site.example/more",
    ]
    assert page.structured["microdata"] == [
        {
            "type": ["http://schema.org/Article"],
            "properties": {
                "headline": ["The title"],
                "articleBody": [page.main_text.split("\n")[0]],
            },
        }
    ]
    assert page.structured["json_ld"][0]["@type"] == "Article"
    assert page.prints.simhash is not None and page.flags == ()


def test_a_nofollow_page_gives_the_frontier_nothing():
    page = parse_page(
        ARTICLE.encode(), URL, "text/html", [("X-Robots-Tag", "crawlkit: nofollow")], "crawlkit"
    )
    assert page.outlinks == [] and {link.refused for link in page.links.links} == {Reason.NOFOLLOW}
    assert parse_page(
        ARTICLE.encode(), URL, "text/html", [("X-Robots-Tag", "otherbot: nofollow")]
    ).outlinks


def test_hashes_tell_what_changed():
    page = parse_page(ARTICLE.encode(), URL, "text/html")
    script = parse_page(
        ARTICLE.replace("</head>", "<script>var t = 1</script></head>").encode(), URL, "text/html"
    )
    assert script.body_sha256 != page.body_sha256 and script.clean_sha256 == page.clean_sha256
    moved = parse_page(ARTICLE.replace('"/more"', '"/other"').encode(), URL, "text/html")
    assert (
        moved.clean_sha256 != page.clean_sha256
        and moved.prints.text_sha256 == page.prints.text_sha256
    )
    text = parse_page(
        ARTICLE.replace("first paragraph", "FIRST  paragraph").encode(), URL, "text/html"
    )
    assert text.prints.text_sha256 == page.prints.text_sha256
    other = parse_page(
        ARTICLE.replace("first paragraph", "1st paragraph").encode(), URL, "text/html"
    )
    assert other.prints.text_sha256 != page.prints.text_sha256


def test_no_text():
    page = parse_page(b"", URL, "text/html")
    assert (page.text, page.main_text, page.prints, page.links.links, page.language) == (
        "",
        "",
        (None, None, None),
        [],
        None,
    )


def test_microdata_and_rdfa():
    html = """<div itemscope itemtype=http://s/P><span itemprop="name n2">N</span><div \
itemprop=address itemscope><meta itemprop=zip content=1><a itemprop=url href=/u>x</a>
    <time itemprop=when datetime=2024>then</time></div></div><span itemprop=stray>no</span>
    <div vocab=http://s/ typeof=Person resource=#me><b property=name>R</b><i property=born \
content=1990>nineties</i></div>"""
    found = parse_page(html.encode(), URL, "text/html").structured
    address = {"type": [], "properties": {"zip": ["1"], "url": ["/u"], "when": ["2024"]}}
    assert found["microdata"] == [
        {"type": ["http://s/P"], "properties": {"name": ["N"], "n2": ["N"], "address": [address]}}
    ]
    assert found["rdfa"] == [
        {"type": ["Person"], "properties": {"name": ["R"], "born": ["1990"]}, "id": "#me"}
    ]


def test_json_ld_is_bounded():
    assert json_ld(
        ['<!-- {"a": "b\tc"} -->', "{", "[" * 100_000, "9" * 10_000, "NaN", "x" * 300_000]
    ) == ([{"a": "b\tc"}, None], 4)


@pytest.mark.parametrize(
    "value,tag",
    [
        ("de-AT", "de-AT"),
        (" en_US, fr", "en-US"),
        ("english language", None),
        ("x" * 100, None),
        ("", None),
        (None, None),
        ("e", None),
    ],
)
def test_language_tags(value, tag):
    assert language_tag(value) == tag


def test_properties_are_lists():
    meta = parse_page(
        b"<meta property='og:title twitter:title' content=t><meta itemprop='name\nauthor'"
        b" content=a>",
        URL,
        "text/html",
    ).metadata
    assert (meta.og, meta.other, meta.author) == ({"og:title": "t"}, {"twitter:title": "t"}, "a")


@pytest.mark.parametrize(
    "pragmas,field,declared",
    [
        (["de"], "fr", "de"),
        (["de,en"], "fr", "fr"),
        (["", "de x", "fr"], None, "fr"),
        (["de x"], None, "de"),
        ([], "it, de", None),
        (["de,en"], None, None),
    ],
)
def test_languages_of_pragma_and_field(pragmas, field, declared):
    """HTML Standard 4.2.5.3, 3.2.6.2: the last pragma that names one language; a field that names
    several tells none.
    """
    markup = "".join(f"<meta http-equiv=Content-Language content='{p}'>" for p in pragmas)
    assert (
        parse_page(
            markup.encode(), URL, "text/html", [("Content-Language", field)] if field else []
        ).metadata.declared_language
        == declared
    )


def test_detected_language():
    assert (
        detect_language("Das ist ein deutscher Satz, der lang genug ist, um erkannt zu werden.")
        == "de"
    )
    assert (
        detect_language("Ceci est une phrase en français, assez longue pour être reconnue.") == "fr"
    )
    assert detect_language("12345 67890 !!! " * 10) is None


@pytest.mark.parametrize(
    "body,content_type,kind",
    [
        (b"x", "TEXT/HTML; charset=x", "html"),
        (b"<html>", "text/plain", "text"),  # MIME Sniffing 7: text/plain never becomes HTML
        (b"  <!DOCTYPE html>", None, "html"),
        (b"  <!DOCTYPE html>", "application/octet-stream", "html"),
        (b"%PDF-1.7", "", "pdf"),
        (b"\x00\x01", None, "other"),
        (b"words", None, "text"),
        (b'<?xml version="1.0"?><rss>', "application/rss+xml", "xml"),
        (
            (
                b'<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0//EN"><html'
                b' xmlns="x">'
            ),
            "text/xml",
            "html",
        ),
        (b"{}", "application/ld+json", "json"),
        (b"GIF89a", "image/gif", "image"),
        (b"PK", "application/zip", "other"),
    ],
)
def test_kinds(body, content_type, kind):
    assert kind_of(body, content_type) == kind


def test_media_types():
    assert media_type(" Text/HTML ;charset=x") == "text/html"
    assert media_type("nonsense") == media_type(None) == ""


@pytest.mark.parametrize(
    "content_type, counts",
    [
        # web-platform-tests fetch/content-type
        ("text/plain, text/html", "text/html"),
        ("text/html, */*", "text/html"),
        ("text/html, nonsense", "text/html"),
        ("text/html;charset=gbk, text/html", 'text/html;charset="gbk"'),
        ("text/html;charset=gbk, text/plain, text/html", "text/html"),
        ("text/html;charset=gbk, text/html;charset=utf-8", "text/html;charset=utf-8"),
        ('text/html;x=",text/plain"', 'text/html;x=",text/plain"'),
        ('text/html;x=",text/plain', 'text/html;x=",text/plain'),
        ("nonsense, */*", "nonsense, */*"),
        (",,", ",,"),
    ],
)
def test_of_several_types_the_last_valid_one_counts(content_type, counts):
    assert sole_type(content_type).replace(" ", "") == counts.replace(" ", "")
    assert kind_of(b"<p>x", content_type) == kind_of(b"<p>x", counts)


def test_a_second_content_type_line_counts():
    capture = Capture(
        "r1-0-1-0",
        "r1",
        b"k" * 16,
        "http://site.example/",
        "page",
        "site.example",
        0,
        1,
        0,
        "fetched",
    )
    describe(
        capture,
        Answer(
            "http://site.example/",
            200,
            headers=[
                ("Content-Type", "text/plain"),
                ("X", "y"),
                ("content-type", "text/html; charset=windows-1251"),
            ],
        ),
    )
    assert (
        kind_of(b"x", capture.content_type) == "html"
        and header_charset(capture.content_type) == "windows-1251"
    )


def docx(document: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        member = zipfile.ZipInfo("word/document.xml")  # of no hour: cases are named by the bytes
        member.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(member, document)
    return out.getvalue()


PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count"
    b" 1>>endobj 3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0"
    b" R/Resources<</Font<</F 5 0 R>>>>>>endobj 4 0 obj<</Length 41>>stream\nBT /F 12 Tf 20 100 Td"
    b" (Hello crawler) Tj ET\nendstream endobj 5 0"
    b" obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj trailer<</Root 1 0 R>>"
)


@pytest.mark.parametrize(
    "body,content_type,text",
    [
        ("a é\nb".encode("latin-1"), "text/plain; charset=latin1", "a é\nb"),
        (b'{"a": ["x", {"b": "y"}], "c": 1}', "application/json", "x\ny"),
        (b"{broken", "application/json", "{broken"),
        (
            b"<rss><title>T &amp; U</title><!-- no --><d><![CDATA[<b>&amp;</b>]]></d></rss>",
            "application/rss+xml",
            "T & U <b>&amp;</b>",
        ),
        (
            docx(b"<w:p><w:t>One</w:t><w:t> line</w:t></w:p><w:p><w:t>Two &lt;</w:t></w:p>"),
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            "One line\nTwo <",
        ),
        (PDF, "application/pdf", "Hello crawler"),
    ],
)
def test_other_types(body, content_type, text):
    if "pdf" in content_type:
        pytest.importorskip("pypdfium2")
    page = parse_page(body, URL, content_type)
    assert page.text == text == page.main_text


WORD = b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"
ATTACKS = {
    "entities": b'<!DOCTYPE d [<!ENTITY a "a"><!ENTITY b "&a;&a;">]><w:p>&b;<w:t>x</w:t></w:p>',
    "a file": b'<!DOCTYPE d [<!ENTITY f SYSTEM "file:///etc/hostname">]><w:p>&f;<w:t>x</w:t></w:p>',
    "deep": b"<w:t>x</w:t>" + b"<w:r>" * 1_000_000,
    "no end of a tag": b"<w:t>x</w:t>" + b"<w:p a='" * 1_000_000,
    "names without end": b"<w:t>x</w:t>" + b"&a;" * 1_000_000,
    "breaks": b"<w:p/>" * 1_000_000 + b"<w:t>x</w:t>",
}


@pytest.mark.waits
@pytest.mark.parametrize("name", ATTACKS)
def test_a_word_document_opens_and_expands_nothing(name):
    body = docx(b'<?xml version="1.0" encoding="UTF-8"?>' + ATTACKS[name])
    found = within(1, lambda: plain_text(body, "docx"))
    assert found and found.text == ("" if b"<!DOCTYPE" in ATTACKS[name] else "x")


def test_a_word_document_as_word_writes_it():
    body = docx(
        b'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\r\n<w:document xmlns:w="'
        + WORD
        + b'"><w:body><w:p><w:r><w:t>One</w:t><w:tab/><w:t xml:space="preserve"> two &#233;</w:t>'
        b"</w:r></w:p><w:p><w:t>\xc3\xa9</w:t><w:br/><w:t>cut"
    )
    found = plain_text(body, "docx")
    assert found and found.text == "One\ntwo é\né\ncut"


def test_damaged_documents_have_an_error():
    for kind in ("pdf", "docx"):
        found = plain_text(b"%PDF-1.4 nothing", kind)
        assert found and found.text == "" and found.error
    page = parse_page(
        b"PK",
        URL,
        "application/zip",
        [("Link", "</c>; rel=canonical"), ("X-Robots-Tag", "noindex")],
    )
    assert (page.kind, page.error, page.links.canonical, page.robots.noindex) == (
        "other",
        Reason.CONTENT_TYPE_NOT_PARSED,
        "http://site.example/c",
        True,
    )


BODIES = st.one_of(
    st.binary(max_size=400),
    st.lists(
        st.sampled_from(
            [
                *b"<a href=x> <base href=y> <meta name=robots content=none> <title> </title> <p>"
                b' \xff \xe9 \0 &#0; <div hidden> itemscope= <script type=ld+json> { [ "'
                b" </script>".split(b" "),
                b" ",
            ]
        ),
        max_size=40,
    ).map(b"".join),
)


@given(
    BODIES,
    st.sampled_from(
        [
            None,
            "text/html",
            "text/html; charset=big5",
            "text/plain",
            "application/json",
            "text/xml",
            "application/xhtml+xml",
        ]
    ),
)
def test_never_raises(body, content_type):
    page = parse_page(
        body,
        URL,
        content_type,
        [
            ("Link", body.decode("latin-1")),
            ("X-Robots-Tag", body.decode("latin-1")),
            ("Refresh", body.decode("latin-1")),
        ],
    )
    assert page.url == URL


@lru_cache
def real_pages() -> list[bytes]:
    with tarfile.open(shared("suites/articles/articles_half.tar.gz")) as tar:
        return [
            gzip.decompress(tar.extractfile(m).read()) for m in tar if m.name.endswith(".html.gz")
        ][:40]


@pytest.mark.slow
@examples(1000)
@given(st.binary(max_size=3000), st.integers(0, 39), st.floats(0, 1))
def test_damaged_real_pages(noise, number, where):
    body = bytearray(real_pages()[number])
    at = int(len(body) * where)
    body[at : at + len(noise)] = noise
    parse_page(bytes(body), URL, "text/html")
