"""What status says of a round that is under way."""

from __future__ import annotations

import json

import pytest
from crawlkit.config import parse_config
from crawlkit.crawl.state import Crawl
from crawlkit.observe.status import read_status, status_text

PROGRESS = {
    "queued": 60,
    "in_flight": 1,
    "done": 99,
    "failed": 33,
    "bytes": 9900,
    "began": 100.0,
    "at": 110.0,
    "recent": [10.0, 99, 9900],
    "waiting": [["slow.test", 60, 1.0, "Crawl-delay", 111.0]],
}


@pytest.fixture
def crawl(tmp_path):
    made = Crawl(tmp_path / "site", parse_config("", "test", ()))
    row = made.open_round(1_767_225_600.0)
    counts = {"planned": 164, "new": 120, "again": 34, "ended": row.opened_at + 1}
    made.set_mark(row, "generate", counts | {"started": row.opened_at})
    made.objects.put(f"progress/{row.id}/0.json", json.dumps(PROGRESS).encode())
    return made, row


def test_stage_rates_queues_and_alerts_of_a_running_fetch(crawl, tmp_path):
    made, row = crawl
    with made.driver_lock(row):
        status = read_status(tmp_path / "site", made.cfg)
        text = status_text(status)
    (shown,) = status["rounds"]
    stage = shown["stage"]
    assert (stage["stage"], stage["number"], stage["of"]) == ("fetch", 2, 8)
    assert stage["since"] == row.opened_at + 1
    assert (shown["new"], shown["again"]) == (120, 34)
    # 33 of 99 failed; a fifth warns (alerts.error_share)
    (alert,) = shown["alerts"]
    assert (alert["name"], round(alert["value"], 3)) == ("errors_warn", 0.333)
    for part in (
        "planned: 120 new URLs, 34 fetched before",
        "stage 2 of 8, fetch: fetching, for ",
        "rate: 9.9 pages/s, 990 B/s of late",
        "1 min 0 s to go",
        "waits for: slow.test 60 URLs × 1 s, Crawl-delay",
        "alert: errors_warn (warn): many pages failed; round_error_share is 0.333333, threshold",
    ):
        assert part in text, text


def test_a_round_that_nobody_drives_has_no_stage_and_no_alerts(crawl, tmp_path):
    made, _ = crawl
    status = read_status(tmp_path / "site", made.cfg)
    (shown,) = status["rounds"]
    assert (shown["driven"], shown["stage"], shown["alerts"]) == (False, None, [])
    assert "interrupted while it fetched, at 00:01:50 UTC; nobody drives it" in status_text(status)


def test_the_stage_after_the_last_that_is_done(crawl, tmp_path):
    made, row = crawl
    for stage in ("fetch", "commit"):
        made.set_mark(row, stage, {"started": 0.0, "ended": row.opened_at + 2})
    with made.driver_lock(row):
        (shown,) = read_status(tmp_path / "site", made.cfg)["rounds"]
    assert (shown["stage"]["stage"], shown["stage"]["number"]) == ("parse", 4)
    assert shown["fetching"] is None and shown["alerts"] == []
