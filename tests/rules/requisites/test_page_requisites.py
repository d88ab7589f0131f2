"""What a page loads: by the elements and attributes of the HTML Standard and SVG 2."""

from __future__ import annotations

import time

import pytest
from crawlkit.outcomes import Reason
from crawlkit.rules.page.links import MAX_LINKS
from crawlkit.rules.page.page import parse_page
from crawlkit.rules.requisites.page_requisites import sheet_requisites
from crawlkit.rules.url.canonical import DEFAULT_POLICY

AT = "http://a.test/d/p.html"


def loaded(html: str, url: str = AT) -> list[str]:
    """URLs of a page's requisites, without the start of its folder."""
    page = parse_page(html.encode(), url, "text/html; charset=utf-8", requisites=True)
    return [r.url.removeprefix("http://a.test/d/") for r in page.requisites if not r.refused]


CASES = {  # HTML Standard, sections by number; what loads nothing has an empty list
    '<link rel="StyleSheet" href=a.css>': ["a.css"],  # 4.6.7.20
    '<link rel="alternate stylesheet" title=x href=a.css>': ["a.css"],
    '<link rel="shortcut icon" href=a.ico>': ["a.ico"],  # 4.6.7.7
    "<link rel=apple-touch-icon href=a.png>": ["a.png"],
    "<link rel=manifest href=a.json>": ["a.json"],  # 4.6.7.11
    "<link rel=modulepreload href=a.mjs>": ["a.mjs"],
    '<link rel=preload as=image href=a.png imagesrcset="b.png 1x, c.png 2x">': [
        *("a.png", "b.png", "c.png"),
    ],
    "<link rel=canonical href=a.html><link rel=next href=b.html>": [],
    "<link rel=dns-prefetch href=//x.test><link rel=preconnect href=//y.test>": [],
    "<script src=a.js></script><script type=module src=b.js></script>": ["a.js", "b.js"],
    "<script type='text/javascript' src=a.js></script>": ["a.js"],  # 4.12.1
    "<script type='text/template' src=a.js></script>": [],
    "<style>@import 'a.css'; p { background: url(b.png) }</style>": ["a.css", "b.png"],  # 4.2.6
    "<p style=\"background: url('a.png')\">x": ["a.png"],
    "<p style='background: url(&quot;a.png&quot;)'>x": ["a.png"],
    "<body background=a.png>": ["a.png"],  # 15.3.2
    "<table background=a.png><tr background=b.png><td background=c.png>x": [
        *("a.png", "b.png", "c.png"),  # 15.3.8
    ],
    "<div background=a.png>x</div>": [],
    "<img src=a.png srcset='b.png 1x, c.png 2x'>": ["a.png", "b.png", "c.png"],  # 4.8.3
    "<picture><source srcset=a.webp><img src=b.png></picture>": ["a.webp", "b.png"],
    "<input type=image src=a.png><input type=text src=b.png>": ["a.png"],
    "<video src=a.mp4 poster=b.png><track src=c.vtt></video>": ["b.png", "a.mp4", "c.vtt"],
    "<audio><source src=a.ogg></audio><embed src=b.pdf><object data=c.svg></object>": [
        *("a.ogg", "b.pdf", "c.svg"),
    ],
    "<svg><image href=a.png /><image xlink:href=b.png /><use href='c.svg#x' /></svg>": [
        *("a.png", "b.png", "c.svg"),  # SVG 2, 12.3, 5.5
    ],
    "<svg><use href='#x' /></svg>": [],
    "<svg><script href=a.js></script></svg>": ["a.js"],
    "<a href=a.html>x</a><iframe src=b.html></iframe>": [],  # links: pages of their own
    "<template><img src=a.png><script src=b.js></script></template>": [],
    "<noscript><link rel=stylesheet href=a.css></noscript>": ["a.css"],
    "<!-- <script src=a.js></script> -->": [],
    "<img src='data:image/png;base64,AAAA'><p style='background:url(data:,x)'>x": [],
    "<base href=/e/><script src=a.js></script>": ["http://a.test/e/a.js"],
    "<script src=a.js></script><script src=a.js></script><img src=a.js>": ["a.js"],
}


@pytest.mark.parametrize("html", CASES)
def test_elements_and_attributes_that_load(html):
    assert loaded(html) == CASES[html]


def test_links_have_no_images_then_and_all_else_as_before():
    html = "<a href=b.html>x</a><img src=a.png alt=t><video src=v.mp4></video>"
    with_them = parse_page(html.encode(), AT, "text/html", requisites=True)
    without = parse_page(html.encode(), AT, "text/html")
    assert [k.kind for k in with_them.links.links] == ["a"] and not without.requisites
    assert [(k.kind, k.refused) for k in without.links.links] == [
        ("a", None),
        ("image", Reason.MEDIA_NOT_CRAWLED),
        ("media", Reason.MEDIA_NOT_CRAWLED),
    ]
    assert (with_them.text, with_them.clean_sha256) == (without.text, without.clean_sha256)


def test_a_nofollow_page_still_loads_what_shows_it():
    html = "<meta name=robots content=nofollow><script src=a.js></script><a href=b.html>x</a>"
    page = parse_page(html.encode(), AT, "text/html", requisites=True)
    assert [r.refused for r in page.requisites] == [None]
    assert [k.refused for k in page.links.links] == [Reason.NOFOLLOW]


def test_what_is_no_url_is_kept_with_its_reason():
    page = parse_page(b"<script src='ftp://a.test/x'></script>", AT, None, requisites=True)
    assert [(r.url, r.refused) for r in page.requisites] == [("ftp://a.test/x", Reason.URL_SCHEME)]


def test_a_sheet_is_the_base_of_what_it_names():
    found = sheet_requisites("a{b:url(../x.png)} @import 'y.css'", "http://c.test/s/t.css", POLICY)
    assert [r.url for r in found] == ["http://c.test/x.png", "http://c.test/s/y.css"]


POLICY = DEFAULT_POLICY
HOSTILE = (
    "<p style='background:url(%d.png)'>",
    "<script src=%d.js></script>",
    "<style>a{b:url(%d)}</style>",
    "<link rel='icon' imagesrcset='%d.png 1x, y.png 2x'>",
    "<td background=%d.png>",
    "<svg><image href=%d.png>",
)


@pytest.mark.waits
@pytest.mark.parametrize("piece", HOSTILE)
def test_size_is_bounded_and_time_linear(piece):
    def seconds(n: int) -> float:
        html = "".join(piece % i for i in range(n)).encode()
        began = time.process_time()
        page = parse_page(html, AT, "text/html", requisites=True)
        took = time.process_time() - began
        assert len(page.requisites) <= MAX_LINKS
        return took

    small = min(seconds(4_000) for _ in range(2))
    assert min(seconds(40_000) for _ in range(2)) < 25 * small + 0.3  # 10 is linear, 100 square
