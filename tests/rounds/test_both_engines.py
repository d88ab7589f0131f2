"""Rounds of the synthetic web on one engine, and on both by turns, leave the same tables."""

from __future__ import annotations

from typing import Any

import pytest
from crawlkit.config import parse_config
from crawlkit.crawl.state import Crawl
from crawlkit.round.job import ROUND, Job

from tests.fakeweb import EPOCH, Server
from tests.rounds.crawlproc import SHORT, differences, facts, steady_web

pytestmark = [pytest.mark.spark, pytest.mark.rounds]
WEB = steady_web(scale=0.05)


def crawl(
    folder, engines: list[dict[str, Any]], rounds: int, small_bytes: int = 0
) -> dict[str, Any]:
    """The tables of a crawl whose stages take turns on the engines.

    small_bytes: what Spark's driver computes itself; 0: nothing.
    """
    turn = 0
    with Server(WEB, folder / "web.jsonl") as server:
        sets = [f"{key}={value}" for key, value in SHORT.items()]
        sets.append(f"spark.small_bytes={small_bytes}")
        cfg = parse_config(WEB.config_yaml(server.port), "test", [*sets, "scope.max_depth=3"])
        for n in range(rounds):
            now = EPOCH + 1800 * n
            round_ = Crawl(folder / "crawl", cfg).open_round(now)
            for stage in ("inject", *ROUND) if n == 0 else ROUND:
                job = Job(Crawl(folder / "crawl", cfg), quick=True, **engines[turn % len(engines)])
                turn += 1
                try:
                    job.run(stage, round_, **({"lines": WEB.seeds} if stage == "inject" else {}))
                finally:
                    job.stop()
            Crawl(folder / "crawl", cfg).close(round_)
    return facts(folder / "crawl")


ROUNDS = [2, pytest.param(6, marks=pytest.mark.slow)]


@pytest.mark.parametrize("rounds", ROUNDS)
def test_stages_may_take_turns_on_both_engines(spark, tmp_path_factory, rounds):
    local, spark_too = {"engine": "local"}, {"spark": spark}
    alone = crawl(tmp_path_factory.mktemp("local"), [local], rounds)
    by_turns = crawl(tmp_path_factory.mktemp("both"), [local, spark_too], rounds)
    assert differences(alone, by_turns) == []
    assert len(alone["captures"]) > 50
    in_driver = crawl(tmp_path_factory.mktemp("driver"), [spark_too], rounds, 2**27)
    assert differences(alone, in_driver) == []
    if rounds > 2:
        there = crawl(tmp_path_factory.mktemp("spark"), [spark_too], rounds)
        assert differences(alone, there) == []


# Spark's jobs of a stage, at most; the driver does what is small
JOBS = {
    0: {"generate": 13, "fetch": 2, "commit": 4, "parse": 10, "dedup": 17, "update": 23, "rank": 7},
    2**27: {"fetch": 1, "parse": 3},
}


@pytest.mark.parametrize("small_bytes", JOBS)
def test_a_round_runs_few_jobs_of_spark(spark, tmp_path, small_bytes):
    tracker = spark.sparkContext.statusTracker()
    began: list[int] = []
    ran: dict[str, list[int]] = {}

    def watch(event: dict[str, Any]) -> None:
        jobs = len(tracker.getJobIdsForGroup(None))
        if event["event"] == "stage":
            began.append(jobs)
        elif event["event"] == "stage_done":
            ran.setdefault(event["stage"], []).append(jobs - began.pop())

    with Server(WEB, tmp_path / "web.jsonl") as server:
        sets = [f"{key}={value}" for key, value in SHORT.items()]
        sets += ["scope.max_depth=3", f"spark.small_bytes={small_bytes}"]
        cfg = parse_config(WEB.config_yaml(server.port), "test", sets)
        job = Job(Crawl(tmp_path / "crawl", cfg), quick=True, spark=spark, say=watch)
        for n in range(2):
            round_ = job.crawl.open_round(EPOCH + 1800 * n)
            if n == 0:
                job.run("inject", round_, lines=WEB.seeds)
            for stage in ROUND:
                job.run(stage, round_)
            job.crawl.close(round_)
        job.stop()
    assert set(ran) == {"inject", *ROUND}
    report = ran.pop("report")
    assert max(report) <= (0 if small_bytes else 64)  # 29 questions, two or three jobs each
    assert {s: max(n) for s, n in ran.items() if max(n) > JOBS[small_bytes].get(s, 0)} == {}
