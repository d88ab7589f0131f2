"""Politeness of one host. Expected values: REQUIREMENTS D2 to D8 by hand; laws by hypothesis."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from crawlkit.config import Breaker, Config, Politeness
from crawlkit.outcomes import Reason
from crawlkit.rules.politeness.host_state import (
    Event,
    HostState,
    after_answer,
    effective_delay_s,
    first_day,
    floor_delay_s,
    group_delay_s,
    is_urgent,
    may_send,
    pages_left,
)
from hypothesis import given, strategies as st

CFG = Config()
T0 = 1_700_006_400.0


def ask(
    state: HostState,
    *answers: tuple[int | None, float],
    start: float = T0,
    cfg: Config = CFG,
    gap_s: float = 10.0,
) -> HostState:
    """The state after answers (status, seconds), the next one `gap_s` after each end."""
    for status, seconds in answers:
        state = after_answer(state, Event(start, start + seconds, status), cfg)
        start += seconds + gap_s
    return state


@pytest.mark.parametrize(
    ("robots_s", "operator_s", "expected", "why"),
    [
        (None, None, 1.0, "own delay"),
        (0.1, None, 1.0, "own delay"),  # never makes us faster
        (10.0, None, 10.0, "Crawl-delay"),
        (301.0, None, 300.0, "ceiling"),
        (10.0, 0.2, 0.2, "operator"),  # negotiated
        (2.0, 20.0, 20.0, "operator"),
        (None, 0.0, 0.0, "operator"),
        (math.nan, None, 1.0, "own delay"),
    ],
)
def test_floor(robots_s, operator_s, expected, why):
    delay = floor_delay_s(
        HostState("h", robots_delay_s=robots_s, operator_delay_s=operator_s), CFG.politeness
    )
    assert delay.seconds == expected
    assert why in delay.why


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([(200, 2.5)], 1.5),
        ([(200, 2.0)], 1.0),  # 2 s is not more than 2 s
        ([(200, 2.5)] * 2, 2.25),
        ([(200, 3.0)] * 20, 30.0),  # up to max_delay_s
        ([(503, 0.1)], 2.0),
        ([(429, 0.1)] * 10, 60.0),  # up to max_backoff_s
        ([(429, 0.1)] * 3 + [(200, 0.1)], 6.4),
        ([(429, 0.1)] * 3 + [(200, 0.5)], 8.0),  # 500 ms is not less than 500 ms
        ([(429, 0.1)] * 3 + [(200, 0.1)] * 30, 1.0),  # down to the floor
        ([(429, 0.1)] * 10 + [(200, 3.0)], 60.0),  # a slow answer never shortens
        ([(None, 30.0)], 1.5),  # a timeout is a slow answer
        ([(429, 0.1), (500, 0.1)], 2.0),  # a quick failure earns nothing
        ([(404, 0.1)], 1.0),
    ],
)
def test_adaptive_delay(answers, expected):
    assert effective_delay_s(
        ask(HostState("h"), *answers), CFG.politeness
    ).seconds == pytest.approx(expected)


def test_adaptation_starts_from_the_floor_in_force():
    state = ask(HostState("h", robots_delay_s=10.0), (503, 0.1))
    assert effective_delay_s(state, CFG.politeness) == (20.0, "adaptive")
    assert (
        effective_delay_s(
            ask(HostState("h", robots_delay_s=100.0), (503, 0.1)), CFG.politeness
        ).seconds
        == 100.0
    )


def test_exempt_host_backs_off_too():
    assert (
        effective_delay_s(
            ask(HostState("h", operator_delay_s=0.0), (429, 0.1), (429, 0.1)), CFG.politeness
        ).seconds
        == 2.0
    )


def test_jitter_lengthens_the_next_gap_only():
    busy = after_answer(HostState("h"), Event(T0, T0, 503), CFG, jitter=0.5)
    assert may_send(busy, T0, CFG).at == T0 + 2.0 * 1.125
    calm = after_answer(busy, Event(T0 + 9, T0 + 10, 200), CFG, jitter=0.5)
    assert may_send(calm, T0 + 10, CFG).at == T0 + 12.0


def test_gap_runs_from_the_end():
    state = after_answer(HostState("h"), Event(T0, T0 + 1.9, 200), CFG)
    assert may_send(state, T0 + 2, CFG) == (T0 + 1.9 + 1.0, None)


def test_retry_after_is_host_wide_and_the_longest_holds():
    state = after_answer(HostState("h"), Event(T0, T0, 429, retry_after="120"), CFG)
    state = after_answer(state, Event(T0, T0 + 1, 429, retry_after="7"), CFG)
    assert may_send(state, T0 + 2, CFG) == (T0 + 120, Reason.RETRY_AFTER)
    assert (
        after_answer(HostState("h"), Event(T0, T0, 200, retry_after="120"), CFG).retry_after_until
        == 0.0
    )


def test_day_quota_counts_pages_only_and_ends_at_midnight():
    cfg = Config(politeness=Politeness(host_day_quota=2, delay_s=0))
    state = after_answer(HostState("h"), Event(T0, T0, 200, is_page=False), cfg)
    state = ask(state, (200, 0.1), (200, 0.1), cfg=cfg)
    midnight = (T0 // 86_400 + 1) * 86_400
    assert may_send(state, T0 + 50, cfg) == (midnight, Reason.HOST_DAY_QUOTA)
    assert may_send(state, T0 + 50, cfg, is_page=False).at <= T0 + 50
    assert may_send(state, midnight, cfg).at <= midnight
    assert may_send(HostState("h", quota_max=0), T0, cfg).at == math.inf


# 2023-11-15 00:00 is day 19676 since 1970; cycles of 30 days begin on day 19650 (655 x 30) and
# 19680
@pytest.mark.parametrize(
    ("now", "days", "first"),
    [
        (19676 * 86_400.0, 30, 19650),
        (19680 * 86_400.0 - 0.1, 30, 19650),
        (19680 * 86_400.0, 30, 19680),
        (19676 * 86_400.0, 1, 19676),
        (0.0, 30, 0),
    ],
)
def test_windows_are_fixed_days_since_1970(now, days, first):
    assert first_day(now, days) == first


def test_cycle_quota_outlasts_midnight_and_ends_with_the_cycle():
    cfg = Config(politeness=Politeness(host_day_quota=2, host_cycle_quota=3, delay_s=0))
    noon = 19676.5 * 86_400
    state = ask(HostState("h"), (200, 0.1), (200, 0.1), start=noon, cfg=cfg)
    assert may_send(state, noon + 50, cfg) == (19677 * 86_400, Reason.HOST_DAY_QUOTA)
    state = ask(state, (200, 0.1), start=noon + 86_400, cfg=cfg)
    assert (state.cycle_day, state.cycle_used, state.quota_used) == (19650, 3, 1)
    assert may_send(state, noon + 86_450, cfg) == (19680 * 86_400, Reason.HOST_CYCLE_QUOTA)
    assert may_send(state, noon + 86_450, cfg, is_page=False).at <= noon + 86_450
    assert may_send(state, 19680 * 86_400.0, cfg).at <= 19680 * 86_400
    state = ask(state, (200, 0.1), start=19680.5 * 86_400, cfg=cfg)
    assert (state.cycle_day, state.cycle_used) == (19680, 1)


def test_operators_cycle_quota_holds_instead_and_none_is_forever():
    cfg = Config(politeness=Politeness(host_cycle_quota=3, delay_s=0))
    state = ask(HostState("h", cycle_quota_max=5), *[(200, 0.1)] * 4, cfg=cfg)
    assert may_send(state, T0 + 100, cfg).reason is None
    assert may_send(HostState("h", cycle_quota_max=0), T0, cfg) == (
        math.inf,
        Reason.HOST_CYCLE_QUOTA,
    )
    longer = Config(
        politeness=Politeness(host_cycle_quota=4, cycle_days=7, delay_s=0)
    )  # the window's first day is another one now: counted anew
    assert (
        may_send(ask(HostState("h"), *[(200, 0.1)] * 4, cfg=cfg), T0 + 100, longer).reason is None
    )


@pytest.mark.parametrize(
    ("used_day", "used_cycle", "hours", "expected"),
    [
        (0, 0, 1, (10, Reason.HOST_DAY_QUOTA)),
        (4, 4, 1, (6, Reason.HOST_DAY_QUOTA)),
        (4, 20, 1, (5, Reason.HOST_CYCLE_QUOTA)),
        (10, 25, 1, (0, Reason.HOST_DAY_QUOTA)),
        (0, 25, 1, (0, Reason.HOST_CYCLE_QUOTA)),
        (4, 4, 13, (16, Reason.HOST_DAY_QUOTA)),  # a day begins in between
        (4, 4, 36.5, (21, Reason.HOST_CYCLE_QUOTA)),  # two days: 26 by the day's, 21 by the cycle's
        (4, 20, 24 * 4, (30, Reason.HOST_CYCLE_QUOTA)),  # the next cycle begins on day 19680
        (11, 30, 1, (0, Reason.HOST_DAY_QUOTA)),
    ],
)
def test_pages_left(used_day, used_cycle, hours, expected):
    p = Politeness(host_day_quota=10, host_cycle_quota=25)
    state = HostState(
        "h", quota_day=19676, quota_used=used_day, cycle_day=19650, cycle_used=used_cycle
    )
    assert pages_left(state, p, 19676.5 * 86_400, 19676.5 * 86_400 + hours * 3600) == expected
    assert pages_left(
        HostState("h", quota_day=19675, quota_used=10, cycle_day=19620, cycle_used=25),
        p,
        19676.5 * 86_400,
        19676.5 * 86_400,
    ) == (10, Reason.HOST_DAY_QUOTA)


def test_barred_host():
    assert may_send(HostState("h", barred=True), T0, CFG) == (math.inf, Reason.STOP_LIST)


def test_operator_rate_holds_for_domain_and_address():
    assert group_delay_s(HostState("h"), 0.5, 0.1) == 0.5
    assert group_delay_s(HostState("h", operator_delay_s=0.1), 0.5, 0.1) == 0.1
    assert group_delay_s(HostState("h", operator_delay_s=0.1), 0.5, 0.8) == 0.5


def test_urgent_events():
    state = HostState("h")
    for status, expected in ((200, False), (404, False), (429, True), (503, True)):
        event = Event(T0, T0, status)
        assert is_urgent(state, after_answer(state, event, CFG), event) is expected
    before = ask(HostState("h"), *[(500, 0.1)] * 4)
    event = Event(T0 + 100, T0 + 100, 500)
    assert is_urgent(before, after_answer(before, event, CFG), event)


def test_addresses_are_kept_newest_first():
    state = HostState("h")
    for ip in ("192.0.2.1", "192.0.2.2", "192.0.2.1", None):
        state = after_answer(state, Event(T0, T0, 200, ip=ip), CFG)
    assert state.last_ips == ["192.0.2.1", "192.0.2.2"]


# --- the state as JSON


def test_json_round_trip():
    state = ask(
        HostState("h", robots_delay_s=3.0, quota_max=7), (503, 0.1), (None, 3.0), (200, 0.3)
    )
    assert HostState.from_json(state.to_json()) == state


def test_json_of_another_version():
    row = json.loads(HostState("h").to_json()) | {"later_field": [1]}
    del row["avg_ms"]
    row["health"]["other"] = 1
    assert HostState.from_json(json.dumps(row)) == HostState("h")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        "{}",
        '{"host": 1}',
        '{"host": "h", "adaptive_s": "1"}',
        '{"host": "h", "adaptive_s": NaN}',
        '{"host": "h", "health": []}',
        '{"host": "h", "health": {"minutes": [1]}}',
        '{"host": "h", "health": {"minutes": [["a", 1, 1]]}}',
        "[" * 100_000,
    ],
)
def test_unusable_json_is_a_value_error(text):
    with pytest.raises(ValueError):
        HostState.from_json(text)


# --- laws

ANSWERS = st.lists(
    st.tuples(
        st.sampled_from([200, 200, 200, 301, 304, 403, 404, 408, 429, 500, 503, None]),
        st.floats(0, 40),
        st.sampled_from([None, None, "0", "5", "100000", "soon", "Fri, 01 Mar 2024 12:02:00 GMT"]),
        st.floats(0, 0.999),
    ),
    max_size=60,
)


@given(
    ANSWERS,
    st.sampled_from([None, 0.1, 4.0, 1e9]),
    st.sampled_from([None, 0.0, 0.3, 20.0]),
    st.sampled_from([5, 1000]),
)
def test_law_no_gap_below_the_floor_in_force(answers, robots_s, operator_s, quota):
    """Whatever a server answers, a request allowed by may_send starts at least the floor after the
    last end.
    """
    cfg = Config(politeness=Politeness(host_day_quota=quota))
    state = HostState("h", robots_delay_s=robots_s, operator_delay_s=operator_s)
    floor = floor_delay_s(state, cfg.politeness).seconds
    now, last_end = T0, None
    for status, seconds, retry_after, jitter in answers:
        permit = may_send(state, now, cfg)
        assert not math.isinf(permit.at) or permit.at < 0
        while permit.at > now:  # the state may hold several reasons one after the other
            now = permit.at
            permit = may_send(state, now, cfg)
        if last_end is not None:
            assert now - last_end >= floor - 1e-6
            assert now >= state.retry_after_until
            assert not state.health.down or now >= state.health.down_until
        last_end = now + seconds
        state = after_answer(state, Event(now, last_end, status, retry_after), cfg, jitter)
        assert (
            floor
            <= effective_delay_s(state, cfg.politeness).seconds
            <= max(floor, cfg.politeness.max_backoff_s)
        )
        assert HostState.from_json(state.to_json()) == state
        now = last_end


@given(
    st.lists(st.tuples(st.floats(0, 40), st.floats(0, 200_000), st.booleans()), max_size=80),
    st.integers(0, 4),
    st.integers(0, 6),
    st.integers(1, 4),
)
def test_law_no_day_and_no_cycle_has_more_pages_than_its_quota(
    requests, day_quota, cycle_quota, cycle_days
):
    """Counted here by the end of each page; and whoever waits as long as is said meets no quota
    that is still used up.
    """
    cfg = Config(
        politeness=Politeness(
            host_day_quota=day_quota, host_cycle_quota=cycle_quota, cycle_days=cycle_days
        )
    )
    state, now = HostState("h"), T0
    ended: list[float] = []
    for seconds, pause_s, is_page in requests:
        left, reason = pages_left(state, cfg.politeness, now, now)
        permit = may_send(state, now, cfg, is_page)
        held = permit.reason in (Reason.HOST_DAY_QUOTA, Reason.HOST_CYCLE_QUOTA)
        assert held == (is_page and left == 0) or permit.at > now
        if held and not math.isinf(permit.at):
            assert (
                may_send(state, permit.at, cfg, is_page).at <= permit.at
                or may_send(state, permit.at, cfg, is_page).reason is not permit.reason
            )
        if not held:
            now = max(now, permit.at) + seconds
            state = after_answer(state, Event(now - seconds, now, 200, is_page=is_page), cfg)
            ended += [now] * is_page
        now += pause_s
    for days, quota in ((1, day_quota), (cycle_days, cycle_quota)):
        windows = [int(t // 86_400) // days for t in ended]
        assert all(windows.count(w) <= quota for w in windows)


@given(ANSWERS)
def test_law_the_state_is_bounded(answers):
    state, now = HostState("h"), T0
    for status, seconds, _, _ in answers * 20:
        state = after_answer(state, Event(now, now + seconds, status), CFG)
        now += seconds + 61
    assert len(state.health.minutes) <= 60
    assert len(state.health.server_errors) <= Breaker().server_errors
    assert len(state.to_json()) < 3000


# --- the documentation


def test_the_documented_table_is_what_happens():
    text = (Path(__file__).resolve().parents[3] / "docs/rules/politeness.md").read_text("utf-8")
    rows = [
        line.split("|")[1:5]
        for line in text.partition("## The next delay")[2].partition("\n##")[0].splitlines()
        if line.startswith("|")
    ][2:]
    assert len(rows) == 12
    for status, seconds, before, after in rows:
        state = HostState("h", adaptive_s=float(before))
        status = None if status.strip() == "none" else int(status)
        got = effective_delay_s(ask(state, (status, float(seconds))), CFG.politeness).seconds
        assert got == pytest.approx(float(after)), (status, seconds, before)
