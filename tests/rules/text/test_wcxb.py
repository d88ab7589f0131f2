"""Main text of real pages of seven types. The bench shows it beside others."""

import pytest
from crawlkit.api import main_text

from tests.rules.text.wcxb import by_type

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
