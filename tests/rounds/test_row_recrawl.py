"""When pages are fetched again: the categories of operators, in whole rounds (I1)."""

from __future__ import annotations

import pytest
from crawlkit.cli.settings import read_config
from crawlkit.rules.frontier.command_rules import BadCommand

from tests.engines import run_on
from tests.rounds.row_web import DAY_S, EPOCH, RowWeb, page

pytestmark = [pytest.mark.rounds]
on = run_on("local")
HOUR_S = 3600.0
HOSTS = {
    f"{name}.example": f"127.87.0.{n}"
    for n, name in enumerate(("minutes", "hours", "days", "weeks", "plain", "archive"), 1)
}


@pytest.fixture
def web(on, tmp_path):
    categories = {
        "*.hours.example": "minutes",  # of hosts below it, not of itself
        "hours.example": "hours",
        "minutes.example": "minutes",
        "days.example": "days",
        "weeks.example": "weeks",
        "http://days.example/old/": "manual",
    }
    with RowWeb(tmp_path / "crawl", HOSTS, on, schedule__recrawl=categories) as web:
        for host in HOSTS:
            web.pages[f"http://{host}/"] = page(host)
        web.pages["http://days.example/old/a"] = page("an old page")
        yield web


def asked_in(web: RowWeb, now: float, seeds=None) -> set[str]:
    """Pages requested in a round at `now`."""
    before = len(web.log)
    web.run(now, seeds)
    return {u.split("//")[1].rstrip("/") for u in web.log[before:] if "robots.txt" not in u}


def test_each_category_has_its_own_pace(web):
    """By the floors of the categories: 5 min, 1 h, 1 day, 7 days."""
    seeds = list(web.pages)
    assert len(asked_in(web, EPOCH, seeds)) == len(seeds)
    for host in HOSTS:
        web.pages[f"http://{host}/"] = page(f"{host} of another day")
    assert asked_in(web, EPOCH + 300) == {"minutes.example"}
    assert asked_in(web, EPOCH + HOUR_S) == {"minutes.example", "hours.example"}
    week = asked_in(web, EPOCH + 7 * DAY_S)
    assert {"minutes.example", "hours.example", "days.example", "weeks.example"} <= week
    assert "days.example/old/a" not in week


def test_manual_is_fetched_once_and_then_only_when_forced(web):
    url = "http://archive.example/"
    web.run(EPOCH, [url])
    assert asked_in(web, EPOCH + 31 * DAY_S) == {"archive.example"}
    web.give("host_set", host="archive.example", recrawl="manual")
    assert asked_in(web, EPOCH + 200 * DAY_S) == set()
    assert web.rows("crawldb", "next_fetch")[url]["next_fetch"] is not None  # not folded since
    web.give("hint", urls=[url])
    assert asked_in(web, EPOCH + 201 * DAY_S) == set()
    assert web.rows("crawldb", "next_fetch")[url]["next_fetch"] is None
    web.give("recrawl", urls=[url])
    assert asked_in(web, EPOCH + 202 * DAY_S) == {"archive.example"}
    row = web.rows("crawldb", "next_fetch", "flags")[url]
    assert (row["next_fetch"], row["flags"]) == (None, [])
    assert asked_in(web, EPOCH + 400 * DAY_S) == set()
    web.give("host_set", host="archive.example", recrawl="hours")
    assert asked_in(web, EPOCH + 401 * DAY_S) == {"archive.example"}


def test_a_forced_fetch_that_does_not_fit_stays_forced(web):
    """The quota of the host takes it from its round; it is fetched in the next one."""
    url = "http://archive.example/"
    web.run(EPOCH, [url])
    web.give("host_set", host="archive.example", recrawl="manual", quota_max=0)
    web.give("recrawl", urls=[url])
    assert asked_in(web, EPOCH + 60) == set()
    web.give("host_set", host="archive.example", recrawl="manual")
    assert asked_in(web, EPOCH + 120) == {"archive.example"}


def test_a_category_that_is_none_is_refused(web, tmp_path):
    with pytest.raises(BadCommand, match="recrawl: 'often': expected minutes, hours, days, weeks"):
        web.give("host_set", host="archive.example", recrawl="often")
    with pytest.raises(ValueError, match="schedule.recrawl"):
        read_config(tmp_path / "none", None, ['schedule.recrawl={"a\'b": "manual"}'])
