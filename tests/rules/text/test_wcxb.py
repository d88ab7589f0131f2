"""Main text of real pages of seven types. The bench shows it beside others."""

from statistics import mean

import pytest
from crawlkit.api import main_text

from tests.rules.text.wcxb import by_type

# trafilatura 2.3.1 on the same pages (bench/results/maintext.md), but 0.01
LEAST = {
    "article": 0.92,
    "documentation": 0.91,
    "forum": 0.75,
    "listing": 0.68,
    "product": 0.60,
    "service": 0.78,
    "collection": 0.55,
}


@pytest.mark.waits
def test_every_type_of_page_has_its_text():
    scores = by_type(lambda body: main_text(body, "https://site.example/"))
    assert mean(scores.values()) >= 0.79
    assert {kind: f1 for kind, f1 in scores.items() if f1 < LEAST[kind]} == {}
