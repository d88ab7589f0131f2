"""Politeness at size, judged by the server's own log: a share of `python -m bench polite`
(REQUIREMENTS D2).
"""

from __future__ import annotations

import pytest

from tests.slot.politerun import polite_run

pytestmark = pytest.mark.waits


def test_a_share(tmp_path):
    verdict, counts = polite_run(tmp_path, hosts=40, pages=18, delay_s=0.2)
    assert verdict.violations == []
    assert sum(counts["failed"] for counts in counts) == 0
    assert verdict.requests > 500 and verdict.share_of_maximum >= 0.4, (
        verdict.share_of_maximum
    )  # a busy machine starts slowly; hosts one after another would reach a fortieth


@pytest.mark.slow
def test_a_hundred_thousand_requests(tmp_path):
    """Seven to eight minutes: the pace of the slowest host."""
    verdict, counts = polite_run(tmp_path, hosts=200, pages=640, delay_s=0.8)
    assert verdict.violations == []
    assert verdict.requests >= 100_000 and verdict.share_of_maximum >= 0.9, verdict.share_of_maximum
