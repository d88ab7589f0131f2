"""Rounds one after the other, each of them split in two where that saves time.

The main thread drives the first of the two rounds, a second thread with a job of its own the other
(second_lane.py). Both are planned from the same tables before either fetches, and both have ended
before the next round is planned, so together they are the round that there would have been.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.crawl.next_round import free_rounds, next_round
from crawlkit.model import Round
from crawlkit.round.drive import close_empty, run_planned
from crawlkit.round.job import Job
from crawlkit.round.limits import Limits
from crawlkit.round.second_lane import SecondLane


class Waves:
    """Drives rounds of a crawl, while its context is open."""

    def __init__(self, job: Job, limits: Limits | None = None) -> None:
        """Starts nothing."""
        self._job, self._limits = job, limits or Limits()
        is_here = job.engine_name == "local" and isinstance(job.crawl.objects, LocalObjects)
        # two rounds at once cannot know of each other how much is left
        self._may_split = job.cfg.round.overlap and is_here and self._limits.are_none
        self._pages_turn = threading.Lock()  # one lane at a time reads pages, which takes all cores
        self._second = SecondLane(job, self._pages_turn)
        self.done: list[str] = []
        self.injected: dict[str, Any] = {}

    def run(self, rounds: int, lines: Sequence[str], now: float | None) -> None:
        """Run at most so many rounds, fewer if nothing is due.

        `done`: ids of those that fetched something; `injected`: counts of inject.

        Args:
            rounds: how many; one that is split counts once.
            lines: seeds.
            now: nominal time of every round, Unix s; None: each has the time at which it begins.
        """
        crawl, did_fetch = self._job.crawl, False
        for n in range(rounds):
            cfg = self._limits.next_round(self._job, self.done)
            if cfg is None:
                break
            self._job.cfg = cfg
            round_ = next_round(crawl, time.time() if now is None else now)
            with self._job.driving(round_):
                if n == 0 and lines and crawl.mark(round_, "generate") is None:
                    self.injected = self._job.run("inject", round_, force=True, lines=lines)
                did_fetch = self._run_one(round_)
            if not did_fetch and not free_rounds(crawl):
                break

    def _run_one(self, round_: Round) -> bool:
        """Run a round, and the one that is split from it; whether anything was due."""
        job = self._job
        job.say({"event": "round", "round_id": round_.id})
        planned = job.run("generate", round_, split=self._may_split)
        if not planned.get("planned"):
            close_empty(job, round_)
            return False
        with ExitStack() as stack:
            if self._may_split:
                stack.enter_context(self._second)
                self._start_second(round_, planned)
            run_planned(job, round_, True, self._pages_turn, self._join_second)
        self.done.append(round_.id)
        return True

    def _start_second(self, round_: Round, planned: dict[str, Any]) -> None:
        """Start the round that takes what this one has left, or go on with one that is open."""
        crawl = self._job.crawl
        if planned.get("repeated"):
            out = {round_.id, *read_orders(crawl.objects).paused}  # a paused one would end both
            others = [r for r in free_rounds(crawl) if r.id not in out]
            if others:
                self._second.start(others[0], {})
        elif due := planned.get("left_beside"):
            second = crawl.open_round(round_.now)
            self._second.start(second, {"due": due, "beside": round_.id})

    def _join_second(self) -> None:
        """Wait for the second round. Raises what ended it."""
        round_id = self._second.join()
        if round_id is not None:
            self.done.append(round_id)

    def __enter__(self) -> Waves:
        _ = self._job.engine  # a Java or JAR that does not work is reported before a row is written
        return self

    def __exit__(self, *_: object) -> None:
        """End what the second lane has started."""
        self._second.stop()
