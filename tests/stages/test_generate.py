"""What a round is planned of each host: its quotas and its delay, and how many rows were left out
by which of them.
"""

from __future__ import annotations

from crawlkit.config import Config
from crawlkit.rules.politeness.host_state import HostState, pages_left
from crawlkit.stages.generate import Orders, mark_orders, select_due
from crawlkit.tables import TABLES

from tests.frames import collect, frame
from tests.stages.test_fold import row

NOON = 19676.5 * 86_400  # 2023-11-15; its cycle of 30 days began on day 19650
CFG = Config.model_validate(
    {
        "politeness": {"delay_s": 1, "host_day_quota": 10, "host_cycle_quota": 25},
        "round": {"minutes": 60, "urls_per_host": 12, "max_urls": 1000},
        "frontier": {"explore": 0.2},
    }
)

# host: (used on a day, that day), (used in a cycle, its first day), delay in ms, the operator's
# quotas; due rows; chosen, left out by
HOSTS = {
    "fresh.example": (None, None, 0, {}, 15, 10, "host_day_quota"),
    "few.example": (None, None, 0, {}, 3, 3, None),
    "today.example": ((8, 19676), (8, 19650), 0, {}, 5, 2, "host_day_quota"),
    "yesterday.example": ((10, 19675), (10, 19650), 0, {}, 5, 5, None),
    "cycle.example": ((1, 19676), (24, 19650), 0, {}, 5, 1, "host_cycle_quota"),
    "over.example": ((1, 19676), (40, 19650), 0, {}, 5, 0, "host_cycle_quota"),
    "last_cycle.example": ((10, 19649), (25, 19620), 0, {}, 5, 5, None),
    "granted.example": (
        (10, 19676),
        (25, 19650),
        0,
        {"quota_max": 1000, "cycle_quota_max": 29},
        6,
        4,
        "host_cycle_quota",
    ),
    "many.example": (
        None,
        None,
        0,
        {"quota_max": 1000, "cycle_quota_max": 1000},
        20,
        12,
        "host_round_quota",
    ),
    "slow.example": (None, None, 900_000, {}, 9, 5, "round_time"),  # 3600 s / 900 s, and the first
    "none.example": (None, None, 0, {"quota_max": 0}, 2, 0, "host_day_quota"),
}


def chosen(engine, cfg, clock_now):
    rows = [
        row(
            0, url_key=f"{h}{n}".encode(), url=f"http://{h}/{n}", host=h, domain=h, next_fetch=100.0
        )
        for h, (*_, due, _, _) in HOSTS.items()
        for n in range(due)
    ]
    hosts = [
        {
            "host": h,
            "domain": h,
            "host_bucket": 0,
            "delay_ms": ms,
            "quota_used": (day or (None, 0))[0],
            "quota_day": str((day or (0, 0))[1]),
            "cycle_used": (cycle or (None, 0))[0],
            "cycle_day": (cycle or (0, None))[1],
        }
        for h, (day, cycle, ms, *_) in HOSTS.items()
        if h != "few.example"
    ]  # one that has no row yet
    crawldb = mark_orders(frame(engine, "crawldb", rows), Orders())
    out = collect(
        select_due(
            crawldb,
            frame(engine, "hostdb", hosts),
            frame(engine, "host_ranks", []),
            cfg,
            200.0,
            clock_now,
            1,
            {h: p for h, (_, _, _, p, *_) in HOSTS.items()},
        )
    )
    return {
        h: (
            sum(r.host == h and r.left_out is None for r in out),
            next(
                (
                    (r.left_reason, r.left_out)
                    for r in out
                    if r.host == h and r.left_out is not None
                ),
                None,
            ),
        )
        for h in HOSTS
    }


def test_quotas_and_delays_cap_each_host_and_what_is_left_out_is_counted(engine):
    assert chosen(engine, CFG, NOON) == {
        h: (n, (why, due - n) if why else None) for h, (*_, due, n, why) in HOSTS.items()
    }


