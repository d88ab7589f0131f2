"""Date and author of a page's main entity (HTML Standard 4.5.14, schema.org mainEntityOfPage)."""

from __future__ import annotations

import json

import pytest
from crawlkit.rules.page.page import parse_page

URL = "http://site.example/story"
PROSE = "".join(
    f"<p>Sentence {n} of the story, which is long enough to be told from any other one.</p>"
    for n in range(5)
)


def of_markup(body: str, head: str = "") -> tuple[str | None, str | None]:
    markup = f"<!doctype html><title>a story</title>{head}<body>{body}"
    found = parse_page(markup.encode(), URL, "text/html").metadata
    return found.published, found.author


def of_json(*blocks: object) -> tuple[str | None, str | None]:
    head = "".join(
        f"<script type='application/ld+json'>{json.dumps(block)}</script>" for block in blocks
    )
    return of_markup(PROSE, head)


def when(day: int, more: str = "") -> str:
    return f"<time {more} datetime='2026-05-{day:02}'>May {day}</time>"


RELATED = f"<ul><li><a href=/a>An older post</a> {when(1)}<li><a href=/b>Another</a> {when(2)}</ul>"
COMMENT = f"<article><p>By somebody {when(3)}</p><p>I do not agree at all.</p></article>"
REVIEW = (
    "<div itemscope itemtype='https://schema.org/Review'><meta itemprop=author content='Cust Omer'>"
    f"<meta itemprop=datePublished content=2020-01-01>{when(4, 'itemprop=datePublished')}</div>"
)


@pytest.mark.parametrize(
    "body",
    [
        f"<header>{RELATED}</header><main><article><h1>a</h1>{when(22)}{PROSE}</article></main>",
        f"<article>{when(22)}{PROSE}</article>",
        f"{RELATED}<div><div class=by>{when(22)}</div><div class=text>{PROSE}</div></div>",
        f"<nav>{RELATED}</nav>{PROSE}{when(22)}",
        f"{RELATED}<main>{PROSE}<p>{when(22, 'itemprop=datePublished')}</p></main>",
        f"<main>{RELATED}{when(22, 'pubdate')}{PROSE}</main>",
        f"<div>{COMMENT}{COMMENT}</div><article><p>{when(22)}</p>{PROSE}</article>",
        f"{REVIEW}<article>{PROSE}<footer>{when(22)}</footer></article>",
        f"{RELATED}<article><time itemprop=dateCreated>2026-05-22</time>{PROSE}</article>",
        f"<aside>{RELATED}</aside><div><table><tr><td>{when(22)}<td>{PROSE}</table></div>",
    ],
)
def test_the_time_of_the_text_is_the_date(body):
    assert of_markup(body)[0] == "2026-05-22"


def test_what_a_review_says_is_never_the_pages():
    assert of_markup(REVIEW + PROSE) == (None, None)
    product = (
        "<div itemscope itemtype='https://schema.org/NewsArticle'><meta itemprop=author content=A>"
        f"<meta itemprop=datePublished content=2026-05-22>{REVIEW}</div>"
    )
    assert of_markup(REVIEW + product + PROSE) == ("2026-05-22", "A")
    assert of_markup(f"<footer>{when(5)}</footer>{PROSE}")[0] == "2026-05-05"  # the only one


REVIEWED = {"@type": "Review", "author": {"name": "Cust Omer"}, "datePublished": "2020-01-01"}
STORY = {"@type": "NewsArticle", "author": {"name": "A. Writer"}, "datePublished": "2026-05-22"}
OTHER = {"@type": "Article", "author": "B", "datePublished": "2021-01-01", "url": URL + "/other"}
RIGHT = ("2026-05-22", "A. Writer")


@pytest.mark.parametrize(
    "blocks",
    [
        ([[REVIEWED, STORY]]),
        ([REVIEWED, {"@graph": [{"@type": "Comment", "author": "C"}, STORY]}]),
        ([OTHER, STORY]),
        ([OTHER, STORY | {"mainEntityOfPage": {"@id": "https://www.site.example/story/"}}]),
        ([STORY | {"author": "B", "datePublished": "2021"}, STORY | {"url": URL + "#article"}]),
        ([{"@type": "WebPage", "datePublished": "2019", "author": "C"}, STORY]),
        ([{"@type": "WebPage", "url": URL, "mainEntity": STORY}, OTHER]),
        ([{"@type": "Person", "author": "D", "datePublished": "2018"}, STORY]),
        ([{"@type": ["UserReview"], "author": "D"}, STORY | {"@type": ["BlogPosting", "Thing"]}]),
        (
            [
                {"@type": "Person", "@id": "#w", "name": "A. Writer"},
                STORY | {"author": {"@id": "#w"}},
            ]
        ),
    ],
)
def test_the_item_that_is_the_pages_main_entity(blocks):
    assert of_json(*blocks) == RIGHT


def test_a_review_counts_where_it_is_the_page():
    assert of_json(REVIEWED) == (None, None)
    assert of_json(REVIEWED | {"url": URL}) == ("2020-01-01", "Cust Omer")
    assert of_json(OTHER) == ("2021-01-01", "B")  # under another name, for want of a better one
    assert of_json(["x", 5, {"@graph": 7}, {"@type": None, "author": [None, {}]}]) == (None, None)
