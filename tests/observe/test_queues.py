"""The queues of hosts: their length, their pace and what holds them back."""

from __future__ import annotations

import json
import time

import pytest
from crawlkit.cli.verbs.watch import _queues_text

from tests.cli.call import call


def queues(folder, *words):
    done = call("queues", "--data", folder, "--json", *words)
    assert done.code == 0, done.err
    return {q["host"]: q for q in json.loads(done.out)["queues"]}


@pytest.mark.waits
def test_each_queue_says_why_it_waits(tmp_path):
    site = tmp_path / "site"
    seeds = tmp_path / "seeds.txt"
    hosts = ("stopped.example", "plain.example", "fetched.example")
    seeds.write_text("".join(f"http://{h}/{n}\n" for h in hosts for n in range(3)))
    # nobody is asked: all that was planned is given back
    stages = ("generate", "commit", "parse", "dedup", "update")
    for verb in (("inject", "--seeds", seeds), *((stage,) for stage in stages)):
        done = call(*verb, "--data", site, "--set", "agent.info_url=http://you.example/")
        assert done.code == 0, done.err
    row = {
        "queued": 3,
        "in_flight": 0,
        "done": 0,
        "failed": 0,
        "bytes": 0,
        "waiting": [
            ["fetched.example", 3, 7.0, "Crawl-delay", time.time()],
            ["new.example", 1, 1.0, "own delay", time.time()],
        ],
    }
    (site / "state/progress/r000001").mkdir(parents=True)
    (site / "state/progress/r000001/0.json").write_text(json.dumps(row))
    assert call("block", "stopped.example", "--reason", "asked to", "--data", site).code == 0
    found = queues(site)
    assert found["fetched.example"]["fetching"] == 3
    assert found["fetched.example"]["set_by"] == "Crawl-delay"
    assert (found["plain.example"]["due"], found["plain.example"]["set_by"]) == (3, "own delay")
    assert found["stopped.example"]["reason"] == "stop_list"
    assert found["stopped.example"]["next_at"] is None
    assert (found["new.example"]["waiting"], found["new.example"]["fetching"]) == (0, 1)
    assert list(queues(site, "--host", "plain.example")) == ["plain.example"]
    assert len(queues(site, "--limit", 2)) == 2


def test_a_time_of_another_day_has_its_day():
    queue = dict.fromkeys(("host", "due", "waiting", "fetching", "set_by", "reason"), 0)
    today, later = time.time(), time.time() + 3 * 86400
    times = [{**queue, "delay_s": 1.0, "next_at": at} for at in (None, today, later)]
    none, now, then = _queues_text({"queues": times}).splitlines()[2:]
    day = time.strftime("%Y-%m-%d", time.gmtime(later))
    assert (" - " in none, day in now, day in then) == (True, False, True)
