"""A job: a crawl opened for running the stages of its rounds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from crawlkit.config.whole import Config
from crawlkit.crawl.abandon import check_orders
from crawlkit.crawl.open_crawl import OpenCrawl
from crawlkit.crawl.state import Crawl, CrawlError, Place
from crawlkit.model import Round
from crawlkit.report import write as report_stage
from crawlkit.round import page_stages, plan_stages
from crawlkit.round.counts import Counts, check_sum
from crawlkit.runtime.cpu_time import cpu_s, peak_memory_bytes, process_tree
from crawlkit.stages import commit, dedup, fetch, generate, inject, parse, rank, update

AFTER_CLOSE = ("rank", "report")  # stages that may run again once their round is closed


class Stage(NamedTuple):
    """run: (job, round, options) -> counts. reads, writes: names of tables."""

    run: Callable[..., Counts]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


STAGES: dict[str, Stage] = {
    "inject": Stage(plan_stages.inject, inject.READS, inject.WRITES),
    "generate": Stage(plan_stages.generate, generate.READS, generate.WRITES),
    "fetch": Stage(plan_stages.fetch, fetch.READS, fetch.WRITES),
    "commit": Stage(plan_stages.commit, commit.READS, commit.WRITES),
    "parse": Stage(page_stages.parse, parse.READS, parse.WRITES),
    "dedup": Stage(page_stages.dedup, dedup.READS, dedup.WRITES),
    "update": Stage(page_stages.update, update.READS, update.WRITES),
    "rank": Stage(page_stages.rank, rank.READS, rank.WRITES),
    "report": Stage(report_stage.write_report, report_stage.READS, report_stage.WRITES),
}
PLANNING = ("inject", "generate", "fetch")  # an import has their results without them
ROUND = tuple(name for name in STAGES if name != "inject")  # the stages of each round, in order


class Job(OpenCrawl):
    """A crawl with an engine, and the stages that run in it."""

    def __init__(self, crawl: Crawl, **options: Any) -> None:
        """Opens nothing yet. options: of `OpenCrawl`."""
        super().__init__(crawl, **options)
        self._is_interrupted = threading.Event()

    def interrupt(self) -> None:
        """From another thread, as Ctrl-C: fetch and parse tasks end in order, no stage begins."""
        self._is_interrupted.set()
        if "engine" in self.__dict__:
            self.engine.interrupt()

    def run(self, stage: str, round_: Round, force: bool = False, **options: Any) -> Counts:
        """Run one stage of a round; its counts.

        A finished stage has a mark: running it again returns the mark, or with `force` does it
        again, which changes nothing. Then `to_repeat` names the later stages that are done and
        read what it wrote. Raises StageError, CrawlError, LockHeld; KeyboardInterrupt after
        `interrupt`.
        """
        if self._is_interrupted.is_set():
            raise KeyboardInterrupt
        self.check_driving()
        name = f"{stage}-{options['region']}" if options.get("region") else stage
        done = self.crawl.mark(round_, name)
        if done is not None and not force:
            return done | {"repeated": True}
        if round_.state == "open":
            check_orders(self.crawl, round_)
        elif stage not in AFTER_CLOSE:
            raise CrawlError(f"round {round_.id} is {round_.state}: its stages cannot be run again")
        if round_.imported and stage in PLANNING:
            raise CrawlError(
                f"round {round_.id} is an import of WARC files: finish it with the `crawlkit import"
                f" warc` that began it, or end it (`crawlkit abandon {round_.id}`)"
            )
        counts = self._measure(stage, round_, options)
        if done is not None:
            counts["to_repeat"] = self.find_stale(stage, round_)
        self.check_driving()
        self.crawl.set_mark(round_, name, counts)
        self.say({"event": "stage_done", "round_id": round_.id, **counts})
        return counts

    def _measure(self, stage: str, round_: Round, options: dict[str, Any]) -> Counts:
        """Run a stage with only its tables writable; its counts, times (Unix s) and CPU time."""
        started, before = time.time(), process_tree()
        self.say({"event": "stage", "stage": stage, "round_id": round_.id})
        with self.tables.only(STAGES[stage].writes):
            counts = STAGES[stage].run(self, round_, **options)
        if "engine" in self.__dict__:
            self.engine.forget()
        self.remember_tables()
        check_sum(stage, round_, counts)
        return counts | {
            "stage": stage,
            "started": started,
            "ended": time.time(),
            "cpu_s": round(cpu_s(before, process_tree()), 2),
            "memory_bytes": peak_memory_bytes(),
        }

    def find_stale(self, stage: str, round_: Round) -> list[str]:
        """Later stages of a round that are done and read a table that this one writes."""
        later = list(STAGES)[list(STAGES).index(stage) + 1 :]
        stale: list[str] = []
        written = {*STAGES[stage].writes}
        for name in later:
            if written & {*STAGES[name].reads} and self.crawl.mark(round_, name) is not None:
                stale.append(name)
                written |= {*STAGES[name].writes}
        return stale


def make_job(data: Place, cfg: Config, **options: Any) -> Job:
    """A job on a folder or s3://bucket/prefix. options: of `OpenCrawl`.

    Raises CrawlError if the folder is not usable, TableError if a table that once was written is
    gone.
    """
    crawl = Crawl(data, cfg)
    crawl.check()
    job = Job(crawl, **options)
    _ = job.tables
    return job
