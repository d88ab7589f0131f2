"""The slot's books: one outcome for each row, counts, and the way to the writer's thread."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from crawlkit.model import Answer, Capture, FetchItem, RobotsCopy
from crawlkit.outcomes import Outcome
from crawlkit.rules.frontier.fetch_outcome import NEVER_SENT, NO_ADDRESS, Judged
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.slot.recorder import Recorder, Stored, describe


class Ledger:
    """Lives in the event loop.

    Only `_write` hands work to the one thread in which `recorder` runs.
    """

    def __init__(self, recorder: Recorder, attempt: int, rows: int) -> None:
        self._recorder, self._attempt = recorder, attempt
        self.left = rows  # rows without an outcome
        self.counts: Counter[str] = Counter()
        self._plain: list[Capture] = []  # outcomes without an answer, not yet handed on
        self._events: list[HostState] = []
        self._events_task: asyncio.Task[None] | None = None
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="slot writer")

    def record_outcome(
        self, item: FetchItem, judged: Judged, robots_line: str | None = None
    ) -> None:
        """The outcome of a row for which nothing was sent."""
        capture = self._capture(item, judged)
        capture.robots_line = robots_line
        self._plain.append(capture)
        self._count(judged)

    async def store_answer(
        self,
        item: FetchItem,
        judged: Judged,
        answer: Answer,
        delay_s: float,
        state: HostState,
        *,
        is_outcome: bool = True,
        copy: RobotsCopy | None = None,
    ) -> Capture:
        """Store an answer and the row's outcome with it; returns its capture when it is with the
        writer's file.

        `is_outcome` False: a record beside the outcome (a hop of robots.txt); `item` then describes
        the request.
        """
        capture = self._capture(item, judged)
        describe(capture, answer)
        capture.is_outcome = is_outcome
        if answer.error in NEVER_SENT | NO_ADDRESS:
            capture.started = capture.ended = None
        else:
            capture.delay_ms = int(delay_s * 1000)
            self.counts["requests"] += 1
        self.counts["bytes"] += len(answer.body)
        if is_outcome:
            self._count(judged)
        await self._write(self._recorder.add, capture, answer, item, state, copy)
        return capture

    async def find_stored(self, digest: str | None) -> Stored | None:
        """As `Recorder.find_stored`."""
        found: Stored | None = await self._write(self._recorder.find_stored, digest)
        return found

    async def store_render(
        self, item: FetchItem, html: bytes, detail: str | None, render_ms: int
    ) -> None:
        """Store the document of a page as its browser left it, and the row's outcome with it."""
        capture = self._capture(item, Judged(Outcome.FETCHED, None, detail))
        capture.content_type = "text/html; charset=utf-8"
        capture.body_bytes, capture.render_ms = len(html), render_ms
        self._count(Judged(Outcome.FETCHED))
        await self._write(self._recorder.add_render, capture, item, html)

    async def store_state(self, state: HostState) -> None:
        """Return when the host's state is stored; states that come together share a part."""
        self._events.append(state)
        if self._events_task is None:
            self._events_task = asyncio.get_running_loop().create_task(self._write_events())
        await asyncio.shield(self._events_task)

    async def write_gathered(self) -> None:
        """Hand on the outcomes gathered so far, and close files that are old enough."""
        plain, self._plain = self._plain, []
        await self._write(self._recorder.add_all, plain)
        await self._write(self._recorder.flush_if_due)

    async def finish(self, states: Iterable[HostState]) -> None:
        """At the end: everything into a last part."""
        await self.write_gathered()
        await self._write(self._recorder.flush, list(states))
        await self._write(self._recorder.drain)

    def close(self) -> None:
        """End the writer's thread; what it has not begun is dropped."""
        self._writer.shutdown(cancel_futures=True)

    async def _write_events(self) -> None:
        await asyncio.sleep(0)
        states = self._events
        self._events = []
        self._events_task = None
        await asyncio.wrap_future(await self._write(self._recorder.events, states))

    async def _write(self, work: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work, *args)

    def _capture(self, item: FetchItem, judged: Judged) -> Capture:
        return Capture(
            "",
            item.round_id,
            item.url_key,
            item.url,
            item.kind,
            item.host,
            item.slot,
            self._attempt,
            0,
            str(judged.outcome),
            reason=None if judged.reason is None else str(judged.reason),
            detail=judged.detail,
            redirect_to=judged.redirect_to,
            planned_depth=item.depth,
            planned_redirects=item.redirects,
            planned_class=item.priority_class,
            sent_url=item.sent_url,
            redirect_sent_url=judged.redirect_sent_url,
            planned_host_class=item.host_class,
        )

    def _count(self, judged: Judged) -> None:
        self.left -= 1
        self.counts[judged.outcome] += 1

    @property
    def failed(self) -> int:
        """Rows that failed or got an HTTP error."""
        return self.counts[Outcome.FAILED] + self.counts[Outcome.HTTP_ERROR]
