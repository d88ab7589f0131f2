"""What rows of the frontier say of a URL and of its host, in whole rounds (B1, B2, B6)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from crawlkit.config import parse_config
from crawlkit.local.web_server import Reply
from crawlkit.rules.frontier.host_classes import Activity, learn_class
from crawlkit.upkeep.rebuild import rebuild

from tests.engines import run_on
from tests.rounds.row_web import DAY_S, EPOCH, RowWeb, page

pytestmark = [pytest.mark.rounds]
on = run_on("local")
HOSTS = {"a.example": "127.84.0.1", "news.example": "127.84.0.2", "far.example": "127.84.0.3"}
A = "http://a.example"
TWIN = page("a twin of another page", "<p>Word for word the same text stands on both of them.</p>")


def dated(n: int, day: str) -> Reply:
    head = f'<meta property="article:published_time" content="{day}T08:00:00Z">'
    return page(f"story {n} of {day}", head=head)


@pytest.fixture(scope="module")
def seen(on, tmp_path_factory):
    hosts_web = RowWeb(tmp_path_factory.mktemp("flags") / "crawl", HOSTS, on)
    out = SimpleNamespace(web=hosts_web)
    with hosts_web as web:
        first_week(web, out)
        later(web, out)
    return out


def first_week(web, out) -> None:
    """Twins, a chain of redirects that is too long, and a host whose pages are of the day."""
    web.pages |= {f"{A}/twin-1": TWIN, f"{A}/twin-22": TWIN, f"{A}/alone": page("one alone")}
    web.pages |= {
        f"{A}/hop-{n}": Reply(301, [("Location", f"/hop-{n + 1}")], b"") for n in range(3)
    }
    stories = "".join(f'<a href="/{n}">{n}</a>' for n in range(4))
    web.pages["http://news.example/"] = page("the front page", stories)
    web.pages |= {f"http://news.example/{n}": dated(n, "2026-01-01") for n in range(4)}
    web.pages |= {"http://far.example/": page("far", '<a href="/old">old</a>')}
    web.pages |= {"http://far.example/old": dated(9, "2019-05-01")}
    seeds = [f"{A}/twin-1", f"{A}/twin-22", f"{A}/alone", f"{A}/hop-0"]
    seeds += ["http://news.example/", "http://far.example/"]
    web.give("host_set", host="far.example", quota_max=77)
    for n in range(4):
        web.run(EPOCH + 600 * n, seeds if n == 0 else None, fetch__max_redirects=2)
    out.flags = web.rows("crawldb", "flags", "state")
    out.hosts = web.rows("hostdb", "class", "quota_max", "quality", "news_pages", key="host")


def later(web, out) -> None:
    """One of the twins gets a text of its own; the chain becomes short enough; rows are rebuilt."""
    web.pages[f"{A}/twin-1"] = page("a page of its own now")
    web.pages[f"{A}/hop-2"] = page("the end of the chain")
    web.pages["http://news.example/"] = page("the front page", '<a href="/late">late</a>')
    web.pages["http://news.example/late"] = page("a page of the next day")
    web.give("recrawl", urls=[f"{A}/twin-1", f"{A}/hop-2", "http://news.example/"])
    job = web.run(EPOCH + DAY_S)
    out.later = web.rows("crawldb", "flags", "state")
    web.run(EPOCH + DAY_S + 600)
    out.planned = {
        r["url"]: r["class"] for r in job.tables.rows("fetchlist", ["url", "class", "round_id"])
    }
    before = web.rows("crawldb", "flags", "interval_s", "state", "next_fetch")
    rebuild(web.job())
    out.rebuilt = before, web.rows("crawldb", "flags", "interval_s", "state", "next_fetch")


def test_the_longer_of_two_twins_is_flagged_and_no_other_page(seen):
    flagged = {u for u, r in seen.flags.items() if "duplicate_of" in r["flags"]}
    assert flagged == {f"{A}/twin-22"}


def test_the_flag_goes_when_the_other_page_changes_though_this_one_is_not_visited(seen):
    assert seen.web.log.count(f"{A}/twin-22") == 1
    assert seen.later[f"{A}/twin-22"]["flags"] == []


def test_a_chain_that_is_too_long_is_flagged_at_its_last_hop_until_it_is_short_enough(seen):
    flagged = {u for u, r in seen.flags.items() if "redirect_too_long" in r["flags"]}
    assert flagged == {f"{A}/hop-2"}
    assert (seen.later[f"{A}/hop-2"]["state"], seen.later[f"{A}/hop-2"]["flags"]) == ("fetched", [])


def test_pages_of_the_day_make_a_news_host_and_old_ones_do_not(seen):
    classes = {h: r["class"] for h, r in seen.hosts.items()}
    assert classes == {"a.example": "generic", "news.example": "news", "far.example": "generic"}
    assert round(seen.hosts["news.example"]["news_pages"], 1) == 4.0


def test_the_learned_class_sets_the_interval_and_is_in_the_fetch_list(seen):
    rows = seen.rebuilt[0]
    assert rows["http://news.example/late"]["interval_s"] == 6 * 3600  # the ceiling of news hosts
    assert rows["http://far.example/old"]["interval_s"] >= DAY_S
    assert seen.planned["http://news.example/late"] == "news"


def test_quota_and_quality_stand_with_the_host(seen):
    assert seen.hosts["far.example"]["quota_max"] == 77
    assert seen.hosts["a.example"]["quota_max"] == 100_000
    assert all(0.3 < r["quality"] < 0.9 for r in seen.hosts.values())


def test_rebuild_gives_the_same_flags_and_intervals(seen):
    before, after = seen.rebuilt
    assert after == before


def test_a_host_without_a_change_for_two_months_is_dormant():
    cfg = parse_config("", "test").schedule
    activity = Activity().after(0, 1, 0, EPOCH)
    for n in range(1, 12):
        activity = activity.after(0, 0, 1, EPOCH + n * 6 * DAY_S)
    assert learn_class(activity, EPOCH, EPOCH + 59 * DAY_S, cfg) == "generic"
    assert learn_class(activity, EPOCH, EPOCH + 61 * DAY_S, cfg) == "dormant"
    awake = activity.after(0, 1, 3, EPOCH + 62 * DAY_S)
    assert learn_class(awake, EPOCH, EPOCH + 200 * DAY_S, cfg) == "generic"


def test_two_new_pages_a_day_are_no_news_and_four_are():
    cfg = parse_config("", "test").schedule
    for a_day, expected in ((2, "generic"), (4, "news")):
        activity = Activity()
        for day in range(30):
            activity = activity.after(a_day, 0, 0, EPOCH + day * DAY_S)
        assert learn_class(activity, EPOCH, EPOCH + 29 * DAY_S, cfg) == expected


def test_what_a_dead_task_held_comes_first_in_the_next_round(on, tmp_path):
    """The round has room for one URL: not the better one, but that which was lost."""
    with RowWeb(tmp_path / "crawl", {"a.example": "127.84.0.4"}, on) as web:
        web.pages |= {f"{A}/{n}": page(f"page {n}") for n in range(3)}
        job = web.job()
        round_ = job.crawl.open_round(EPOCH)
        job.run("inject", round_, force=True, lines=[f"{A}/2\tpriority=low"])
        job.run("generate", round_)
        # its task died before it wrote a part
        job.crawl.set_mark(round_, "fetch", {"started": EPOCH, "ended": EPOCH, "cpu_s": 0})
        for stage in ("commit", "parse", "dedup", "update", "rank", "report"):
            job.run(stage, round_)
        job.crawl.close(round_)
        assert web.rows("crawldb", "flags")[f"{A}/2"]["flags"] == ["given_back"]
        web.run(
            EPOCH + 60, [f"{A}/0\tpriority=normal", f"{A}/1\tpriority=normal"], round__max_urls=1
        )
        assert [u for u in web.log if "robots" not in u] == [f"{A}/2"]
        row = web.rows("crawldb", "flags", "priority_class")[f"{A}/2"]
        assert (row["flags"], row["priority_class"]) == ([], 3)
