"""Rounds at the same time (`round.overlap`): the crawl ends as it does without, however often it is
killed; the server's log shows no rudeness.

`tests/data/splits` has every round split whose hosts differ at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from crawlkit.config import load_config
from crawlkit.crawl.state import Crawl, CrawlError

from tests.engines import run_on
from tests.fakeweb import Delays, Server, judge, load_log
from tests.rounds.crawlproc import (
    ROOT,
    Done,
    command,
    crawl_args,
    differences,
    environment,
    facts,
    run,
    settings,
    steady_web,
)
from tests.rounds.test_kills import WHO, ended, processes, wait_for

pytestmark = [pytest.mark.rounds]
on = run_on("local")
WEB = steady_web()
ROUNDS = 6  # all that is reached within four links, and a round for what is late
SPLITS = {
    "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "tests" / "data" / "splits", ROOT / "lib")))
}
SLOW = {"politeness.delay_s": 0.7}  # both rounds fetch until the other command has spoken


class World:
    """A crawl of the web by `crawlkit crawl`, until nothing is due."""

    def __init__(self, folder: Path, overlap: bool = True, **changes: object) -> None:
        self.folder, self.data = folder, folder / "crawl"
        self.server = Server(WEB, folder / "web.jsonl")
        changes = {"engine.name": "local", "scope.max_depth": 4, **changes}
        changes["round.overlap"] = overlap
        self.config = settings(WEB, self.server, folder, **changes)
        self.started: list[subprocess.Popen[str]] = []

    def args(self, rounds: int = ROUNDS) -> list[object]:
        return crawl_args(WEB, self.data, self.config, rounds)

    def start(self) -> subprocess.Popen[str]:
        self.started.append(
            subprocess.Popen(
                command(*self.args()),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment(**SPLITS),
                start_new_session=True,
            )
        )
        return self.started[-1]

    def run(self) -> Done:
        return run(*self.args(), env=SPLITS)

    def crawl(self) -> Crawl:
        return Crawl(self.data, load_config(self.config))

    def open_rounds(self) -> dict[str, list[int]]:
        """Open rounds with their claims; none before there is a crawl."""
        with contextlib.suppress(CrawlError, OSError):
            return self.crawl().read_state()[0]["open"]
        return {}

    def two_fetch(self) -> bool:
        """Whether two rounds have begun to fetch."""
        crawl = self.crawl()
        begun = [r for r in self.open_rounds() if crawl.objects.list(f"leases/{r}/")]
        return len(begun) == 2

    def is_polite(self) -> None:
        cfg = load_config(self.config)
        time.sleep(0.3)
        delays = Delays(host_s=cfg.politeness.delay_s, domain_s=cfg.politeness.domain_delay_s)
        found = judge(load_log(self.folder / "web.jsonl"), WEB, delays)
        # a floor within one task, and no host's address is known before the first round
        found.address_gap.clear()
        assert found.total == 0, str(found)

    def is_over(self) -> None:
        crawl = self.crawl()
        assert crawl.claims() == {} and crawl.open_rounds() == []

    def __enter__(self) -> World:
        self.server.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self.started:
            for pid in processes(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
            process.stderr.close()
        self.server.__exit__(*exc)


def whole(data: Path) -> dict[str, Counter[str]]:
    """What the tables hold, without the names and numbers of rounds."""
    found = {}
    for name, rows in facts(data).items():
        found[name] = Counter()
        for text, n in rows.items():
            row = {k: v for k, v in json.loads(text).items() if k not in ("round_id", "round_no")}
            if name == "captures" and row["kind"] == "robots":
                continue  # how long a copy is kept is a matter of the real clock
            found[name][json.dumps(row, sort_keys=True)] += n
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[str, Counter[str]]:
    """What the tables hold after the crawl without rounds at the same time."""
    with World(tmp_path_factory.mktemp("alone"), overlap=False) as w:
        done = w.run()
        assert done.code == 0, done.err
        assert len(done.said["rounds"]) == ROUNDS
        return whole(w.data)


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    """The crawl with them: the world, what it said, what it printed."""
    with World(tmp_path_factory.mktemp("beside")) as w:
        done = w.run()
        assert done.code == 0, done.err
        yield w, done


def test_the_tables_are_those_of_a_crawl_without(alone, beside):
    w, done = beside
    assert differences(alone, whole(w.data)) == []
    w.is_over()
    w.is_polite()
    events = [json.loads(line) for line in done.err.splitlines() if line.startswith("{")]
    pairs = {e["round_id"]: e["beside"] for e in events if e.get("beside") not in (None, True)}
    assert pairs, "no round was split: the test shows nothing"
    crawl = w.crawl()
    for second, first in pairs.items():
        buckets = [set(crawl.round(r).buckets) for r in (first, second)]
        assert buckets[0] and buckets[1] and not buckets[0] & buckets[1]


def stable(tables: dict[str, Counter[str]]) -> dict[str, Counter[str]]:
    """What is the same however many rounds asked again for what is put off each time."""
    return {n: rows for n, rows in tables.items() if n not in ("fetchlist", "captures")}


@pytest.mark.slow
def test_two_open_rounds_that_nobody_drives_are_gone_on_with(alone, tmp_path):
    """Killed while both fetch: the next run drives both, and nothing stored is asked for again."""
    with World(tmp_path) as w:
        first = w.start()
        assert wait_for(w.two_fetch, first)
        first.kill()
        first.wait()
        left = w.open_rounds()
        assert len(left) == 2
        second = w.start()
        assert wait_for(lambda: not set(left) & set(w.open_rounds()), second)
        done = ended(second)
        assert done.code == 0, done.err
        assert set(left) <= set(done.said["rounds"])
        assert done.said["rounds"][:2] == sorted(left, reverse=True), "both at the same time"
        assert differences(stable(alone), stable(whole(w.data))) == []
        w.is_over()
        w.is_polite()


@pytest.mark.slow
def test_two_open_rounds_are_gone_on_with_one_after_the_other(alone, tmp_path):
    """By a run that may not have two rounds at once."""
    with World(tmp_path) as w:
        first = w.start()
        assert wait_for(w.two_fetch, first)
        first.kill()
        first.wait()
        left = sorted(w.open_rounds())
        settings(WEB, w.server, tmp_path, **{"round.overlap": False, "scope.max_depth": 4})
        done = w.run()
        assert done.code == 0, done.err
        assert done.said["rounds"][:2] == left
        assert differences(stable(alone), stable(whole(w.data))) == []
        w.is_over()
        w.is_polite()


KILLS = 4
MOMENTS = [
    pytest.param(victim, seed, marks=() if (victim, seed) == ("driver", 0) else pytest.mark.slow)
    for victim, seeds in (("driver", 8), ("worker", 3), ("server", 3))
    for seed in range(seeds)
]


@pytest.mark.parametrize(("victim", "seed"), MOMENTS)
def test_killed_at_random_moments(alone, tmp_path, victim, seed):
    """Kills -9, each at a moment drawn from the life of a run, then it is let through."""
    rng, killed = random.Random(f"overlap {victim} {seed}"), []
    with World(tmp_path) as w:
        while True:
            process = w.start()
            while len(killed) < KILLS and process.poll() is None:
                if rng.random() < 0.6 and not wait_for(lambda: len(w.open_rounds()) == 2, process):
                    break
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(rng.uniform(0.5, 6))
                victims = WHO[victim](process.pid)
                if victims and process.poll() is None:
                    killed.append(f"{len(w.open_rounds())} open")
                    os.kill(rng.choice(victims), signal.SIGKILL)
                    if victim == "driver":
                        break
            done = ended(process)
            assert done.code in (0, 1, -signal.SIGKILL), done.err
            if done.code == 0:
                break
        print(victim, seed, killed)
        assert differences(stable(alone), stable(whole(w.data))) == []
        w.is_over()
        w.is_polite()


def test_an_interrupt_ends_both_rounds_in_order(alone, tmp_path):
    """Ctrl-C: the tasks of both give their leases back, so the next run need not wait for them."""
    with World(tmp_path, **{"lease.ttl_s": 120}) as w:
        first = w.start()
        assert wait_for(w.two_fetch, first)
        first.send_signal(signal.SIGINT)
        done = ended(first, 40)
        assert done.code == 1 and "interrupted" in done.err.splitlines()[-1], done.err
        assert released(w)
        assert processes(first.pid) == []
        done = w.run()
        assert done.code == 0, done.err
        assert differences(stable(alone), stable(whole(w.data))) == []
        w.is_polite()


def released(w: World) -> bool:
    """Whether all slots have given their leases back."""
    objects = w.crawl().objects
    rows = [json.loads(objects.get(key)[0]) for key in objects.list("leases/")]
    return bool(rows) and all(r["released"] for r in rows)


@pytest.mark.slow
def test_an_error_of_the_second_round_ends_the_crawl_with_its_exit_code(tmp_path):
    """An operator abandons it while both fetch; the first round ends in order, and goes on with the
    next run.
    """
    with World(tmp_path, **SLOW) as w:
        first = w.start()
        assert wait_for(w.two_fetch, first)
        keep, abandoned = sorted(w.open_rounds())
        done = run("abandon", abandoned, "--data", w.data, "--config", w.config)
        assert done.code == 0, done.err
        done = ended(first, 60)
        assert done.code == 2 and f"round {abandoned} was abandoned" in done.err, done.err
        assert released(w) and list(w.open_rounds()) == [keep]
        assert (done := w.run()).code == 0, done.err
        w.is_over()
        w.is_polite()


@pytest.mark.slow
def test_the_other_round_is_finished_while_one_is_paused(alone, tmp_path):
    with World(tmp_path) as w:
        first = w.start()
        assert wait_for(w.two_fetch, first)
        keep, paused = sorted(w.open_rounds())
        args = (paused, "--data", w.data, "--config", w.config)
        assert (done := run("pause", *args)).code == 0, done.err
        done = ended(first, 60)
        assert done.code == 2 and f"round {paused} is paused" in done.err, done.err
        done = w.run()
        assert done.code == 2 and f"round {paused} is paused" in done.err, done.err
        assert list(w.open_rounds()) == [paused]
        assert (done := run("resume", *args)).code == 0, done.err
        assert (done := w.run()).code == 0, done.err
        assert differences(stable(alone), stable(whole(w.data))) == []
        w.is_over()
        w.is_polite()


@pytest.mark.slow
def test_while_two_rounds_are_driven_nobody_else_drives_either(tmp_path):
    with World(tmp_path, **SLOW) as w:
        first = w.start()
        assert wait_for(w.two_fetch, first)
        for round_id in w.open_rounds():
            done = run("round", "--round-id", round_id, "--data", w.data, "--config", w.config)
            assert done.code == 3 and "held by another process" in done.err, done.err
