"""What one command may fetch at most: pages, minutes and bytes over all of its rounds."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from crawlkit.adapters.lake.duckdb_reader import aggregate
from crawlkit.config.whole import Config
from crawlkit.round.job import Job

_FETCHED = (
    "SELECT count(*) FILTER (WHERE kind <> 'robots'), coalesce(sum(body_bytes), 0) FROM t"
    " WHERE started IS NOT NULL"
)


@dataclass
class Limits:
    """Of a run of rounds; None: no limit. `reached` names the option that ended it."""

    pages: int | None = None
    minutes: float | None = None
    body_bytes: int | None = None
    reached: str | None = None
    _began: float = field(default_factory=time.monotonic)

    @property
    def are_none(self) -> bool:
        """Whether nothing is limited."""
        return self.pages is self.minutes is self.body_bytes is None

    def next_round(self, job: Job, done: list[str]) -> Config | None:
        """The settings of the next round, whose limits are what is left; None: nothing is left.

        done: ids of the rounds that were run.
        """
        cfg = job.crawl.cfg
        pages, body_bytes = _fetched(job, done)
        own = cfg.round
        minutes_left = math.inf
        if self.minutes is not None:
            minutes_left = self.minutes - (time.monotonic() - self._began) / 60
        left = {
            "--max-pages": math.inf if self.pages is None else self.pages - pages,
            "--max-minutes": minutes_left,
            "--max-bytes": math.inf if self.body_bytes is None else self.body_bytes - body_bytes,
        }
        self.reached = next((name for name, n in left.items() if n <= 0), None)
        if self.reached is not None:
            return None
        most_bytes = min(left["--max-bytes"], own.max_bytes or math.inf)
        round_ = own.model_copy(
            update={
                "max_urls": int(min(own.max_urls, left["--max-pages"])),
                "minutes": min(own.minutes, minutes_left),
                "max_bytes": None if most_bytes == math.inf else int(most_bytes),
            }
        )
        return cfg.model_copy(update={"round": round_})


def _fetched(job: Job, rounds: list[str]) -> tuple[int, int]:
    """Pages asked for and bytes of bodies of some rounds, robots.txt among the bytes alone."""
    if not rounds:
        return 0, 0
    pages, body_bytes = aggregate(job.tables, "captures", _FETCHED, [], {"round_id": rounds})[0]
    return pages, body_bytes
