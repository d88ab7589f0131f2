"""The pages of a slot that are rendered: their documents from the WARC store, their requests
through the slot's pacer like all others.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from crawlkit.adapters.browser.rendering import (
    BrowserMissing,
    PageRequest,
    Rendered,
    Renders,
    StoredPage,
)
from crawlkit.adapters.net.address_guard import Guard
from crawlkit.adapters.warc.kept_scripts import KeptScripts
from crawlkit.adapters.warc.record_store import RecordReader
from crawlkit.model import Answer, FetchItem
from crawlkit.outcomes import Outcome, Reason, Refused
from crawlkit.rules.frontier.fetch_outcome import Judged
from crawlkit.rules.http.content_coding import MAX_DECODED_BYTES, decode_body
from crawlkit.rules.http.redirects import FOLLOWED, redirect
from crawlkit.rules.render.foreign_origins import write_origins
from crawlkit.rules.url.canonical import MAX_URL_CHARS, origin_of, url_key
from crawlkit.slot.hosts import SlotHosts
from crawlkit.slot.robots import SubJob
from crawlkit.slot.setup import SlotSetup
from crawlkit.slot.work_queue import WorkQueue

log = logging.getLogger(__name__)
T = TypeVar("T")
MAX_HOPS = 5  # of a script or of data


class PageRenders:
    """Lives in the event loop. `wake`: something was queued, or a page has ended."""

    def __init__(
        self,
        setup: SlotSetup,
        hosts: SlotHosts,
        queue: WorkQueue,
        guard: Guard,
        wake: Callable[[], None],
    ) -> None:
        self._setup, self._cfg = setup, setup.cfg.render
        self._hosts, self._queue, self._guard, self._wake = hosts, queue, guard, wake
        self._ledger = setup.ledger
        self._waiting: deque[FetchItem] = deque()
        self._active: dict[asyncio.Task[None], FetchItem] = {}
        self._over: Reason | None = None
        self._browsers: Renders | None = None
        self._scripts: dict[str, Answer] = {}  # by URL: what pages of this slot asked for
        self._scripts_bytes = 0
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # scripts
        self._kept = KeptScripts(setup.io.objects, setup.io.warcs)  # by URL: of earlier rounds

    def load(self) -> None:
        """Take the rows that the queue has set aside."""
        self._waiting.extend(self._queue.renders)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is rendered and nothing waits for it."""
        return not self._waiting and not self._active

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Start pages, as many as there are browsers."""
        while self._waiting and len(self._active) < self._cfg.browsers and self._over is None:
            item = self._waiting.popleft()
            task = tasks.create_task(self._render(item))
            self._active[task] = item
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._active.pop(task, None)
        self._wake()

    def give_up(self, reason: Reason) -> None:
        """Defer what has not been rendered."""
        if self._over is not None:
            return
        self._over = reason
        while self._waiting:
            self._end(self._waiting.popleft(), Outcome.DEFERRED, reason)
        for task in self._active:
            task.cancel()

    async def close(self) -> None:
        """End the browsers."""
        if self._browsers is not None:
            await self._browsers.close()

    def _end(
        self, item: FetchItem, outcome: Outcome, reason: Reason | None, detail: str | None = None
    ) -> None:
        self._ledger.record_outcome(item, Judged(outcome, reason, detail))

    async def _render(self, item: FetchItem) -> None:
        """Render one row; it gets its outcome here."""
        try:
            await self._try(item)
        except asyncio.CancelledError:
            if self._over is None:
                raise
            self._end(item, Outcome.DEFERRED, self._over)
        except BrowserMissing as e:
            self._end(item, Outcome.DEFERRED, Reason.RENDER_MISSING, str(e))
        except Refused as e:
            self._end(item, Outcome.FAILED, e.reason, e.detail)

    async def _try(self, item: FetchItem) -> None:
        gate = SubJob(item, self._hosts.origins[origin_of(item.url)], is_gate=True)
        self._queue.place(gate)
        self._wake()
        refused = await gate.done
        if isinstance(refused, Judged):
            self._ledger.record_outcome(item, refused)
            return
        page = await asyncio.to_thread(self._read, item)
        if self._browsers is None:
            self._browsers = self._setup.io.browsers(self._setup.cfg)
        visit = _Asked(item)
        rendered = await self._browsers.render(page, lambda r: self._answer(visit, r))
        self._ledger.counts["render_requests"] += rendered.requests
        if rendered.reason is not None:
            self._end(item, Outcome.FAILED, rendered.reason, rendered.detail)
        else:
            detail = visit.detail(rendered)
            await self._ledger.store_render(item, rendered.html, detail, rendered.render_ms)

    def _read(self, item: FetchItem) -> StoredPage:
        """The row's document as it is stored. Raises Refused."""
        if item.doc_filename is None or item.doc_offset is None or item.doc_length is None:
            raise Refused(Reason.WARC_DAMAGED, "the stored copy is gone")
        read = RecordReader(self._setup.io.warcs)
        headers, payload = read(item.doc_filename, item.doc_offset, item.doc_length)
        decoded = decode_body(payload, headers, MAX_DECODED_BYTES)
        if decoded.raw_kept:
            raise Refused(Reason.BODY_UNDECODABLE, decoded.error or "")
        return StoredPage(item.url, headers, decoded.body)

    # -- what a page asks for

    async def _answer(self, visit: _Asked, request: PageRequest) -> Answer | None:
        """The answer to a request of a page; None: it is refused, and counted by its reason."""
        if request.method != "GET":
            visit.refuse(Reason.RENDER_METHOD)
            return None
        if request.kind != "script":
            return await self._follow(visit, request.url, self._fetch)
        async with self._asking.setdefault(request.url, asyncio.Lock()):
            if request.url in self._scripts:
                return self._scripts[request.url]
            answer = await self._follow(visit, request.url, self._script)
            if answer is not None and answer.status == 200:
                self._keep(request.url, answer)
            return answer

    async def _follow(
        self, visit: _Asked, url: str, ask: Callable[[_Asked, str], Awaitable[Answer | None]]
    ) -> Answer | None:
        """The answer at the end of a URL's redirects."""
        for _ in range(MAX_HOPS + 1):
            answer = await ask(visit, url)
            if answer is None or answer.status is None:
                return answer
            location, allow = answer.header("location"), self._setup.allow_private
            hop = redirect(url, answer.status, location, allow=allow)
            if hop.target is None and answer.status not in FOLLOWED:
                return answer
            if hop.target is None:  # a browser would follow it by itself
                visit.refuse(hop.reason)
                return None
            url = hop.sent_url or hop.target
        visit.refuse(Reason.REDIRECT_TOO_LONG)
        return None

    def _keep(self, url: str, answer: Answer) -> None:
        if self._scripts_bytes + len(answer.body) <= self._cfg.cache_bytes:
            self._scripts_bytes += len(answer.body)
            self._scripts[url] = answer

    async def _script(self, visit: _Asked, url: str) -> Answer | None:
        """A script that is stored and fresh, else one request, conditional where it is stored."""
        if len(url) > MAX_URL_CHARS or not url.startswith(("http://", "https://")):
            return await self._fetch(visit, url)
        found = await _try_store(self._kept.find, url)
        if found is not None and time.time() < found[0].fresh_until:
            self._ledger.counts["scripts_kept"] += 1
            return found[1]
        job = self._job(visit, url)
        if job is None:
            return None
        if found is not None:
            item, kept = job.item, found[0]
            item.etag, item.last_modified = kept.etag, kept.last_modified
            item.prev_capture_id, item.prev_fetched_at = kept.capture_id, kept.fetched_at
            item.prev_payload_digest, item.prev_copy_url = kept.payload_digest, kept.copy_url
        answer = await self._ask(visit, job)
        if answer is None or job.capture is None:
            return answer
        if found is not None and job.capture.revisit_of == found[0].capture_id:
            await _try_store(self._kept.confirm, found[0], answer)
            return found[1]
        stored = await self._ledger.find_stored(job.capture.payload_digest)
        if stored is not None and answer.status == 200 and not answer.truncated:
            digest = str(job.capture.payload_digest)
            await _try_store(self._kept.keep, answer, digest, *stored)
        return answer

    async def _fetch(self, visit: _Asked, url: str) -> Answer | None:
        """One request, in its turn."""
        job = self._job(visit, url)
        return None if job is None else await self._ask(visit, job)

    def _job(self, visit: _Asked, url: str) -> SubJob | None:
        """The request for a URL; None: it is refused."""
        if len(url) > MAX_URL_CHARS:
            visit.refuse(Reason.URL_TOO_LONG)
            return None
        try:
            host = self._guard.parse(url).host
        except Refused as e:
            visit.refuse(e.reason)
            return None
        if host not in self._hosts.pacer:
            visit.origins.add(origin_of(url))
            visit.refuse(Reason.RENDER_FOREIGN_HOST)
            return None
        if self._over is not None:
            visit.refuse(self._over)
            return None
        own = visit.item
        domain = self._hosts.domain_of(host)
        item = FetchItem(
            own.round_id, url_key(url), url, host, domain, own.slot, own.rank, "subresource"
        )
        return SubJob(item, self._hosts.origins[origin_of(url)])

    async def _ask(self, visit: _Asked, job: SubJob) -> Answer | None:
        """What comes of a request in its turn."""
        self._queue.place(job)
        self._wake()
        got = await job.done
        if isinstance(got, Answer):
            return got
        visit.refuse(None if got is None else got.reason)
        return None


async def _try_store(call: Callable[..., T], *args: Any) -> T | None:
    """What a call of the script index says; None if the store does not answer."""
    try:
        return await asyncio.to_thread(call, *args)
    except OSError as e:
        log.warning("index of scripts: %s", e)
        return None


class _Asked:
    """What one page has asked for in vain."""

    def __init__(self, item: FetchItem) -> None:
        self.item = item
        self.origins: set[str] = set()  # of other slots
        self._refused: Counter[str] = Counter()

    def refuse(self, reason: Reason | None) -> None:
        """Count a request that gets no answer."""
        self._refused[str(reason)] += 1

    def detail(self, rendered: Rendered) -> str | None:
        """What a reader should know of the page, in one line."""
        counts = [f"{n} {reason}" for reason, n in sorted(self._refused.items())]
        parts = [write_origins(self.origins), *counts, rendered.detail]
        return "; ".join(filter(None, parts)) or None
