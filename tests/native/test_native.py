"""The parts in C beside their Python twins: the same values for every input."""

from __future__ import annotations

import random
from array import array
from dataclasses import asdict

import pytest
from crawlkit.config import Urls
from crawlkit.outcomes import Refused
from crawlkit.rules.http import head as http1_head
from crawlkit.rules.page import encoding, language
from crawlkit.rules.page import markup as html
from crawlkit.rules.page import nesting_guard as htmlguard
from crawlkit.rules.page.markup import read_addresses, read_html
from crawlkit.rules.url import canonical
from crawlkit.rules.url.policy import UrlPolicy
from hypothesis import example, given
from hypothesis import strategies as st

from tests.rules.page.html5lib_suite import tokenizer_inputs, tree_cases
from tests.rules.test_fuzz import SEED, mutated
from tests.shared_data import shared

_scan = pytest.importorskip(
    "crawlkit.native._scan",
    reason="the parts in C are not built: needs a C compiler and Python's headers",
)
TAGS = (
    "mi mtext math a area p div span svg math foreignObject title desc metadata style script"
    " template select option table tr td li b i br hr img input source video iframe frame base meta"
    " link html body main noscript object time textarea button dialog ruby rp semantics annotation"
    " annotation-xml".split()
)
ATTRIBUTES = [
    "hidden",
    "hidden=until-found",
    "style='display:none'",
    "style='x;display: none'",
    "style='DISPLAY :none;x:y'",
    "style='displa&#121;:block'",
    "style='a:url(b\"s);display:inline'",
    "style='display:bloc\u212a'",
    "hidden=Until-Found",
    "popover",
    "open",
    "open=''",
    "href=/x",
    "HREF='a b'",
    "xlink:href=y",
    "class='c d'",
    "id=é",
    "alt='a  b'",
    "alt",
    "rel=nofollow",
    "rel='x CANONICAL'",
    "rel=icon",
    "type=ld+json",
    "src=s",
    "srcset='a 1x'",
    "type=image",
    "type=images",
    "type='application/LD+json'",
    "http-equiv=refresh",
    "name=robots",
    "lang=de",
    "xml:lang=fr",
    "data-x=1",
    "datetime=2024",
    "width=3",
]
MARKUP = st.lists(
    st.one_of(
        st.builds(
            lambda tag, attributes: f"<{tag} {' '.join(attributes)}>",
            st.sampled_from(TAGS),
            st.lists(st.sampled_from(ATTRIBUTES), max_size=3),
        ),
        st.sampled_from(TAGS).map(lambda tag: f"</{tag}>"),
        st.text(st.sampled_from("ab é\u3000\u2003\xa0\x1f\n\t&<💡"), max_size=6),
        st.text(st.sampled_from("abcdefgh   \n\t\x01\x7fé"), min_size=8, max_size=40),
    ),
    max_size=40,
).map("".join)


def said(read, markup):
    doc = read(markup)
    doc.tree = None
    return asdict(doc)


def both(markup: str) -> None:
    native = html._tree
    assert native is not None
    for read in (read_html, read_addresses):
        ours = said(read, markup)
        try:
            html._tree = None
            assert ours == said(read, markup), markup
        finally:
            html._tree = native
    raw = markup.encode("utf-8", "replace")
    few = htmlguard.FEW_TAGS <= raw.count(b"<") < htmlguard.MANY_TAGS
    ours, twin = _scan.tag_measures(raw, 40, 3), htmlguard.tag_measures(raw, 40, 3)
    assert (ours[0], ours[1] if few else 0, *ours[2:]) == twin


@given(MARKUP)
@example("<script type='application/LD+json'>")
def test_the_walk_says_what_its_twin_says(markup):
    both(markup)


@given(
    st.lists(
        st.sampled_from(
            [
                "display",
                "DISPLAY",
                "none",
                "visibility",
                "hidden",
                "visible",
                "flex",
                ":",
                ";",
                "!important",
                "!",
                " ",
                "\n",
                "/*",
                "*/",
                "/",
                "(",
                ")",
                "[",
                "}",
                '"',
                "&#39;",
                "\\",
                "block",
                "-",
                "é",
            ]
        ),
        max_size=14,
    ).map("".join)
)
def test_inline_styles_hide_for_both(style):
    both(
        f"<p style='display:none;{style}'>a<p style='{style}'>b<p"
        f" style='visibility{style}hidden'>c<i style='visibility:visible;{style}'>d"
    )


