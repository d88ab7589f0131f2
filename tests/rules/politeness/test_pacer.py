"""The pacer of a task under a simulated clock: laws of REQUIREMENTS D2 for any mix of hosts,
domains, addresses.
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass

import pytest
from crawlkit.config import Config, Politeness
from crawlkit.outcomes import Reason
from crawlkit.rules.politeness.host_state import Event, HostState, after_answer
from crawlkit.rules.politeness.pacer import GiveUp, Pacer, Resolve
from crawlkit.rules.politeness.pacing_audit import Sent, violations
from hypothesis import given, settings, strategies as st

from tests.cputime import within

T0 = 1_700_006_400.0


@dataclass(frozen=True)
class Job:
    n: int = 0
    is_page: bool = True


class Simulation:
    """A task whose requests take the time and have the status that `answer(host, job)` says."""

    def __init__(
        self,
        pacer: Pacer,
        cfg: Config,
        domains: dict[str, str],
        addresses: dict[str, str],
        answer,
        in_flight: int = 1000,
    ) -> None:
        self.pacer, self.cfg, self.domains, self.addresses, self.answer = (
            pacer,
            cfg,
            domains,
            addresses,
            answer,
        )
        self.in_flight, self.now, self.log, self.order, self.gave_up, self.steps = (
            in_flight,
            T0,
            [],
            [],
            {},
            0,
        )

    def run(self) -> None:
        open_: list = []
        while True:
            self.steps += 1
            while open_ and open_[0][0] <= self.now:
                end, _, step, start, status = heapq.heappop(open_)
                state = self.pacer.state(step.host)
                self.pacer.set_state(
                    step.host,
                    after_answer(
                        state, Event(start, end, status, is_page=step.job.is_page), self.cfg
                    ),
                )
                self.pacer.end(step)
            step = self.pacer.next(self.now) if len(open_) < self.in_flight else None
            if isinstance(step, Resolve):
                self.pacer.set_address(step.host, self.addresses[step.host])
            elif isinstance(step, GiveUp):
                self.gave_up[step.host] = (step.reason, self.pacer.drain(step.host))
            elif step is not None:
                seconds, status = self.answer(step.host, step.job)
                parallel = self.pacer.state(step.host).parallel
                self.log.append(
                    Sent(
                        step.host,
                        self.now,
                        self.now + seconds,
                        step.delay_s,
                        self.domains[step.host],
                        self.addresses[step.host],
                        parallel=parallel,
                    )
                )
                self.order.append((step.host, step.job.n))
                heapq.heappush(open_, (self.now + seconds, self.steps, step, self.now, status))
            else:
                ahead = min(
                    open_[0][0] if open_ else math.inf,
                    self.pacer.next_time() if len(open_) < self.in_flight else math.inf,
                )
                if math.isinf(ahead):
                    return
                assert ahead >= self.now
                self.now = max(ahead, math.nextafter(self.now, math.inf))


def simulate(cfg, domains, addresses, jobs, answer, deadline_s=1e9, states=(), **kw) -> Simulation:
    pacer = Pacer(cfg, T0 + deadline_s)
    known = {s.host: s for s in states}
    for host, domain in domains.items():
        pacer.add_host(domain, known.get(host) or HostState(host))
    for host, n in jobs.items():
        for i in range(n):
            pacer.push(host, Job(i))
    sim = Simulation(pacer, cfg, domains, addresses, answer, **kw)
    sim.run()
    return sim


HOSTS = [f"h{i}" for i in range(6)]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from("xyz"), min_size=6, max_size=6),
    st.lists(st.sampled_from("123456"), min_size=6, max_size=6),
    st.lists(st.integers(0, 6), min_size=6, max_size=6),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.lists(st.sampled_from([None, None, 0.1, 3.0]), min_size=6, max_size=6),
    st.lists(st.sampled_from([1, 1, 1, 2]), min_size=6, max_size=6),
    st.integers(0, 2**32),
)
def test_law_no_request_too_early_and_none_forgotten(
    domains, ips, jobs, in_flight, domain_s, ip_s, operator, parallel, seed
):
    rng = random.Random(seed)
    cfg = Config(politeness=Politeness(domain_delay_s=domain_s, ip_delay_s=ip_s))
    sim = simulate(
        cfg,
        dict(zip(HOSTS, domains)),
        dict(zip(HOSTS, ips)),
        dict(zip(HOSTS, jobs)),
        lambda host, job: (
            rng.choice([0.0, 0.05, 0.4, 3.0]),
            rng.choice([200, 200, 404, 429, 500]),
        ),
        states=[
            HostState(h, operator_delay_s=o, parallel=p)
            for h, o, p in zip(HOSTS, operator, parallel)
        ],
        in_flight=in_flight,
    )
    sent = len(sim.log) + sum(len(left) for _, left in sim.gave_up.values())
    assert sent == sum(jobs)
    log = sim.log
    assert [v for v in violations(log) if v.kind == "host"] == []
    if set(parallel) == {1}:  # an operator's parallel requests overlap in domain and address too
        assert violations(log, domain_s, ip_s) == []
    for host in HOSTS:
        assert [n for h, n in sim.order if h == host] == sorted(
            n for h, n in sim.order if h == host
        )


def test_one_host_takes_its_gap_from_the_end():
    sim = simulate(Config(), {"h": "h"}, {"h": "1"}, {"h": 3}, lambda *_: (0.6, 200))
    assert [round(r.started - T0, 3) for r in sim.log] == [0.0, 1.6, 3.2]


def test_hosts_run_side_by_side():
    names = {f"h{i}": f"h{i}" for i in range(50)}
    sim = simulate(Config(), names, names, dict.fromkeys(names, 3), lambda *_: (0.6, 200))
    assert max(r.started for r in sim.log) - T0 == pytest.approx(3.2)


def test_hosts_of_a_domain_alternate_at_its_floor():
    sim = simulate(
        Config(),
        {"a": "x", "b": "x"},
        {"a": "1", "b": "2"},
        {"a": 2, "b": 2},
        lambda *_: (0.1, 200),
    )
    assert [(r.host, round(r.started - T0, 3)) for r in sim.log] == [
        ("a", 0.0),
        ("b", 0.6),
        ("a", 1.2),
        ("b", 1.8),
    ]


def test_a_host_that_cannot_be_asked_in_time_is_given_up_with_the_reason():
    states = [
        HostState("a", retry_after_until=T0 + 100),
        HostState("b", robots_delay_s=20.0),
        HostState("c", barred=True),
    ]
    sim = simulate(
        Config(),
        dict.fromkeys("abc", "") | {"a": "a", "b": "b", "c": "c"},
        dict.fromkeys("abc", "1"),
        {"a": 2, "b": 5, "c": 1},
        lambda *_: (0.0, 200),
        deadline_s=50,
        states=states,
    )
    reasons = {host: (reason, len(left)) for host, (reason, left) in sim.gave_up.items()}
    assert reasons == {
        "a": (Reason.RETRY_AFTER, 2),
        "b": (Reason.ROUND_TIME, 2),
        "c": (Reason.STOP_LIST, 1),
    }


def test_a_wait_that_fits_is_waited_for():
    sim = simulate(
        Config(),
        {"a": "a"},
        {"a": "1"},
        {"a": 1},
        lambda *_: (0.0, 200),
        deadline_s=50,
        states=[HostState("a", retry_after_until=T0 + 40)],
    )
    assert sim.log[0].started == T0 + 40


def test_a_host_on_the_stop_list_is_given_up_before_its_next_request():
    pacer = Pacer(Config(politeness=Politeness(ip_delay_s=0)), T0 + 100)
    pacer.add_host("x", HostState("a"))
    for i in range(3):
        pacer.push("a", Job(i))
    ticket = pacer.next(T0)
    pacer.bar("a", Reason.STOP_LIST)
    pacer.set_state("a", after_answer(HostState("a"), Event(T0, T0, 200), Config()))
    pacer.end(ticket)
    assert pacer.next(T0) == GiveUp("a", Reason.STOP_LIST)
    assert pacer.drain("a") == [Job(1), Job(2)]


def test_the_gap_is_kept_across_a_restart():
    pacer = Pacer(Config(), T0 + 100, quiet_since=T0)
    pacer.add_host("x", HostState("a"))
    pacer.push("a", Job())
    assert pacer.next(T0 + 0.5) is None
    assert pacer.next_time() == T0 + 1.0


def test_urgent_jobs_go_first_and_later_jobs_wait():
    pacer = Pacer(
        Config(politeness=Politeness(delay_s=0, domain_delay_s=0, ip_delay_s=0)), T0 + 100
    )
    pacer.add_host("x", HostState("a"))
    pacer.push("a", Job(3), not_before=T0 + 5)
    pacer.push("a", Job(2))
    pacer.push("a", Job(1), urgent=True)
    seen, now = [], T0
    while (step := pacer.next(now)) is not None or pacer.next_time() < math.inf:
        if step is None:
            now = max(now, pacer.next_time())
            continue
        seen.append((step.job.n, now - T0))
        pacer.give_back(step)
    assert seen == [(1, 0.0), (2, 0.0), (3, 5.0)]


def test_a_down_host_gets_one_probe_even_with_parallel_requests():
    state = HostState("a", parallel=4, operator_delay_s=0.0)
    state.health.down_reason, state.health.down_until = "breaker_open", T0 + 10
    pacer = Pacer(Config(), T0 + 100)
    pacer.add_host("x", state)
    for i in range(4):
        pacer.push("a", Job(i))
    assert pacer.next(T0 + 9) is None
    assert isinstance(pacer.next(T0 + 10), Resolve)
    pacer.set_address("a", "1")
    assert pacer.next(T0 + 10).host == "a"
    assert pacer.next(T0 + 11) is None
    assert pacer.next_time() == math.inf


@pytest.mark.parametrize(
    ("own", "reason"),
    [({"quota_max": 5}, Reason.HOST_DAY_QUOTA), ({"cycle_quota_max": 5}, Reason.HOST_CYCLE_QUOTA)],
)
@pytest.mark.parametrize("parallel", [1, 2, 4])
def test_requests_under_way_count_against_a_quota(parallel, own, reason):
    state = HostState("a", parallel=parallel, operator_delay_s=0.1, **own)
    sim = simulate(
        Config(),
        {"a": "x"},
        {"a": "1"},
        {"a": 9},
        lambda *_: (3.0, 200),
        deadline_s=100,
        states=[state],
    )
    assert len(sim.log) == 5
    assert (sim.gave_up["a"][0], len(sim.gave_up["a"][1])) == (reason, 4)


@pytest.mark.waits
def test_thousands_of_hosts_on_one_address_cost_little():
    names = {f"h{i}": f"h{i}" for i in range(3000)}
    sim = within(
        5,
        lambda: simulate(
            Config(),
            names,
            dict.fromkeys(names, "1"),
            dict.fromkeys(names, 1),
            lambda *_: (0.0, 200),
        ),
    )
    assert len(sim.log) == 3000
    assert sim.steps < 40_000
