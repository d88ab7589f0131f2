"""Addresses of style sheets: by the CSS standards' own examples, and beside tinycss2's tokens."""

from __future__ import annotations

import time

import pytest
import tinycss2
from crawlkit.rules.requisites.style_sheets import css_urls, decode_css
from hypothesis import given, strategies as st

CASES = {
    # CSS Cascade 5, 2: examples of @import
    '@import "mystyle.css";': ["mystyle.css"],
    '@import url("mystyle.css");': ["mystyle.css"],
    '@import url("fineprint.css") print;': ["fineprint.css"],
    '@IMPORT/**/"a.css" layer(x);': ["a.css"],
    # CSS Values 4, 4.5.1, 4.5.3
    'body { background: url("http://www.example.com/pinkish.gif") }': [
        "http://www.example.com/pinkish.gif"
    ],
    "body { background: url(http://www.example.com/pinkish.gif) }": [
        "http://www.example.com/pinkish.gif"
    ],
    'a { background: URL( "x y.gif" ) }': ["x y.gif"],
    # CSS Syntax 3, 4.3.6 and 4.3.14: a blank or a quote inside makes a bad url
    "a { b: url(x y.gif); c: url(ok.gif) }": ["ok.gif"],
    "a { b: url(x'y.gif); c: url(ok.gif) }": ["ok.gif"],
    # 4.3.7: escapes
    r"a { b: url(a\29 b.gif) }": ["a)b.gif"],
    r"a { b: url('it\'s.gif') }": ["it's.gif"],
    "a { b: url('a\\\nb.gif') }": ["ab.gif"],
    r"a { b: url(\0.gif) }": ["\ufffd.gif"],
    # the end of the sheet closes what is open (5.2, parse errors)
    "a { b: url(x.gif": ["x.gif"],
    "@import 'x.css": ["x.css"],
    # comments, texts and names that only end so load nothing
    '/* url(a) @import "b" */ c { content: "url(d)"; e: myurl(f) }': [],
    "@namespace svg url(http://www.w3.org/2000/svg); a { b: url(c) }": ["c"],
    # CSS Images 4, 2.3: image-set()
    'a { b: image-set("x.avif" type("image/avif"), "x.png" 1x, url(y.png) 2x) }': [
        "x.avif",
        "x.png",
        "y.png",
    ],
    # CSS Fonts 4, 4.3
    '@font-face { src: url(f.woff2) format("woff2"), local("Gentium"), url("f.ttf") }': [
        "f.woff2",
        "f.ttf",
    ],
}


@pytest.mark.parametrize("css", CASES)
def test_addresses_that_the_standards_name(css):
    assert list(css_urls(css)) == CASES[css]


PIECES = (
    "url( ) ' \" /* */ @import @namespace ; { } a.css b\\29c \n - x url(y.png) é type( ,"
).split(" ")


@given(st.lists(st.sampled_from([*PIECES, " "]), max_size=12))
def test_the_same_urls_as_tinycss2(pieces):
    """Without @namespace and @import, whose strings tinycss2 does not tell from others."""
    css = "".join(p for p in pieces if not p.startswith("@"))
    want = filter(None, _urls(tinycss2.parse_component_value_list(css)))
    assert list(filter(None, css_urls(css))) == list(want)


def _urls(tokens):
    for token in tokens:
        if token.type == "url":
            yield token.value
        elif token.type == "function":
            inner = [t for t in token.arguments if t.type not in ("whitespace", "comment")]
            if token.lower_name == "url" and inner and inner[0].type in ("string", "url"):
                yield inner[0].value
                inner = [] if inner[0].type == "url" else inner
            yield from _urls(inner)
        elif token.type in ("() block", "[] block", "{} block"):
            yield from _urls(token.content)


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [  # CSS Syntax 3, 3.2: order mark, header, @charset, UTF-8
        (b"\xef\xbb\xbfa\xc3\xa9", "text/css; charset=latin1", "aé"),
        (b"\xff\xfea\x00", None, "a"),
        (b"a\xe9", "text/css; charset=iso-8859-1", "aé"),
        (b'@charset "windows-1252";\xe9', "text/css", '@charset "windows-1252";é'),
        (b'@charset "utf-16le";\xc3\xa9', "text/css", '@charset "utf-16le";é'),
        (b"\xc3\xa9", "text/css", "é"),
    ],
)
def test_the_encoding_of_a_sheet(body, content_type, text):
    assert decode_css(body, content_type) == text


HOSTILE = (
    *(
        "url(",
        "image-set(",
        "/*",
        '"\\',
        "@import ",
        "@import/*",
        'url("',
        '@namespace "',
        "url(\\",
    ),
    *("image-set((", 'image-set("', "image-set(a)", "\\", "(", "url(a ", "url( ", "*/", "/**/"),
)


@pytest.mark.waits
@pytest.mark.parametrize("text", HOSTILE)
def test_time_is_linear(text):
    """800 KB of one text take less than 12 times as long as 100 KB (8 is linear, 64 square)."""

    def seconds(size: int) -> float:
        css, began = text * (size // len(text)), time.process_time()
        for _ in css_urls(css):
            pass
        return time.process_time() - began

    small = min(seconds(100_000) for _ in range(3))
    assert min(seconds(800_000) for _ in range(2)) < 12 * small + 0.1