def test_the_walk_on_the_standards_cases_and_mutated_pages():
    for case in tree_cases(shared("suites/html5lib/tree_construction_half.tar.gz")):
        both(case.data)
    for _, text in tokenizer_inputs(shared("suites/html5lib/tokenizer_half.tar.gz")):
        both(text)
    rng = random.Random(SEED)
    for _ in range(500):
        both(mutated(rng, "html").decode("utf-8", "replace"))


@pytest.mark.parametrize(
    "text",
    [
        b"\x7f\x80b",
        b"a\xe2\x82<!---->\xac",
        b"\xe2\x82\xac\x80",
        b"\xed\xa0\x80",
        b"\xc3",
        b"\xf5\x80\x80\x80 x",
        b"\xc0\x80",
        b"abcdefgh\xffijklmnop",
        b"\xc3\xa9\xc4\x80\xf0\x9f\x92\xa1",
        b"\xc3\xa9",
        b"\xf4\x8f\xbf\xbf\xef\xbf\xbf",
    ],
)
def test_bytes_that_are_no_utf8_are_replaced(text):
    doc = read_html(b"<p><a href=x>" + text + b"</a></p>")
    whole = text.replace(b"<!---->", b"").decode("utf-8", "replace")
    assert (doc.text, doc.anchors[0].text) == (whole, whole)


def test_elements_that_differ_in_nothing_are_told_apart_by_their_parents():
    both(
        "<ul class=a>"
        + "<li>x<li>y" * 40
        + "</ul><ul class=a>"
        + "<li>z" * 3
        + "<div class=b></div><div id=b></div><div class=b></div></ul>"
    )


def test_the_walk_keeps_the_limits_of_its_twin(monkeypatch):
    monkeypatch.setattr(html, "MAX_ANCHORS", 5)
    both("<a href=x>t<area href=y alt=z></a>" * 5)
    both(
        "<a href=x>"
        + "w<b> </b>" * 200
        + "</a>"
        + "<a href=y>"
        + "long words " * 200
        + "<img alt=end></a>"
    )
    both("<div>" * 600 + "<a href=deep>x" + "<p>" * 3 + "y")


def cuts(raw: bytes) -> set[str]:
    scan = htmlguard._Scan(raw)
    scan.run()
    return scan.cut


CALM = st.lists(
    st.sampled_from(
        [
            b"<",
            b"</",
            b">",
            b"<b>",
            b"</b>",
            b"<I ",
            b"</i>",
            b"<em",
            b"<div>",
            b"</div>",
            b"<DIV/>",
            b"<table>",
            b"</table>",
            b"<td>",
            b"<svg>",
            b"</svg>",
            b"<g/>",
            b"<math>",
            b"<p>",
            b"</p>",
            b"</br>",
            b"<!--",
            b"-->",
            b"--!>",
            b"<!-->",
            b"-",
            b"<!x>",
            b"<?y>",
            b"<script>",
            b"</script>",
            b"<title ",
            b"</title>",
            b"<sCript/",
            b"<div/>",
            b"<mi>",
            b"</mi>",
            b"<a>",
            b"</a>",
            b"<option>",
            b"<!--<script>",
            b"<![CDATA[",
            b"]]>",
            b"<select>",
            b"</select>",
            b"<style>",
            b"</style>",
            b"\x0b",
            b"='",
            b'="',
            b"'",
            b'"',
            b"=",
            b"x ",
            b"/",
            b"\n",
        ]
    ),
    max_size=50,
).map(b"".join)


@given(CALM, st.integers(0, 4), st.integers(0, 3), st.integers(1, 12))
def test_what_is_called_calm_is_not_cut(raw, depth, formats, elements):
    limits = {"MAX_DEPTH": depth, "MAX_ELEMENTS": elements, "LONG_TAG": 5, "MAX_ATTRIBUTES": 1}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(htmlguard, name, value)
        patch.setattr(htmlguard, "_max_active", lambda tags: formats)
        if _scan.is_calm(raw, depth, formats, elements, 5, 1, 250_000, 64_000_000, 8_000):
            assert cuts(raw) == set()


