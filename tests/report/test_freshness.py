"""Promises of freshness: which page has which, and how late it is."""

from __future__ import annotations

import json

import pytest
from crawlkit.report.freshness import read_freshness

from tests.cli.call import call
from tests.control.smallcrawl import NOW, known, make_crawl, write

HOUR_S, DAY_S = 3600.0, 86_400.0


@pytest.fixture
def crawl(tmp_path):
    """Ten pages of a.test with 0 to 9 in-links, fetched 1, 2 ... 10 h ago, and three others."""
    crawl = make_crawl(tmp_path, freshness={"top_share": 0.1, "important_share": 0.3})

    def held(url, age_s, **fields):
        given = {"state": "fetched", "capture_id": "c", "last_fetch": NOW - age_s, "n_fetch": 1}
        return known(crawl, url, **(given | {"next_fetch": NOW} | fields))

    rows = [held(f"http://a.test/{n}", (n + 1) * HOUR_S) for n in range(10)]
    rows[9]["last_fetch"] = NOW - 30 * HOUR_S  # the most linked one: top, 6 h late
    rows[0]["last_fetch"] = NOW - 31 * DAY_S  # of the tail, a day late
    rows[1]["last_fetch"] = NOW - 30 * DAY_S  # of the tail, just kept
    rows += [
        held("http://n.test/", 25 * HOUR_S),  # news, an hour late
        held("http://b.test/", 8 * DAY_S, priority_class=1),  # important, a day late
        held("http://c.test/", 25 * HOUR_S, priority_class=0),  # top, an hour late
        held("http://m.test/", 99 * DAY_S, next_fetch=None),  # manual: nothing is promised
        held("http://s.test/x.xml", 99 * DAY_S, fetch_kind="sitemap"),
        known(crawl, "http://a.test/new"),
    ]
    write(crawl, "crawldb", rows)
    ranks = [
        {"url_key": r["url_key"], "inlinks": n, "round_no": 1} for n, r in enumerate(rows[:10])
    ]
    write(crawl, "ranks", ranks)
    news = {"host": "n.test", "domain": "n.test", "host_bucket": rows[10]["host_bucket"]}
    write(crawl, "hostdb", [news | {"class": "news", "first_seen": NOW, "updated_no": 1}])
    return crawl


def test_each_promise_has_its_pages_and_its_lag(crawl):
    """Of 13 pages 2 are a tenth (rounded up) and 4 three tenths, so that 2 are left of these."""
    told = read_freshness(crawl, NOW, 20)
    figures = {
        p["promise"]: (p["pages"], p["late"], round(p["worst_lag_s"] / HOUR_S, 3))
        for p in told["promises"]
    }
    assert figures == {
        "top": (3, 2, 6.0),
        "news": (1, 1, 1.0),
        "important": (3, 1, 24.0),
        "tail": (6, 1, 24.0),
    }
    assert {p["promise"]: p["kept"] for p in told["promises"]}["tail"] == pytest.approx(5 / 6)
    late = [(p["url"], p["promise"], p["lag_s"]) for p in told["late"]]
    assert late == [
        ("http://a.test/0", "tail", DAY_S),
        ("http://b.test/", "important", DAY_S),
        ("http://a.test/9", "top", 6 * HOUR_S),
        ("http://c.test/", "top", HOUR_S),
        ("http://n.test/", "news", HOUR_S),
    ]


def test_sizes_are_limits_too(tmp_path, crawl):
    """One page at most: only the most linked one and what the operator calls critical."""
    one = crawl.cfg.freshness.model_copy(update={"top_pages": 1, "important_pages": 1})
    crawl.cfg = crawl.cfg.model_copy(update={"freshness": one})
    pages = {p["promise"]: p["pages"] for p in read_freshness(crawl, NOW, 1)["promises"]}
    assert pages == {"top": 2, "news": 1, "important": 1, "tail": 9}
    assert len(read_freshness(crawl, NOW, 1)["late"]) == 1


@pytest.mark.waits
def test_the_command_tells_it(tmp_path, crawl):
    done = call("freshness", "--data", tmp_path, "--now", "2027-01-01", "--json")
    assert [p["promise"] for p in json.loads(done.out)["promises"]] == [
        "top", "news", "important", "tail"
    ]  # fmt: skip
    assert "late_page" in call("freshness", "--data", tmp_path).out
    empty = call("freshness", "--data", tmp_path / "none")
    assert empty.code == 2
