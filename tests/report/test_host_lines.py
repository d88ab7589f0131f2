"""What is told of a host: its delay with the rule that set it, its robots.txt, what holds it."""

from __future__ import annotations

import pytest
from crawlkit.config import Config
from crawlkit.report.host_lines import tell_hosts, tell_robots
from crawlkit.rules.politeness.host_state import HostState

CFG = Config.model_validate({"politeness": {"delay_s": 2.0}})


def row(state: HostState | None, **more) -> dict:
    text = None if state is None else state.to_json()
    told = {"host": "a.test", "robots": "200", "breaker": None, "blacklisted": None}
    return {**told, "reason": None, "state_json": text} | more


@pytest.mark.parametrize(
    ("state", "delay", "source"),
    [
        (None, 2.0, "setting politeness.delay_s"),
        (HostState("a.test"), 2.0, "setting politeness.delay_s"),
        (HostState("a.test", robots_delay_s=5.0), 5.0, "robots.txt, Crawl-delay"),
        (HostState("a.test", adaptive_s=8.0), 8.0, "adaptive: its answers are slow"),
        (HostState("a.test", operator_delay_s=0.5, robots_delay_s=5.0), 0.5, "operator"),
    ],
)
def test_the_delay_and_who_set_it(state, delay, source):
    (told,) = tell_hosts([row(state)], CFG)
    assert (told["delay_s"], told["delay_source"]) == (delay, source)
    assert "state_json" not in told


def test_a_state_that_cannot_be_read_is_that_of_a_new_host():
    (told,) = tell_hosts([row(None, state_json="{broken")], CFG)
    assert told["delay_s"] == 2.0


def test_what_holds_a_host_back():
    late = HostState("a.test", last_request_end=100.0, retry_after_until=160.0)
    rows = [row(late), row(None, blacklisted=True, reason="asked us"), row(None, breaker="open")]
    assert [t["held"] for t in tell_hosts(rows, CFG)] == [
        "Retry-After",
        "blocked: asked us",
        "breaker open: ",
    ]


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (None, "not asked yet"),
        ("200", "200: its rules hold"),
        ("404", "404: all is allowed"),
        ("429", "429: nothing for now, asked again"),
        ("503", "503: nothing for now, asked again"),
        ("unreachable: timeout", "unreachable: timeout, asked again"),
    ],
)
def test_what_an_answer_for_robots_means(state, told):
    assert tell_robots(state, "defer") == told


def test_a_429_may_mean_all_is_allowed():
    assert tell_robots("429", "allow") == "429: all is allowed"
