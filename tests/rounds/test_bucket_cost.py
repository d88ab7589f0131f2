"""The cost of a round, up to its update, goes with the buckets that it takes, not with what is
known; a hot host has a task of its own (REQUIREMENTS B9).
"""

from __future__ import annotations

import os
import statistics
import time

import pytest
from crawlkit.config import Config
from crawlkit.crawl.state import Crawl
from crawlkit.local.web_server import Reply, WebServer
from crawlkit.round.job import ROUND, Job
from crawlkit.rules.url.domains import host_bucket
from crawlkit.runtime.cpu_time import cpu_s, process_tree

from tests.engines import run_on
from tests.frontier_rows import known_urls

on = run_on("local")
NOW = 1_790_000_000.0
SMALL = int(os.environ.get("CRAWLKIT_KNOWN_URLS", 2_000_000))  # known URLs; and four times as many
BUCKETS, TAKEN, ROUNDS = 64, 4, 3


def hosts(buckets: int) -> list[str]:
    """TAKEN host names in as many buckets, also where there are fewer buckets."""
    found: dict[int, str] = {}
    n = 0
    while len(found) < TAKEN:
        found.setdefault(host_bucket(f"tiny{n}.example", BUCKETS), f"tiny{n}.example")
        n += 1
    assert len({host_bucket(h, buckets) for h in found.values()}) == TAKEN
    return list(found.values())


def rounds_cost(on, folder, known: int, buckets: int) -> tuple[float, int, int]:
    """CPU of the process tree in ROUNDS equal rounds with `known` URLs in `buckets` buckets, the
    median; buckets taken and pages fetched in each.
    """
    names = hosts(buckets)
    page = b"<html><title>tiny</title><p>A page of the tiny web.</p></html>"
    with WebServer(
        ["127.66.0.1"],
        lambda r: (
            Reply(404)
            if r.target == "/robots.txt"
            else Reply(200, [("Content-Type", "text/html")], page)
        ),
    ) as web:
        cfg = Config.model_validate(
            {
                "frontier": {"buckets": buckets, "buckets_per_round": TAKEN},
                "politeness": {"delay_s": 0.0, "domain_delay_s": 0.0, "ip_delay_s": 0.0},
                "fetch": {
                    "connect_to": {h: f"127.66.0.1:{web.port}" for h in names},
                    "allow_private": ["127.0.0.0/8"],
                    "ports": [80, web.port],
                },
            }
        )
        job = Job(Crawl(folder, cfg), quick=True, **on)
        assert known_urls(job, known // buckets, 20, NOW + 1e7, NOW) == known
        costs, taken, pages = [], set(), set()
        for n in range(ROUNDS):
            round_ = job.crawl.open_round(NOW + n)
            job.run(
                "inject", round_, lines=[f"http://{h}/{n}/{i}" for h in names for i in range(10)]
            )
            before = process_tree()
            for stage in ROUND[: ROUND.index("rank")]:  # rank and report read all that is known
                job.run(stage, round_)
            costs.append(cpu_s(before, process_tree()))
            job.crawl.close(round_)
            taken.add(len(round_.buckets))
            pages.add((job.crawl.mark(round_, "commit") or {})["outcomes"]["fetched"])
        return statistics.median(costs), max(taken), max(pages)


@pytest.mark.rounds
@pytest.mark.slow
def test_four_times_the_known_urls_cost_a_round_at_most_a_third_more(on, tmp_path, capsys):
    rounds_cost(on, tmp_path / "warm", 6400, BUCKETS)
    began = time.monotonic()
    small, taken_small, pages_small = rounds_cost(on, tmp_path / "small", SMALL, BUCKETS)
    large, taken_large, pages_large = rounds_cost(on, tmp_path / "large", 4 * SMALL, 4 * BUCKETS)
    with capsys.disabled():
        print(
            f"\n{SMALL:,} known: {small:.1f} CPU s a round; {4 * SMALL:,} known: {large:.1f}; ratio"
            f" {large / small:.2f}; {time.monotonic() - began:.0f} s"
        )
    assert taken_small == taken_large == TAKEN and pages_small == pages_large
    assert large <= 1.3 * small


def test_a_hot_host_has_a_task_of_its_own():
    from crawlkit.rules.frontier.slots import assign_slots

    rows = [{"domain": f"d{n}.example", "n": 20, "cost_s": 20.0, "ips": []} for n in range(60)] + [
        {"domain": "hot.example", "n": 1500, "cost_s": 1500.0, "ips": []}
    ]
    slots, number = assign_slots(rows, 3, 0.25)
    assert [d for d, s in slots.items() if s == slots["hot.example"]] == [
        "hot.example"
    ] and number == 4
    assert sorted(sum(s == k for d, s in slots.items()) for k in range(4)) == [1, 20, 20, 20]
    named, number = assign_slots(rows[:60], 3, 0.25, hot=("d7.example",))
    assert [d for d, s in named.items() if s == named["d7.example"]] == [
        "d7.example"
    ] and number == 4
    # a domain that shares the hot one's address goes with it: the address floor is kept within one
    # task
    rows[0] |= {"ips": ["192.0.2.1"]}
    rows[-1] |= {"ips": ["192.0.2.1"]}
    shared, _ = assign_slots(rows, 3, 0.25)
    assert sorted(d for d, s in shared.items() if s == shared["hot.example"]) == [
        "d0.example",
        "hot.example",
    ]
