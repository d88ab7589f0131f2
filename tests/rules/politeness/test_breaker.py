"""Slow lane, breaker and blocked state. Expected values: REQUIREMENTS D5 and D12 by hand."""

from __future__ import annotations

import pytest
from crawlkit.config import Config
from crawlkit.outcomes import Reason
from crawlkit.rules.politeness.block_pages import challenge_of
from crawlkit.rules.politeness.breaker import errors_1h
from crawlkit.rules.politeness.host_state import (
    Event,
    HostState,
    after_answer,
    effective_delay_s,
    may_send,
)

CFG = Config()
T0 = 1_700_006_400.0


def feed(
    state: HostState, *events: tuple[float, int | None], challenge: str | None = None
) -> HostState:
    for t, status in events:
        state = after_answer(state, Event(T0 + t, T0 + t, status, challenge=challenge), CFG)
    return state


def every(
    seconds: float, n: int, status: int | None, first: float = 0.0
) -> list[tuple[float, int | None]]:
    return [(first + i * seconds, status) for i in range(n)]


def test_five_server_errors_in_a_day_take_the_host_down_for_an_hour():
    assert not feed(HostState("h"), *every(14_400, 4, 500)).health.down
    state = feed(HostState("h"), *every(14_400, 5, 500))
    assert may_send(state, T0 + 57_600, CFG) == (T0 + 57_600 + 3600, Reason.BREAKER_OPEN)
    assert not feed(
        HostState("h"), *every(22_000, 5, 500)
    ).health.down  # the first is older than 24 h


def test_one_probe_decides():
    state = feed(HostState("h"), *every(60, 5, 500))
    back = feed(state, (240 + 3600, 200))
    assert not back.health.down
    assert not feed(back, (4000, 500)).health.down  # the count began anew
    again = feed(state, (240 + 3600, 503))
    assert again.health.down_until == T0 + 3840 + 7200
    assert feed(again, (11_040, 500)).health.down_until == T0 + 11_040 + 14_400


def test_an_answer_to_a_request_sent_before_the_host_went_down_is_no_probe():
    state = feed(HostState("h"), *every(60, 5, 500))
    for status in (200, 500):
        assert feed(state, (300, status)).health.down_until == state.health.down_until


def test_down_time_has_a_ceiling_and_is_forgotten_after_a_quiet_day():
    state = feed(HostState("h"), *every(60, 5, 500))
    for _ in range(10):
        t = state.health.down_until - T0
        state = feed(state, (t, 500))
    assert state.health.down_until - T0 - t == CFG.breaker.max_down_s
    t = state.health.down_until - T0
    state = feed(state, (t, 200), *every(60, 5, 500, t + 90_000))
    assert state.health.down_until == T0 + t + 90_240 + 3600


def test_slow_lane_over_a_fifth_of_an_hours_answers():
    healthy = every(1, 40, 200)
    assert (
        feed(HostState("h"), *healthy, *every(1, 10, None, 50)).health.slow_until == 0.0
    )  # 10 of 50 is 20 %
    state = feed(HostState("h"), *healthy, *every(1, 11, None, 50))
    assert state.health.slow_until == T0 + 60 + 3600
    assert effective_delay_s(state, CFG.politeness, T0 + 61) == (30.0, "slow lane")
    assert may_send(state, T0 + 61, CFG) == (T0 + 60 + 30, Reason.HOST_SLOW)
    assert effective_delay_s(state, CFG.politeness, T0 + 3661).seconds < 30


def test_few_requests_prove_nothing_and_old_ones_do_not_count():
    assert feed(HostState("h"), *every(1, 9, None)).health.slow_until == 0.0
    state = feed(HostState("h"), *every(1, 9, None), (3700, None))
    assert state.health.slow_until == 0.0
    assert errors_1h(state.health, T0 + 3700) == (1, 1)


@pytest.mark.parametrize("status", [404, 410, 400])
def test_client_errors_are_answers(status):
    state = feed(HostState("h"), *every(1, 100, status))
    assert not state.health.down
    assert state.health.slow_until == 0.0


@pytest.mark.parametrize("status", [403, 429])
def test_a_run_of_denials_marks_the_host_as_blocked(status):
    assert not feed(HostState("h"), *every(1, 9, status), (9, 200), (10, status)).health.down
    state = feed(HostState("h"), *every(1, 10, status))
    assert may_send(state, T0 + 10, CFG) == (T0 + 9 + 3600, Reason.HOST_BLOCKED)
    assert feed(state, (3700, status)).health.down_until == T0 + 3700 + 7200
    assert not feed(state, (3700, 404)).health.down


def test_a_challenge_marks_the_host_as_blocked():
    state = feed(HostState("h"), (0, 403), challenge="cloudflare")
    assert state.health.down_reason == Reason.HOST_BLOCKED
    assert "cloudflare" in state.health.down_detail


def test_a_busy_probe_neither_closes_nor_lengthens():
    state = feed(HostState("h"), *every(60, 5, 500))
    busy = feed(state, (4000, 429))
    assert busy.health.down
    assert busy.health.down_until == state.health.down_until


@pytest.mark.parametrize(
    ("status", "headers", "body", "expected"),
    [
        (403, [("CF-Mitigated", "challenge")], b"", "cloudflare"),
        (200, [("cf-mitigated", "challenge")], b"", "cloudflare"),
        (429, [("x-vercel-mitigated", "challenge")], b"", "vercel"),
        (202, [("x-amzn-waf-action", "challenge")], b"", "aws-waf"),
        (503, [], b"<script src='/cdn-cgi/challenge-platform/h/b'>", "cloudflare"),
        (403, [], b"<iframe src='https://geo.captcha-delivery.com/captcha/'>", "datadome"),
        (
            200,
            [],
            b"<script src='/cdn-cgi/challenge-platform/scripts/jsd/main.js'>",
            None,
        ),  # injected into ordinary pages
        (403, [("Server", "nginx")], b"<h1>Forbidden</h1>", None),
        (403, [], b" " * 40_000 + b"cf_chl_opt", None),  # only the beginning is read
    ],
)
def test_challenge_pages(status, headers, body, expected):
    assert challenge_of(status, headers, body) == expected
