from __future__ import annotations

import pytest
from crawlkit.rules.page.markup import read_addresses, read_html
from crawlkit.rules.page.nesting_guard import MAX_ATTRIBUTES, MAX_DEPTH, MAX_ELEMENTS, guard_nesting
from crawlkit.rules.page.walk import NAV, inline_style
from hypothesis import given, strategies as st

from tests.cputime import within
from tests.rules.page.html5lib_suite import expected_anchors, tokenizer_inputs, tree_cases
from tests.shared_data import shared


def test_html5lib_trees_give_their_links():
    cases = list(tree_cases(shared("suites/html5lib/tree_construction_half.tar.gz")))
    assert len(cases) >= 900
    wrong = []
    for case in cases:
        found = [a.href for a in read_html(case.data).anchors]  # every case is read: none may crash
        if not case.fragment and not case.script_on and found != expected_anchors(case.tree):
            wrong.append((case.name, found))
    assert wrong == []


def test_html5lib_tokenizer_inputs_do_not_crash():
    inputs = list(tokenizer_inputs(shared("suites/html5lib/tokenizer_half.tar.gz")))
    assert len(inputs) == 3409
    for _, text in inputs:
        read_html(text)


@pytest.mark.parametrize(
    "markup,text",
    [
        ("<p>in<b>divi</b>sible</p>", "indivisible"),
        ("<p>a<br>b</p>c<div>d</div>e", "a b\nc\nd\ne"),
        (
            (
                "<p>a<b style='display:block'>b<i>c</i><i style='display:flex'>d</i>e</b><b"
                " style='display:Table-Cell'>f</b>g<b style='display:inline-block'>h</b>"
            ),
            "a bc d e f gh",
        ),
        ("<div>a<p></p>b</div>", "a\nb"),
        ("<td>d<td>e", "de"),  # outside a table the tags are dropped (HTML Standard 13.2.6.4.7)
        ("<table><tr><td>d<td>e</table>", "d\ne"),
        ("<p>a</p> \n <p>b <i>c</i> </p>", "a\nb c"),
        (
            "a<script>x</script><style>y</style><template>z</template><iframe>f</iframe>"
            "<noframes>g</noframes>b",
            "ab",
        ),
        (
            (
                "<p hidden>x</p><p style='color:red;display:none'>y</p><p style='display:"
                " none'>y</p><p>z"
            ),
            "z",
        ),
        ("<body style='display:none'><p>waits for a script", "waits for a script"),
        (
            (
                "<p hidden style='display:flex'>a<p hidden style='display:inline'>b<dialog"
                " style='display:block'>c</dialog><p hidden style='display:'>x"
            ),
            "a\nb\nc",
        ),  # an author's style comes after the standard's
        (
            (
                "<p hidden=Until-Found>a<p hidden=until-found style='display:none'>x<p"
                " style='displa&#121;:none'>x"
            ),
            "a",
        ),
        (
            (
                "<dialog>x</dialog><dialog open>y</dialog><p"
                " popover>x<p>z<ruby>k<rp>(</rp><rt>r</rt></ruby>"
            ),
            "y\nzkr",
        ),  # HTML Standard 15.3
        (
            (
                "<div style='visibility:hidden'>x<p style='visibility:visible'>y<b hidden>x<i"
                " style='visibility:visible'>x</i></b></p>x</div><body style='visibility:hidden'>z"
            ),
            "y\nz",
        ),
        ("<math><semantics><mi>x</mi><annotation>\\x</annotation></semantics></math>", "x"),
        ("<noscript><p>no scripts</p></noscript>", "no scripts"),
        ("<select><option>a<option>b</select><textarea>c&lt;</textarea>", "a\nb\nc<"),
        ("<svg><title>t</title><style>s</style><text>v</text></svg>w", "vw"),
        ("<math><mi>x</mi></math>", "x"),
        ("x&nbsp;\u3000y", "x y"),
    ],
)
def test_visible_text(markup, text):
    assert read_html(markup).text == text


@pytest.mark.parametrize(
    "style,said",
    [
        ("DISPLAY : None", "none"),
        ("display:\nnone !important;display:block", "none"),
        ("color:red;/**/display/**/:/*;*/none/*", "none"),
        ("a:b}c;display:none;color:red", "none"),
        ("display:none;display:block", "block"),
        ("display:none;display:inline flex", None),
        ("--display:none", None),
        ("x-display:none", None),
        ("display:nonesuch", None),
        ("a:url(b's.jpg);display:none", "none"),
        ("a:URL(/*.png);display:none", "none"),
        ("a:url( 'b;)' );display:none", "none"),
        ("a:burl(';');display:none", "none"),
        ("a:url(\\);display:none", None),
        ("a:'b\n;display:none", "none"),
        ("display:bloc\u212a", None),
        ("background:url(;display:none)", None),
        ("content:'\\';display:none'", None),
        ("*display:none", None),
        ("/*;display:none", None),
        ("display:none !", None),
        ("", None),
        ("visibility: Hidden", "hidden"),
        ("visibility:hidden;visibility:collapse;", "collapse"),
        ("visibility:hidden;visibility:inherit", None),
        ("x:hidden;-visibility:hidden", None),
    ],
)
def test_inline_styles_that_hide(style, said):
    assert inline_style(style) == ((said, None) if said in ("none", "block") else (None, said))
    assert read_html(f'<p style="{style}">x').text == ("x" if said in (None, "block") else "")


