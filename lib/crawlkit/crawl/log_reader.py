"""The request logs of a crawl (slot/request_log.py), read while they grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from crawlkit.adapters.store.objects import ObjectMissing
from crawlkit.crawl.state import Crawl

POLL_S = 0.5


def read_log(crawl: Crawl, round_id: str | None = None) -> Iterator[str]:
    """The lines of a round (None: of all rounds, one after the other), by time in each round."""
    for name in [round_id] if round_id else crawl.round_ids():
        yield from _Reader(crawl, f"logs/{name}/").new_lines()


def follow_log(
    crawl: Crawl, round_id: str | None = None, wait: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """The lines from now on, until the caller stops. wait: pauses so many seconds."""
    reader = _Reader(crawl, f"logs/{round_id}/" if round_id else "logs/")
    reader.skip()
    while True:
        yield from reader.new_lines()
        wait(POLL_S)


class _Reader:
    """Knows how far each log object was read."""

    def __init__(self, crawl: Crawl, prefix: str) -> None:
        self._objects, self._prefix = crawl.objects, prefix
        self._read: dict[str, int] = {}

    def skip(self) -> None:
        """Take all that is there as read."""
        for key in self._objects.list(self._prefix):
            self._read[key] = self._objects.size(key)

    def new_lines(self) -> list[str]:
        """Whole lines that were not read yet, by their time."""
        lines: list[str] = []
        for key in self._objects.list(self._prefix):
            at = self._read.get(key, 0)
            try:
                if self._objects.size(key) <= at:
                    continue
                with self._objects.open_range(key, at) as file:
                    data = file.read()
            except ObjectMissing:
                continue
            whole = data[: data.rfind(b"\n") + 1]
            self._read[key] = at + len(whole)
            lines += whole.decode("utf-8", "replace").splitlines()
        return sorted(lines, key=lambda line: line.partition(" ")[0])