def test_a_day_that_begins_in_the_round_gives_its_pages(engine):
    got = chosen(engine, CFG, 19677 * 86_400 - 600.0)
    assert got["today.example"] == (5, None)
    assert got["fresh.example"] == (12, ("host_round_quota", 3))
    assert got["cycle.example"] == (1, ("host_cycle_quota", 4))


def test_the_rows_that_stand_for_others_take_no_place_in_the_budget(engine):
    cfg = CFG.model_copy(update={"round": CFG.round.model_copy(update={"max_urls": 20})})
    got = chosen(engine, cfg, NOON)
    assert sum(n for n, _ in got.values()) == 20
    assert {h: left for h, (_, left) in got.items()} == {
        h: (why, due - n) if why else None for h, (*_, due, n, why) in HOSTS.items()
    }


def test_sql_says_what_the_rule_says(engine):
    for minutes in (1, 60, 13 * 60, 5 * 24 * 60):
        cfg = Config.model_validate(
            {
                "politeness": {"delay_s": 0, "host_day_quota": 10, "host_cycle_quota": 25},
                "round": {"minutes": minutes, "urls_per_host": 10**6},
            }
        )
        for h, (n, _) in chosen(engine, cfg, NOON).items():
            day, cycle, ms, own, due, *_ = HOSTS[h]
            state = HostState(
                h,
                **own,
                **(dict(zip(("quota_used", "quota_day"), day)) if day else {}),
                **(dict(zip(("cycle_used", "cycle_day"), cycle)) if cycle else {}),
            )
            if not ms:
                assert n == min(
                    due, pages_left(state, cfg.politeness, NOON, NOON + minutes * 60)[0]
                ), (h, minutes)


def test_an_earlier_hostdb_has_nothing_used(engine):
    """Its columns are null after reading (adapters/lake/delta.py)."""
    hosts = frame(engine, "hostdb", [{"host": "a.example", "quota_used": 9, "quota_day": "19676"}])
    crawldb = frame(
        engine,
        "crawldb",
        [
            row(
                n,
                url=f"http://a.example/{n}",
                host="a.example",
                domain="a.example",
                next_fetch=100.0,
            )
            for n in range(3)
        ],
    )
    crawldb = mark_orders(crawldb, Orders())
    out = collect(select_due(crawldb, hosts, frame(engine, "host_ranks", []), CFG, 200.0, NOON, 1))
    assert [(r.left_reason, r.left_out) for r in out] == [(None, None), ("host_day_quota", 2)]
    assert {c.name for c in TABLES["hostdb"].columns} >= {"cycle_used", "cycle_day"}


def test_what_may_not_be_fetched_is_counted_by_its_reason(engine):
    """Decision 10: no due row goes without a word. One host of each reason, three rows each."""
    names = ("barred.example", "waits.example", "stopped.example", "a.parked.example", "ok.example")
    rows = [
        row(
            0,
            url_key=f"{h}{n}".encode(),
            url=f"http://{h}/{n}",
            host=h,
            domain=h.removeprefix("a."),
            next_fetch=100.0,
        )
        for h in names
        for n in range(3)
    ]
    hosts = [
        {"host": "barred.example", "blacklisted": True},
        {"host": "waits.example", "next_allowed_at": NOON + CFG.round.minutes * 60},
    ]
    orders = Orders(hosts=["stopped.example"], domains=["parked.example"])
    due = collect(
        select_due(
            mark_orders(frame(engine, "crawldb", rows), orders),
            frame(engine, "hostdb", hosts),
            frame(engine, "host_ranks", []),
            CFG,
            200.0,
            NOON,
            1,
        )
    )
    assert {r.host: (r.left_reason, r.left_out) for r in due if r.left_out is not None} == {
        "barred.example": ("host_blocked", 3),
        "waits.example": ("retry_after", 3),
        "stopped.example": ("stop_list", 3),
        "a.parked.example": ("stop_list", 3),
    }
    assert sorted(r.host for r in due if r.left_out is None) == ["ok.example"] * 3
