"""Main text, title, author and date of real pages of seven types. The bench shows them beside
others.
"""

import pytest
from crawlkit.api import main_text
from crawlkit.rules.page.page import parse_page

from tests.rules.text.wcxb import Told, by_type, metadata_scores

# trafilatura 2.3.1 on the same pages (bench/results/maintext.md); of all pages our mark
LEAST = {
    "article": 0.92,
    "documentation": 0.928,
    "forum": 0.726,
    "listing": 0.631,
    "product": 0.695,
    "service": 0.833,
    "collection": 0.609,
    "all pages": 0.83,
}


@pytest.mark.waits
def test_every_type_of_page_has_its_text():
    scores = by_type(lambda body: main_text(body, "https://site.example/"))
    assert {kind: f1 for kind, f1 in scores.items() if f1 < LEAST[kind]} == {}


def told(body: bytes, url: str) -> Told:
    meta = parse_page(body, url, "text/html; charset=utf-8").metadata
    return Told(meta.headline, meta.author, meta.published_on)


@pytest.mark.waits
def test_titles_authors_and_days():
    least = {"title": 0.798, "author": 0.707, "date": 0.831}  # as above
    scores = metadata_scores(told)
    assert {name: score for name, score in scores.items() if score < least[name]} == {}