def test_ordinary_pages_are_calm():
    page = (
        "<!doctype html><title>t</title><script>if (a<b) c('</div>')</script><div"
        ' class="a>b"><p>x<b>y</b><svg><g/><g/></svg>'
        + "<ul><li>z<i>w</i></ul>" * 15_000
        + "</div>"
    ).encode()
    assert _scan.is_calm(page, 512, 30, 60_000, 800, 200, 250_000, 64_000_000, 8_000) and not cuts(
        page
    )
    assert not _scan.is_calm(b"<div>" * 513, 512, 30, 60_000, 800, 200, 250_000, 64_000_000, 8_000)


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over the lazy dog. " * 3,
        "Der schnelle braune Fuchs springt über den faulen Hund. " * 3,
        "素早い茶色の狐がのろまな犬を飛び越える。" * 4,
        "ШИРОКАЯ ЭЛЕКТРИФИКАЦИЯ ЮЖНЫХ ГУБЕРНИЙ ДАСТ МОЩНЫЙ ТОЛЧОК ПОДЪЁМУ",
        "x" * 60,
        "\x00" * 30 + "abc" * 30,
    ],
)
def test_a_language_is_told_as_the_library_tells_it(text):
    from py3langid import langid

    assert language._classify()(text[:600]) == langid.classify(text[:600])


def test_an_automaton_that_leads_astray_is_refused():
    with pytest.raises(ValueError, match="outside"):
        _scan.visits(array("I", [7] * 256), array("H", [0]), array("i", [0]), b"a")
    with pytest.raises(ValueError, match="one length"):
        _scan.visits(array("I", [0] * 256), array("H", [0, 0]), array("i", [0]), b"a")


@given(
    st.binary(max_size=60) | st.text(max_size=30).map(lambda t: t.encode("utf-8", "surrogatepass"))
)
@example(b"\xed\xa0\x80")
@example(b"\xf4\x90\x80\x80")
@example(b"\xc0\x80")
@example(b"1234567\xc3")
def test_utf8_is_what_python_decodes(raw):
    for page in (raw, b"a" * 50 + raw, raw + b"a" * 70 + raw):
        assert _scan.is_utf8(page) is encoding.is_utf8(page)


@given(
    st.lists(
        st.sampled_from(
            [b"<", b"<ab", b"<aB", b"Abc", b"bC", b"C", b"ab", b"/", b"@", b"\x01\x02"]
        ),
        max_size=8,
    ).map(b"".join)
)
@example(b"<abc")
@example(b"x<ab")
@example(b"<<AbC>")
def test_tags_are_found_alike(raw):
    assert _scan.opens(raw, b"abc") is html.opens(raw, b"abc")


@given(
    st.lists(
        st.sampled_from(
            [
                b"<",
                b">",
                b"<b",
                b"<I ",
                b"<code/",
                b"a",
                b" ",
                b"=",
                b"'",
                b'"',
                b"/",
                b"x=1 ",
                b"y",
                b"<strong>",
                b"<em",
                b"\n",
                b"0" * 50,
            ]
        ),
        max_size=60,
    ).map(b"".join)
)
def test_tags_are_counted_alike(raw):
    assert (_scan.tag_measures(raw, 40, 3)[0], _scan.tag_measures(raw, 40, 3)[2:]) == (
        htmlguard.tag_measures(raw, 40, 3)[0],
        htmlguard.tag_measures(raw, 40, 3)[2:],
    )
    assert _scan.tag_measures(raw, 40, 3)[1] == len(htmlguard._FORMAT_OPEN.findall(raw))


REFERENCES = st.lists(
    st.sampled_from(
        [
            "http://",
            "https://",
            "//",
            "/",
            "a",
            "B.c",
            ".",
            "..",
            "?",
            "&",
            "=",
            "#",
            ":",
            ":80",
            "host.example",
            "WWW.x.org",
            "1.2.3.4",
            "0x7f.1",
            "xn--a",
            "-",
            "%41",
            "%",
            ";jsessionid=1",
            ";",
            " ",
            "\t",
            "\n",
            "é",
            "\\",
            "@",
            "[",
            "|",
            "%2F",
            "%7C",
            "%2e",
            "%E9%2f",
            "javascript:",
            "mailto:",
            "utm_source=1",
            "sid",
            "A=1",
            "b=2",
            "a=",
            "c",
            "'",
            "\x00",
            "~",
        ]
    ),
    max_size=8,
).map("".join)
POLICIES = [
    UrlPolicy.of(Urls()),
    UrlPolicy.of(Urls(remove_tracking=False, remove_session=False)),
    UrlPolicy.of(Urls(host_params={"host.example": ["a"]})),
    UrlPolicy.of(Urls(fold_www=True)),
    UrlPolicy.of(Urls(keep_route_fragments=["host.example"])),
]


