"""The requests of a slot: a page (or sitemap, feed,
requisite), a page's scripts and data, a robots.txt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from crawlkit.model import Answer, FetchItem
from crawlkit.outcomes import Outcome, Reason
from crawlkit.rules.feeds import gzip_text
from crawlkit.rules.frontier.fetch_outcome import Judged, judge
from crawlkit.rules.http.conditional import conditional_headers
from crawlkit.rules.http.visit import Sent, next_hop
from crawlkit.rules.politeness.pacer import Send
from crawlkit.rules.url.canonical import UrlPolicy, canonicalize, host_of, url_key
from crawlkit.slot.hosts import SlotHosts
from crawlkit.slot.robots import Origin, PageJob, RobotsJob, copy_of
from crawlkit.slot.send import Sender
from crawlkit.slot.setup import SlotSetup
from crawlkit.slot.work_queue import WorkQueue

_ROBOTS_ACCEPT = "text/plain,*/*;q=0.5"
_SITEMAP_ACCEPT = "application/xml,text/xml,application/rss+xml,application/atom+xml,*/*;q=0.5"

_SUB_ACCEPT = "*/*"


class Handlers:
    """Each method sends the request of one ticket and stores what came of it."""

    def __init__(
        self,
        setup: SlotSetup,
        hosts: SlotHosts,
        queue: WorkQueue,
        sender: Sender,
        clock: Callable[[], float],
    ) -> None:
        self._setup = setup
        self._cfg = setup.cfg
        self._hosts = hosts
        self._queue = queue
        self._sender = sender
        self._clock = clock
        self._ledger = setup.ledger
        self._policy = UrlPolicy.of(setup.cfg.urls)
        self._cookie_hosts = frozenset(h.lower() for h in setup.cfg.fetch.cookie_hosts)

    async def fetch_page(self, ticket: Send) -> None:
        """Fetch a page, sitemap, feed or requisite. Raises LeaseLost and what the ledger raises."""
        job = ticket.job
        item, url = job.item, job.url
        limits = self._limits(item.kind)
        answer = await self._sender.fetch(url, item.etag, item.last_modified, **limits)
        await self._sender.settle(ticket, answer)
        is_conditional = bool(conditional_headers(item.etag, item.last_modified))
        judged = self._judge(url, answer, is_conditional)
        state = self._hosts.pacer.state(ticket.host)
        hop = self._next_hop(job, answer)
        if hop is None:
            asked = replace(item, sent_url=self._spelling(item, url))
            await self._ledger.store_answer(asked, judged, answer, ticket.delay_s, state)
        else:
            asked = replace(item, url=url, url_key=url_key(url), sent_url=None)
            to = Judged(Outcome.REDIRECTED, None, None, canonicalize(hop.url, None, self._policy))
            await self._ledger.store_answer(
                asked, to, answer, ticket.delay_s, state, is_outcome=False
            )
            sent = (*(job.sent or (Sent(url),)), hop)
            self._hosts.pacer.push(ticket.host, PageJob(item, job.origin, sent), urgent=True)
        self._sender.release_body(answer)

    def _spelling(self, item: FetchItem, url: str) -> str | None:
        """How a row is requested from now on, where not as its URL: as the server spelled it last
        (`url`: of the visit's last request), unless that is another page of a session.
        """
        if url == item.url:
            return None
        is_same = canonicalize(url, None, self._policy) == item.url
        return url if is_same else item.sent_url

    async def fetch_sub(self, ticket: Send) -> None:
        """Fetch what a page in a browser asks for. Raises LeaseLost and what the ledger raises."""
        job = ticket.job
        try:
            item = job.item
            answer = await self._sender.fetch(
                job.url,
                item.etag,
                item.last_modified,
                accept=_SUB_ACCEPT,
                content_types=(),
                max_body_bytes=min(self._cfg.fetch.max_body_bytes, self._cfg.render.body_bytes),
            )
            await self._sender.settle(ticket, answer)
            is_conditional = bool(conditional_headers(item.etag, item.last_modified))
            judged = self._judge(job.url, answer, is_conditional)
            state = self._hosts.pacer.state(ticket.host)
            job.capture = await self._ledger.store_answer(
                item, judged, answer, ticket.delay_s, state, is_outcome=False
            )
            self._sender.release_body(answer)
            job.end(answer if answer.status is not None else judged)
        finally:
            job.end(Judged(Outcome.DEFERRED, Reason.SLOT_LOST))

    def _next_hop(self, job: PageJob, answer: Answer) -> Sent | None:
        """The next request of the same visit; None: this answer is the row's outcome."""
        has_session = job.origin.host in self._cookie_hosts
        return next_hop(
            job.sent or (Sent(job.url),),
            answer.status,
            answer.header("location"),
            answer.header("set-cookie") is not None,
            has_session,
            self._policy,
        )

    def _limits(self, kind: str) -> dict[str, Any]:
        """What is asked of the answer for a row of this kind, where it is no page."""
        if kind == "page":
            return {}
        if kind == "requisite":
            return {"accept": _SUB_ACCEPT, "content_types": ()}
        return {
            "accept": _SITEMAP_ACCEPT,
            "content_types": (),
            "max_body_bytes": max(self._cfg.fetch.max_body_bytes, gzip_text.MAX_BYTES),
        }

    async def fetch_robots(self, ticket: Send) -> None:
        """Fetch a robots.txt, or the next hop of its redirects (RFC 9309, 2.3.1.2).

        Raises LeaseLost and what the ledger raises.
        """
        origin, url = ticket.job.origin, ticket.job.url
        answer = await self._sender.fetch(
            url,
            accept=_ROBOTS_ACCEPT,
            content_types=(),
            max_body_bytes=self._cfg.robots.max_bytes + 1,
        )
        hop = self._hosts.origins.receive(origin, self._clock(), answer)
        self._hosts.heed_crawl_delay(origin.host)
        await self._sender.settle(ticket, answer)
        judged = self._judge(url, answer, False)
        if hop is None and judged.outcome is Outcome.REDIRECTED:
            judged = Judged(Outcome.HTTP_ERROR, origin.verdict.reason, judged.redirect_to)
        await self._store_robots(ticket, answer, judged, is_last=hop is None)
        self._sender.release_body(answer)
        if hop is not None:
            self._hosts.pacer.push(host_of(hop), RobotsJob(origin, hop), urgent=True)
        else:
            self._queue.release(origin)

    async def _store_robots(
        self, ticket: Send, answer: Answer, judged: Judged, *, is_last: bool
    ) -> None:
        """Store an answer to a robots.txt request, and with the last one the outcome of its row."""
        origin = ticket.job.origin
        request = self._robots_request(ticket)
        is_outcome = is_last and _ends_row(origin)
        if is_outcome:
            request.url_key = origin.item.url_key
            origin.item = None
        await self._ledger.store_answer(
            request,
            judged,
            answer,
            ticket.delay_s,
            self._hosts.pacer.state(ticket.host),
            is_outcome=is_outcome,
            copy=copy_of(origin) if is_last else None,
        )

    def _robots_request(self, ticket: Send) -> FetchItem:
        """A robots.txt request as a row of its own: it may be a hop to another host."""
        url = ticket.job.url
        return FetchItem(
            self._setup.round_id,
            url_key(url),
            url,
            ticket.host,
            self._hosts.domain_of(ticket.host),
            self._setup.slot,
            0,
            "robots",
        )

    def _judge(self, url: str, answer: Answer, is_conditional: bool) -> Judged:
        return judge(url, answer, is_conditional, self._policy, self._setup.allow_private)


def _ends_row(origin: Origin) -> bool:
    """Whether the last answer is the outcome of the origin's robots row."""
    verdict = origin.verdict
    is_foreign = verdict is not None and verdict.reason is Reason.ROBOTS_FOREIGN_HOST
    return origin.item is not None and not is_foreign
