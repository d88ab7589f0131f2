"""Which pages need a browser: by what their HTML lacks."""

import json

import pytest
from crawlkit.rules.page.markup import read_html
from crawlkit.rules.page.page import parse_page
from crawlkit.rules.render.inlined_state import (
    MAX_LINKS,
    MAX_SCRIPTS,
    MAX_STATE_BYTES,
    MAX_TEXT_CHARS,
    MAX_VALUES,
    read_state,
)
from crawlkit.rules.render.needs_js import NeedsJs, needs_js

from tests.cputime import within

WORDS = "Many words of a page that a person came to read. " * 5
PAD = "<body>" + "<!-- -->" * 800
SCRIPT = "<script src=/app.js></script>"
LINK = "<a href=/next>next</a>"


def why(markup: str) -> NeedsJs | None:
    raw = markup.encode()
    return needs_js(raw, read_html(raw))


@pytest.mark.parametrize(
    "markup, reason",
    [
        # the entry pages that Vite, Next, Nuxt, Angular and Vue's command line make
        (f'<div id="root"></div>{SCRIPT}', NeedsJs.FRAMEWORK_ROOT),
        (f"<div id=app></div>{SCRIPT}", NeedsJs.FRAMEWORK_ROOT),
        (f"<app-root></app-root>{SCRIPT}", NeedsJs.FRAMEWORK_ROOT),
        (f'<body ng-app="shop">{SCRIPT}', NeedsJs.FRAMEWORK_ROOT),
        (f'<div id="__nuxt"></div>{SCRIPT}', NeedsJs.FRAMEWORK_ROOT),
        (f'<script id="__NEXT_DATA__" type="application/json">{{}}</script>{SCRIPT}',
         NeedsJs.FRAMEWORK_ROOT),
        (f"<body><noscript>You need to enable JavaScript to run this app.</noscript>{SCRIPT}",
         NeedsJs.NOSCRIPT),
        (f"{PAD}{SCRIPT}<p>Loading</p>{LINK}", NeedsJs.LITTLE_TEXT),
        (f"{PAD}{SCRIPT}<p>{WORDS}</p>", NeedsJs.NO_LINKS),
        # rendered on the server: nothing is missing
        (f'<div id="root"><p>{WORDS}</p>{LINK}</div>{SCRIPT}{PAD}', None),
        # no script that could bring more
        (f'<div id="root"></div>{PAD}', None),
        (f"{PAD}<p>Loading</p>", None),
        # short, and nothing says that a script would bring more
        (f"<p>Page not found</p>{LINK}{SCRIPT}", None),
        (f"<p>{WORDS}</p>{SCRIPT}", None),
        # what noscript says is not the page's text
        (f"{PAD}{SCRIPT}<noscript><p>{WORDS}</p></noscript>{LINK}", NeedsJs.LITTLE_TEXT),
    ],
)  # fmt: skip
def test_evidence(markup: str, reason: NeedsJs | None) -> None:
    assert why(markup) is reason


STATE = {
    "props": {
        "title": "A story of four words",
        "body": "<p>" + WORDS + "</p>",
        "token": "x9f8e7d6c5b4a3",
        "related": [{"slug": "b", "href": "/story/b"}, {"url": "https://site.example/story/c?x=1"}],
        "image": {"src": "/a.png"},
    }
}


@pytest.mark.parametrize(
    "script",
    [
        f'<script id="__NEXT_DATA__" type="application/json">{json.dumps(STATE)}</script>',
        f"<script>window.__INITIAL_STATE__ = {json.dumps(STATE)};</script>",
    ],
)
def test_inlined_state_is_read_first(script: str) -> None:
    """The page's text and links are in its JSON: they count, and no browser is needed."""
    page = parse_page(
        f'<div id="root"></div>{SCRIPT}{script}'.encode(), "https://site.example/story/a"
    )
    assert page.needs_js is None
    assert "inlined_state" in page.flags
    assert page.text.splitlines() == ["A story of four words", WORDS.strip()]
    assert [(link.kind, link.url) for link in page.links.links] == [
        ("state", "https://site.example/story/b"),
        ("state", "https://site.example/story/c?x=1"),
    ]


def test_state_without_text_needs_a_browser() -> None:
    page = parse_page(
        f'<div id=root></div>{SCRIPT}<script type="application/json">{{"a": 1}}</script>'.encode(),
        "https://site.example/",
    )
    assert page.needs_js == NeedsJs.FRAMEWORK_ROOT


@pytest.mark.parametrize(
    "piece",
    [
        b"<script ",
        b"<script>__a = [",
        b"<script type=application/json>[[",
        b"<script type=application/json>{}</script",
        b"<a id = root",
        b'<script type="application/json">"a b c d e"</script>',
    ],
)
def test_linear_time(piece: bytes) -> None:
    def read(n: int) -> None:
        raw = piece * (n // len(piece)) + b"__"
        read_state(raw)
        needs_js(raw, read_html(b""))

    within(0.1, lambda: read(400_000))  # 8 times as much would be 64 times were it quadratic
    within(0.8, lambda: read(3_200_000))


def test_state_is_bounded() -> None:
    """A script beyond the limit is not read; nor are values beyond it."""
    large = json.dumps(["four words in it " + "x" * 100] * (MAX_STATE_BYTES // 100))
    assert read_state(f"<script type=application/json>{large}</script>".encode()).texts == []
    deep = "[" * 100_000
    assert read_state(f"<script type=application/json>{deep}</script>".encode()).texts == []


@pytest.mark.parametrize(
    "most, more",
    [
        (['"four words in it"'] * MAX_SCRIPTS, ['"four more words here"']),
        ([json.dumps(["x"] * (MAX_VALUES - 1))], [json.dumps(["x"] * MAX_VALUES)]),
        ([json.dumps([{"x": ["x"] * (MAX_VALUES - 3)}])], [json.dumps(["x", ["x"] * MAX_VALUES])]),
        ([json.dumps("a b c " * (MAX_TEXT_CHARS // 6))], [json.dumps("a b c " * MAX_TEXT_CHARS)]),
        ([json.dumps([{"href": f"/{n}"} for n in range(MAX_LINKS)])], ['{"href": "/more"}']),
        (["0" + " " * (MAX_STATE_BYTES - 1)], ["0"]),
    ],
)
def test_what_is_left_out_of_the_state_is_told(most: list[str], more: list[str]) -> None:
    def read(values: list[str]) -> bool:
        scripts = "".join(f"<script type=application/json>{v}</script>" for v in values)
        page = parse_page(f"{SCRIPT}{scripts}".encode(), "https://site.example/")
        return "inlined_state_cut" in page.flags

    assert (read(most), read(most + more)) == (False, True)