@given(
    REFERENCES,
    st.sampled_from(
        ["http://host.example/", "https://host.example:8443/d/e?q=1", "http://[::1]/x/", "data:,x"]
    ),
    st.sampled_from(POLICIES),
)
@example("path #x", "http://host.example/", POLICIES[0])
@example(" a?b c ", "http://host.example/", POLICIES[0])
@example("//Host.example/?a=1&b=2", "http://host.example/", POLICIES[2])
@example("?b=2&a=1", "http://host.example/", POLICIES[0])
@example("/?b=2&&a=1&b=1&utm_source=1&b&", "http://host.example/", POLICIES[0])
@example("/?&&", "http://host.example/", POLICIES[0])
@example("/%2F%2e?a=%7C&a=%2e", "http://host.example/", POLICIES[0])
@example("/?" + "&".join(f"p{70 - n}=1" for n in range(70)), "http://host.example/", POLICIES[0])
@example(" #x", "http://host.example/d?a=1", POLICIES[0])
@example("#x", "http://host.example/d?b=1&a=1", POLICIES[0])
@example("#x", "https://host.example:8443/d/e?q=1", POLICIES[0])
def test_a_resolver_is_canonicalize(reference, base, policy):
    def result(call):
        try:
            return call()
        except Refused as refused:
            return refused.reason

    resolver = canonical.Resolver(base, policy)
    assert result(lambda: resolver.canonicalize(reference)) == result(
        lambda: canonical.canonicalize(reference.strip("\t\n\x0c\r "), base, policy)
    )


DOTS = st.lists(
    st.sampled_from(
        [
            "../",
            "./",
            "..",
            ".",
            "/",
            "a",
            "b.c",
            "...",
            "?q=1",
            "#f",
            ";x",
            ":",
            "%2e",
            "%2E/",
            " ",
            ".a",
            "//",
        ]
    ),
    max_size=7,
).map("".join)


@given(
    DOTS,
    st.sampled_from(
        [
            "http://h.example/",
            "http://h.example/a/b/c",
            "http://h.example/a/b/",
            "http://h.example//",
            "http://h.example/a//b//",
            "http://h.example/a?b/c",
        ]
    ),
)
@example("../../../x", "http://h.example/a/b/c/d")
@example("..", "http://h.example/a/b/c")
@example("..//x", "http://h.example/a/b/c")
def test_dot_segments_are_taken_from_the_base_as_the_parser_takes_them(reference, base):
    resolver = canonical.Resolver(base)
    try:
        expected = canonical.canonicalize(reference.strip(), base)
    except Refused:
        expected = None
    try:
        assert resolver.canonicalize(reference) == expected
    except Refused:
        assert expected is None


def test_a_reference_that_goes_up_needs_no_second_look():
    known = Known("http://host.example/a/b/c", POLICIES[0])
    references = ["../x", "./y", "..", ".", "../../../z?b=1&a=2", "..//x"]
    found = canonical.Resolver(known.base, POLICIES[0]).many([(r,) for r in references], 0, known)
    assert (
        found
        == [
            f"http://host.example{path}"
            for path in ("/a/x", "/a/b/y", "/a/", "/a/b/", "/z?a=2&b=1", "/a//x")
        ]
        and not known.asked
    )


class Known(dict):
    """References -> (URL, None) or (None, the reason), looked up where they are missing; `asked`:
    which were.
    """

    def __init__(self, base, policy):
        self.base, self.policy, self.asked = base, policy, []

    def __missing__(self, reference):
        self.asked.append(reference)
        try:
            self[reference] = (
                canonical.canonicalize(reference.strip("\t\n\x0c\r "), self.base, self.policy),
                None,
            )
        except Refused as refused:
            self[reference] = None, refused.reason
        return self[reference]


@given(st.lists(REFERENCES, max_size=12), st.sampled_from(POLICIES))
def test_a_pages_references_are_resolved_as_one_by_one(references, policy):
    base = "http://host.example/d/e?q=1"
    items = [("a", reference) for reference in references]
    resolver, known, twin = (
        canonical.Resolver(base, policy),
        Known(base, policy),
        Known(base, policy),
    )
    ours = resolver.many(items, 1, known)
    resolver._plain = None
    assert ours == resolver.many(items, 1, twin)
    assert known == twin and set(known.asked) <= set(twin.asked)


