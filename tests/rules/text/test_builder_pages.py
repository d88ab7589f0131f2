"""Main text of sixty pages in the markup of twelve page builders."""

from statistics import mean

from crawlkit.api import main_text

from tests.rules.text.builder_pages import pages
from tests.rules.text.wcxb import word_f1


def test_the_text_of_every_builder():
    scores = {
        (page.builder, page.kind): word_f1(page.text, main_text(page.markup.encode(), "http://s/"))
        for page in pages()
    }
    assert len(scores) == 60
    assert {which: f1 for which, f1 in scores.items() if f1 < 0.9} == {}
    assert mean(scores.values()) >= 0.95