def test_declarative_shadow_roots_are_part_of_the_page():
    shadow = (
        "<x-a><template shadowrootmode='open'><a href=/s>s</a><template><a"
        " href=/t>t</a><x-b><template shadowrootmode=open><a"
        " href=/u>u</a></template></x-b></template></template><a href=/l>l</a></x-a>"
    )
    doc = read_html(
        shadow + "<template data-shadowrootmode=open><a href=/v>v</a></template><template"
        " shadowrootmode=opened>w</template><p>z"
    )
    assert ([a.href for a in doc.anchors], doc.text) == (["/s", "/l"], "sl\nz")
    assert (
        read_html(
            "<!-- <template> --><script>'<template>'</script><TEMPLATE ShadowRootMode=Open>s<!-->"
            " <!-- </template> -->t</template><template>x</template>"
        ).text
        == "s t"
    )
    assert read_html("<template shadowrootmode=open " * 50_000).text == ""
    assert (
        read_html("<template shadowrootmode=open>" + "<!-<script>" * 50_000 + "<!--" * 50_000).text
        == ""
    )


def test_title_is_the_documents():
    assert (
        read_html("<body><svg><title>icon</title></svg><title>a\n b</title><title>c</title>").title
        == "a b"
    )
    assert read_html("<svg><title>icon</title></svg>").title is None


def test_anchors_have_their_text_and_images_speak_for_themselves():
    doc = read_html(
        '<nav><a href=1> x <b>y</b></a></nav><a href=2><img alt="pic"><div>z</div></a><area href=3'
        " alt=map><a name=n>no</a>"
    )
    assert [(a.href, a.text) for a in doc.anchors] == [("1", "x y"), ("2", "pic z"), ("3", "map")]
    assert doc.anchors[0].flags & NAV and not doc.anchors[1].flags & NAV
    assert [(b.text, b.link_chars) for b in doc.blocks] == [("x y", 3), ("z", 1), ("no", 0)]


def test_links_are_those_of_the_elements_kind():
    """HTML inside MathML's text integration points is HTML (HTML Standard 13.2.6); xlink:href is an
    address in svg and math alone.
    """
    markup = (
        "<a xlink:href=/no>x</a><svg><a xlink:href=/svg></a></svg><math><mi><area href=/area><base"
        " href=/base/><title>t</title></mi><mtext><a href=/mtext></a></mtext></math>"
    )
    doc = read_html(markup)
    assert [a.href for a in doc.anchors] == ["/svg", "/area", "/mtext"]
    assert doc.base_href == "/base/" and doc.title == "t"


def test_addresses_are_those_of_the_whole_reading():
    markup = (
        "<base href=/d/><link rel=next href=2><noscript><meta http-equiv=refresh"
        " content='0;url=x'></noscript><a href=a>b</a><svg><a xlink:href=s></svg><iframe src=f>"
    )
    short, whole = read_addresses(markup), read_html(markup)
    assert [a[:3] for a in short.anchors] == [a[:3] for a in whole.anchors]
    assert (short.links, short.metas, short.frames, short.base_href) == (
        whole.links,
        whole.metas,
        whole.frames,
        whole.base_href,
    )


@pytest.mark.waits
def test_ordinary_pages_are_not_touched():
    page = "<!doctype html>" + "<div><p>word <b>bold</b></p></div>" * 700
    assert guard_nesting(page.encode()) == (page.encode(), [])
    assert read_html("<div>" * 400 + "<a href=x>").anchors[0].href == "x"
    assert read_html("<ul><li>x</ul>" * 10_000).flags == []


def test_links_of_the_first_levels_and_all_text_are_kept():
    levels = "".join(f"<div><a href={n}>" for n in range(20_000))
    doc = read_html(levels + "end")
    assert doc.flags == ["too_deep"]
    assert list(dict.fromkeys(a.href for a in doc.anchors))[:MAX_DEPTH] == [
        str(n) for n in range(MAX_DEPTH)
    ]
    assert doc.text.endswith("end")


def test_attributes_beyond_the_limit_are_cut():
    doc = read_html(
        "<a href=/x " + " ".join(f"a{n}=1" for n in range(50_000)) + ">t</a><a href=/y>"
    )
    assert doc.flags == ["too_many_attributes"] and [a.href for a in doc.anchors] == ["/x", "/y"]
    assert len(doc.tree.css_first("a").attributes) == MAX_ATTRIBUTES


