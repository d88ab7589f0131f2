"""Text of pages that are no article: all but what stands round it."""

from __future__ import annotations

import pytest
from crawlkit.rules.page.markup import read_html
from crawlkit.rules.text.main_text import main_text
from crawlkit.rules.text.whole_text import whole_text

PARAGRAPHS = [
    f"Paragraph {n} says what the page is about, in a sentence that is long enough to be read."
    for n in range(4)
]
BODY = "".join(f"<p>{text}</p>" for text in PARAGRAPHS)


def lines(markup: str) -> list[str]:
    return whole_text(read_html(markup)).split("\n")


@pytest.mark.parametrize(
    "names",
    [
        "overflow-hidden",
        "hidden-xs d-none-sm",
        "elementor-widget elementor-widget-text-editor",
        "et_pb_text_inner",
        "wpb_wrapper vc_column-inner",
        "fusion-text fl-rich-text",
        "sqs-block-content",
        "w-richtext post-header-meta",
        "has-sidebar page-with-share",
        "menu-open cookies-accepted modal-open",
    ],
)
@pytest.mark.parametrize("where", ["div", "section", "body"])
def test_the_containers_of_page_builders_hide_nothing(names, where):
    page = (
        f"<body class='{names}'>{BODY}"
        if where == "body"
        else (f"<{where} class='{names}'><div>{BODY}</div></{where}>")
    )
    assert lines(page) == PARAGRAPHS
    assert main_text(read_html(page)).split("\n") == PARAGRAPHS


@pytest.mark.parametrize(
    "part",
    [
        "<nav><a href=/>Home</a></nav>",
        "<header><a href=/>Logo</a></header>",
        "<footer>Imprint</footer>",
        "<aside>See also</aside>",
        "<div class='site-footer'>Imprint</div>",
        "<ul class='breadcrumb'><li>Home</ul>",
        "<div id='onetrust-consent-sdk'>" + "We use cookies for many ends. " * 60 + "</div>",
        "<div class=CookieBanner>Accept all</div>",
        "<div class='hidden'>A menu that opens</div>",
        "<section class='related-products'>Others bought</section>",
        "<button>Add</button>",
    ],
)
def test_what_stands_round_the_text_is_left_out(part):
    assert lines(f"{part}<div>{BODY}</div>") == PARAGRAPHS
    assert lines(f"<div>{BODY}</div>{part}") == PARAGRAPHS


def test_where_names_leave_nothing_they_do_not_count():
    assert lines(f"<div class=modal><div class=sidebar>{BODY}</div></div>") == PARAGRAPHS
    assert lines("<nav><p>All there is</p></nav>") == ["All there is"]


def test_lists_of_links_are_the_content_of_a_listing():
    cards = "".join(f"<li><a href=/{n}>Card number {n}</a></li>" for n in range(9))
    page = f"<nav><a href=/>Home</a></nav><main><h1>All cards</h1><ul>{cards}</ul></main>"
    assert main_text(read_html(page)).split("\n") == [
        "All cards",
        *(f"Card number {n}" for n in range(9)),
    ]


def test_a_line_that_is_there_again_is_told_once():
    again = "<p>A line of the slide show that is cloned for its swipe</p>"
    assert lines(again * 3 + BODY) == [again[3:-4], *PARAGRAPHS]
    assert lines("<p>Yes</p>" * 3 + BODY)[:3] == ["Yes"] * 3


def test_the_replies_of_a_forum_are_text():
    posts = "".join(f"<div class=post><p>{text}</p></div>" for text in PARAGRAPHS)
    script = '<script type="application/ld+json">{"@type": "DiscussionForumPosting"}</script>'
    page = f"{script}<div class=comments>{posts}</div>"
    assert main_text(read_html(page)).split("\n") == PARAGRAPHS


def test_a_product_is_described_by_its_data_where_scripts_show_it():
    words = "A mug of stoneware, glazed by hand and fired twice, " * 3
    data = f'{{"@type": "Product", "description": "<p>{words}</p>"}}'
    script = f'<script type="application/ld+json">{data}</script>'
    assert main_text(read_html(f"{script}<h1>Mug</h1>")).split("\n") == [words.strip(), "Mug"]
    shown = f"{script}<h1>Mug</h1><p>{words}</p>"
    assert main_text(read_html(shown)).split("\n") == ["Mug", words.strip()]
