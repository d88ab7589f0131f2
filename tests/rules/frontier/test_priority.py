"""The class that a score is worth, in the first interval of a page."""

from __future__ import annotations

import pytest
from crawlkit.config import Config
from crawlkit.rules.frontier.lifecycle import next_row

from tests.rules.frontier.test_replay import fetched

DAY_S = 86_400.0


@pytest.mark.parametrize(
    ("given", "score", "days"),
    [(2, 75.0, 1), (2, 74.9, 7), (2, 50.0, 7), (2, 25.0, 30), (2, 24.9, 90), (1, 10.0, 7)],
)
def test_the_first_interval_is_that_of_the_class(given, score, days):
    """Classes at 75, 50 and 25; starting intervals 1, 7, 30 and 90 days. What is given holds."""
    cfg = Config.model_validate(
        {"frontier": {"classes": "score"}, "schedule": {"generic_s": [DAY_S, 90 * DAY_S]}}
    )
    row = {"url": "http://a.test/", "host": "a.test", "priority_class": given}
    new = next_row(row, fetched(2, 10.0)["seen"] | {"score": score}, 10.0, cfg)
    assert new["next_fetch"] == 10.0 + days * DAY_S
    by_class = next_row(row, fetched(2, 10.0)["seen"] | {"score": score}, 10.0, Config())
    assert by_class["interval_s"] == {1: 7, 2: 30}[given] * DAY_S