def test_ordinary_references_need_no_second_look():
    known = Known("http://host.example/d?q=1", POLICIES[0])
    references = ["/a", "b?y=1&x=2", "#top", "//other.example", "https://x.example/%E5?a=%2F", "/a"]
    assert (
        len(canonical.Resolver(known.base, POLICIES[0]).many([(r,) for r in references], 0, known))
        == 6
    )
    assert not known.asked and known["b?y=1&x=2"] == ("http://host.example/b?x=2&y=1", None)


@pytest.mark.parametrize(
    "arguments",
    [
        ({}, [("a",)], 1),
        ({}, ["a"], 0),
        ({}, [(1,)], 0),
        ({"a": "b"}, [("a",)], 0),
        ({}, (), 0),
        ([], [], 0),
        ({}, [("a",)], -1),
    ],
)
def test_what_is_no_list_of_references_is_refused(arguments):
    with pytest.raises(TypeError):
        _scan.plain_urls(*arguments, "http://h/", "http://h", "/", frozenset(), ())


@pytest.mark.parametrize(
    "url",
    [
        "http://host.example/",
        "https://host.example:8443/a:b",
        "http://[2001:db8::1]/x",
        "http://[::1]:81/:",
        "http://a/b//c",
    ],
)
def test_a_host_is_the_splits(url):
    assert canonical.host_of(url) == _scan.host_of(url) == canonical.split(url).host
    with pytest.raises(ValueError, match="canonical"):
        _scan.host_of("no address")


STATUS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.0 404 Not  Found ",
        b"HTTP/1.1 204",
        b"HTTP/1.1 204 ",
        b"HTTP/1.1  200 OK",
        b"HTTP/1.1 2000 OK",
        b"HTTP/1.1 99 x",
        b"HTTP/1.1 600 x",
        b"HTTP/2 200",
        b"HTTP/1.2 200 a",
        b"HTTP/1.1\t200 OK",
        b"HTTP/1.1 200 \xe9",
        b"HTTP/1.1 200OK",
        b"HTTP/1.1 100 Continue",
        b"HTTP/",
        b"HTTP/1.1 2",
    ]
)
FIELD = st.lists(
    st.sampled_from(
        [
            b"Content-Length",
            b"a",
            b"X-Y_z!",
            b":",
            b": ",
            b" ",
            b"\t",
            b"5",
            b"v w",
            b"\r",
            b"\n",
            b"\0",
            b"\x7f",
            b"\xe9",
            b",",
            b"x" * 5000,
            b"@",
            b'"q"',
        ]
    ),
    max_size=5,
).map(b"".join)


@given(STATUS, st.lists(FIELD, max_size=6), st.sampled_from([b"\r\n", b"\n"]), st.integers(0, 3))
@example(b"HTTP/1.1 200 OK", [b"a: " + b"x" * 8189], b"\r\n", 0)
@example(b"HTTP/1.1 200 OK", [b"a: " + b"x" * 8190], b"\r\n", 0)
@example(b"HTTP/1.1 200 OK", [b"a: b"] * 100, b"\r\n", 0)
@example(b"HTTP/1.1 200 OK", [b"a: b"] * 101, b"\r\n", 0)
def test_a_usual_head_is_what_its_twin_reads(status, fields, line_end, odd):
    lines = [status, *fields, b"", b""]
    block = b"\r\n".join(lines[:odd]) + (b"\r\n" if odd else b"") + line_end.join(lines[odd:])
    end = http1_head.HEAD_END.search(block)
    block = block[: end.end()]

    def result():
        try:
            return asdict(http1_head.parse_head(block))
        except Refused as refused:
            return refused.reason, refused.detail

    ours, native = result(), http1_head._usual_head
    assert native is not None
    try:
        http1_head._usual_head = None
        assert ours == result()
    finally:
        http1_head._usual_head = native


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nbody",
        b"HTTP/1.1 200 OK\r\na: b\r\n",
        b"\r\n\r\n",
        b"HTTP/1.1 200 O\r",
    ],
)
def test_what_is_no_whole_head_is_not_read_as_one(block):
    assert _scan.usual_head(block, 8192, 100) is None


def test_a_usual_head_is_read_in_c():
    head = b"HTTP/1.0 301 Moved  \r\nLocation:  /x y \r\nEmpty:\r\n\r\n"
    assert _scan.usual_head(head, 8192, 100) == (
        301,
        "Moved",
        "1.0",
        [("Location", "/x y"), ("Empty", "")],
    )
    for wrong in ((b"", 1), ("", 1, 1), (b"", "", 1)):
        with pytest.raises(TypeError):
            _scan.usual_head(*wrong)
