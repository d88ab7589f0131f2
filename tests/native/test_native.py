"""The parts in C beside their Python: the same values for every input."""

from __future__ import annotations

import random
from array import array
from dataclasses import asdict

import numpy as np
import pytest
from crawlkit import native
from crawlkit.rules.page import language, markup as html, walk
from crawlkit.rules.page.markup import read_addresses, read_html
from hypothesis import example, given, strategies as st
from py3langid import langid

from tests.examples import examples
from tests.rules.page.html5lib_suite import tokenizer_inputs, tree_cases
from tests.rules.test_fuzz import SEED, mutated
from tests.shared_data import shared

if html._tree is None:
    pytest.skip(
        "the parts in C are not built: needs a C compiler and Python's headers",
        allow_module_level=True,
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
    part = html._tree
    for read in (read_html, read_addresses):
        ours = said(read, markup)
        try:
            html._tree = None
            assert ours == said(read, markup), markup
        finally:
            html._tree = part


@given(MARKUP)
@example("<script type='application/LD+json'>")
def test_the_walk_says_what_its_fallback_says(markup):
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


@pytest.mark.waits
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


def test_the_walk_keeps_the_limits_of_its_fallback(monkeypatch):
    monkeypatch.setattr(html, "MAX_ANCHORS", 5)
    monkeypatch.setattr(walk, "MAX_ANCHORS", 5)
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


def test_the_styles_of_a_page_are_read_up_to_a_limit():
    """Reading them costs more than anything else of a page: half a second a megabyte."""
    long = "".join(f"<p style='display:none;{'x' * 8000}:{n}'>a" for n in range(130))
    page = long + "<p hidden style='display:block'>b<p style='visibility:hidden'>c<p>d"
    both(page)
    assert read_html(page).text.split() == ["a"] * (130 - walk.MAX_STYLE_BYTES // 8016) + list("cd")


@examples(100)
@given(st.text(max_size=200))
@example("Ceci est une phrase en français, assez longue pour être reconnue.")
@example("日本語の文章です。これは長い文です。")
def test_a_language_is_what_py3langid_says(text):
    assert language._classifier()(text) == langid.classify(text)[0]


# two states, of which "a" leads to the other one: however far from it the text has gone on
FAR = (
    np.array([1 if b == ord("a") else 0 for b in range(256)], np.uint32),
    np.array([0 if b == ord("a") else 1 for b in range(256)], np.uint32),
)
TABLES = np.concatenate(FAR), array("H", [0, 1]), array("i", [0, 1])
WEIGHTS = np.array([[1, 0], [0, 1]], np.float16), np.zeros(2, np.float32)


@pytest.mark.parametrize(
    "text, lead, best",
    [
        (b"a" + b"b" * 99, 0.5, 1),  # a walk that begins in the middle would not know
        (b"b" * 99, 0.5, 0),
        (b"b" * 99, 5.0, -1),  # log(100) is less
        (b"", 0.0, -1),
    ],
)
def test_the_class_that_most_features_speak_for(text, lead, best):
    assert native.load("_features").best_class(*TABLES, *WEIGHTS, text, lead) == best


def test_an_automaton_that_leads_nowhere_is_refused():
    best = native.load("_features").best_class
    outside = array("I", [5] * 256)
    with pytest.raises(ValueError, match="outside of its tables"):
        best(outside, array("H", [0]), array("i", [-1]), *WEIGHTS, b"a", 0.5)
    with pytest.raises(ValueError, match="other sizes"):
        best(outside, array("H", [0, 0]), array("i", [-1]), *WEIGHTS, b"a", 0.5)


@pytest.mark.parametrize("part", ["_features", "_prints", "_tree"])
def test_a_part_of_another_version_is_not_used(part, monkeypatch):
    assert native.load(part) is not None
    monkeypatch.setitem(native.APIS, part, native.APIS[part] + 1)
    assert native.load(part) is None


def test_a_part_that_is_not_built_is_not_used(monkeypatch):
    monkeypatch.setitem(native.APIS, "_none", 1)
    assert native.load("_none") is None


def test_a_style_that_cannot_be_read_ends_the_walk(monkeypatch):
    """The walk hands on what the function it was given raises."""

    def broken(style):
        raise ZeroDivisionError

    monkeypatch.setattr(html, "style_code", broken)
    html._load_tree()
    try:
        with pytest.raises(ZeroDivisionError):
            read_html("<p style='display:none'>")
    finally:
        monkeypatch.undo()
        html._load_tree()