def test_addresses_beyond_that_limit_are_kept():
    many = " ".join(f"a{n}=1" for n in range(5_000))
    doc = read_html(
        f"<a {many} HREF='/x'>t</a><a {many} href = /y b=1 href=/z>u</a><link rel=next {many}"
        f" href=/w><a {many}>v</a><a {many} href>w</a><a href=/end>"
    )
    assert [a.href for a in doc.anchors] == ["/x", "/y", "/end"]
    assert [r["href"] for r, _ in doc.links] == ["/w"]
    assert doc.text == "tuvw" and doc.flags == ["too_many_attributes"]


@pytest.mark.waits
@pytest.mark.parametrize(
    "unit",
    [
        "<div>",
        "<ul><li>",
        "<b><i><div></b></i>",
        "<div></x>",
        "<div><table><td></div>",
        "<font color=a><font color=b><p></font>",
        "<table><b>",
        "<svg><g>",
        "<a <b ",
        "<!--",
        "<select><optgroup>",
        "<object><p>",
        "</p>",
        '<a b="',
        "&amp",
        "<",
        "<p>",
        "<title>",
        "<![CDATA[",
    ],
)
def test_hostile_markup_is_linear(unit):
    within(4, lambda: read_html(unit * 20_000 + "<a href=x>"))  # the square would take minutes


N = 1_000_000
LONG = {
    "nested": lambda: "<div>" * N,
    "nested and closed": lambda: "<div>" * N + "</div>" * N,
    "nested links": lambda: "".join(f"<div><a href=/{n}>t</a>" for n in range(600)) + "<div>" * N,
    "nested formats": lambda: "<b>" * N,
    "nested in turn": lambda: "<div><b><table>" * (N // 3),
    "nested lists": lambda: "<ul><li>" * (N // 2),
    "anchors in anchors": lambda: "<a href=/x>" * N,
    "one line of words": lambda: "<p>" + "word " * 2_000_000,
    "one line of links": lambda: "<a href=/a>b</a> " * 600_000,
    "one line of items": lambda: "<li>x " * 1_700_000,
    "one line of breaks": lambda: "x<br>" * 2_000_000,
    "one line of attributes": lambda: "<a href=/x " + "a=b " * 2_500_000 + ">t</a>",
    "one line of images": lambda: "<img src=a.png>" * 600_000,
    "one line of angles": lambda: "<" * 10_000_000,
}


@pytest.mark.waits
@pytest.mark.parametrize(
    "name",
    [
        (
            name
            if name in ("nested and closed", "nested links", "one line of words")
            else pytest.param(name, marks=pytest.mark.slow)
        )
        for name in LONG
    ],
)
def test_a_million_tags_and_ten_megabytes_take_a_second(name):
    raw = LONG[name]().encode()
    doc = within(1, lambda: read_html(raw))
    if name == "nested links":
        assert [a.href for a in doc.anchors] == [f"/{n}" for n in range(600)]
    if name == "nested and closed":
        assert [a.href for a in read_html(raw + b"<a href=/x>").anchors] == ["/x"]


def test_markup_ends_at_the_last_element_that_fits():
    doc = read_html("<i>x</i>" * 10 + "<p>" * MAX_ELEMENTS + "<a href=/x>")
    assert (
        doc.flags == ["too_many_tags"] and doc.anchors == [] and len(doc.elements) <= MAX_ELEMENTS
    )


@pytest.mark.waits
def test_end_tags_that_reach_nothing_are_linear():
    within(
        4,
        lambda: read_html(
            "<div><table>" + "<x>" * 25_000 + "</div>" * 25_000 + "</x></y>" * 25_000
        ),
    )


@pytest.mark.waits
def test_formatting_is_not_opened_again_in_each_block():
    doc = within(
        4,
        lambda: read_html(
            "<p>" + "".join(f"<b a{n}>" for n in range(400)) + "</p>" + "<p>x</p>" * 15_000
        ),
    )
    assert doc.flags == ["too_many_formats"] and len(doc.blocks) == 15_000


MARKUP = st.lists(
    st.sampled_from(
        "<a href=x> </a> <b> </b> <p> </p> <table> <td> </table> <div> </div> <svg> </svg> <select>"
        " <option> <template> </template> <form> <li> <base <title> </title> <script> </script>"
        " <!-- --> <![CDATA[ ]]> &lt; \0 \" ' = / > < text é <br/> <frameset> <plaintext> <math>"
        " <mi> <foreignObject> <noscript>".split(" ")
    ),
    max_size=60,
).map("".join)


@given(st.one_of(MARKUP, st.text(max_size=200)))
def test_any_markup_is_read(markup):
    doc = read_html(markup)
    assert all(0 <= b.link_chars <= len(b.text) for b in doc.blocks) and all(
        b.element < len(doc.elements) for b in doc.blocks
    )
    assert isinstance(guard_nesting(markup.encode("utf-8", "replace"))[0], bytes)
