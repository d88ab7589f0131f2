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


def crawl(folder, engines: list[dict[str, Any]], rounds: int) -> dict[str, Any]:
    """The tables of a crawl whose stages take turns on the engines."""
    turn = 0
    with Server(WEB, folder / "web.jsonl") as server:
        sets = [f"{key}={value}" for key, value in SHORT.items()]
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
    if rounds > 2:
        there = crawl(tmp_path_factory.mktemp("spark"), [spark_too], rounds)
        assert differences(alone, there) == []
