"""Six rounds of the synthetic web on one engine, and on both by turns, leave the same tables."""

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
NOWS = [EPOCH + 1800 * n for n in range(6)]


def crawl(folder, engines: list[dict[str, Any]]) -> dict[str, Any]:
    """The tables of a crawl whose stages take turns on the engines."""
    turn = 0
    with Server(WEB, folder / "web.jsonl") as server:
        sets = [f"{key}={value}" for key, value in SHORT.items()]
        cfg = parse_config(WEB.config_yaml(server.port), "test", [*sets, "scope.max_depth=3"])
        for n, now in enumerate(NOWS):
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


@pytest.fixture(scope="module")
def on_local(tmp_path_factory) -> dict[str, Any]:
    return crawl(tmp_path_factory.mktemp("local"), [{"engine": "local"}])


def test_stages_may_take_turns_on_both_engines(spark, on_local, tmp_path):
    by_turns = crawl(tmp_path, [{"engine": "local"}, {"spark": spark}])
    assert differences(on_local, by_turns) == []
    assert len(on_local["captures"]) > 100


@pytest.mark.slow
def test_spark_leaves_the_same_tables(spark, on_local, tmp_path):
    assert differences(on_local, crawl(tmp_path, [{"spark": spark}])) == []
