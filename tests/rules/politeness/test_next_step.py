"""Nothing is deferred without a next step: a time at which something is different, the next round,
or an operator who is told what to do.
"""

from __future__ import annotations

import math

from crawlkit.config import Config
from crawlkit.outcomes import REMEDIES, Reason
from crawlkit.rules.politeness.host_state import Event, HostState, after_answer, may_send
from hypothesis import given, strategies as st

from tests.examples import examples

# held by a time that the host's state knows: the law below
BY_TIME = {
    *(Reason.RETRY_AFTER, Reason.BREAKER_OPEN, Reason.HOST_SLOW, Reason.HOST_BLOCKED),
    *(Reason.HOST_DAY_QUOTA, Reason.HOST_CYCLE_QUOTA),
}
# other things hold in the next round: its time, its room, its slots, its quotas of hosts and
# domains; robots.txt is asked again (tests/slot, tests/stages/test_generate.py,
# tests/rounds/test_moved_robots.py)
NEXT_ROUND = {
    *(Reason.ROUND_TIME, Reason.ROUND_BYTES, Reason.SLOT_LOST, Reason.LEASE_LOST),
    *(Reason.HOST_ROUND_QUOTA, Reason.DOMAIN_DAY_QUOTA, Reason.DOMAIN_CYCLE_QUOTA),
    *(Reason.ROBOTS_UNREACHABLE, Reason.ROBOTS_429, Reason.ROBOTS_FOREIGN_HOST),
    Reason.RENDER_FOREIGN_HOST,
}
OPERATOR = {Reason.STOP_LIST, Reason.DISK_FULL, Reason.RENDER_MISSING}
DAY_S = 86_400.0
CFG = Config.model_validate({"politeness": {"host_day_quota": 5, "host_cycle_quota": 9}})

statuses = st.sampled_from([200, 200, 304, 403, 404, 429, 500, 503, None])
waits = st.sampled_from([None, None, "5", "86400", "9" * 30, "Wed, 21 Oct 2099 07:28:00 GMT", "x"])
events = st.tuples(
    statuses, waits, st.floats(0, 1e5), st.floats(0, 300), st.sampled_from([None, "captcha"])
)


@given(st.lists(events, max_size=40))
@examples(300)
def test_a_host_that_waits_is_asked_again(answers):
    """Whatever it answers, it may be asked at the time that is told: none waits for ever."""
    state, now = HostState("a.example"), 1_767_225_600.0
    for status, wait, pause_s, took_s, challenge in answers:
        begun = now + pause_s
        now = begun + took_s
        event = Event(begun, now, status, wait, challenge=challenge)
        state = after_answer(state, event, CFG, 0.5)
    at, told = now, []
    for _ in range(20):
        permit = may_send(state, at, CFG)
        if permit.at <= at:
            break
        assert math.isfinite(permit.at) and permit.reason in {*BY_TIME, None}, permit
        told.append(permit)
        at = permit.at
    else:
        raise AssertionError(told)
    assert at - now <= 31 * DAY_S, told


def test_every_deferral_has_its_step():
    """The lists are those of outcomes.py; what an operator must do is told."""
    names = [*Reason]
    listed = {*names[names.index(Reason.ROUND_TIME) : names.index(Reason.RENDER_TIMEOUT)]}
    listed |= {Reason.ROBOTS_UNREACHABLE, Reason.ROBOTS_429, Reason.ROBOTS_FOREIGN_HOST}
    listed |= {Reason.RENDER_MISSING, Reason.RENDER_FOREIGN_HOST}
    assert BY_TIME | NEXT_ROUND | OPERATOR == listed
    assert {*REMEDIES} >= OPERATOR
