"""What a slot has to do: its rows, queued by host, each page behind its robots.txt."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from crawlkit.adapters.net.address_guard import Resolves
from crawlkit.adapters.net.dns import Resolver
from crawlkit.model import FetchItem
from crawlkit.outcomes import Outcome, Reason
from crawlkit.rules.frontier.fetch_outcome import Judged
from crawlkit.rules.politeness.pacer import Send
from crawlkit.rules.url.canonical import origin_of
from crawlkit.slot.hosts import SlotHosts
from crawlkit.slot.robots import Origin, PageJob, RobotsJob, SubJob, no_robots
from crawlkit.slot.setup import SlotSetup


class WorkQueue:
    """Lives in the event loop. `deadline`: Unix s at which the round's time is over."""

    def __init__(
        self, setup: SlotSetup, hosts: SlotHosts, deadline: float, clock: Callable[[], float]
    ) -> None:
        self.deadline = deadline
        self._setup = setup
        self._hosts = hosts
        self._clock = clock
        self._ledger = setup.ledger
        self._pacer = hosts.pacer
        self._origins = hosts.origins
        self.renders: list[FetchItem] = []  # rows for the slot's browsers

    def load(self, resolver: Resolves) -> None:
        """Queue the rows in rank order, robots rows first: each origin is known before its pages.

        `resolver` gets the addresses that the hosts had last.
        """
        now = self._clock()
        for item in self._unique_items():
            state = self._hosts.add(item)
            if state is not None and isinstance(resolver, Resolver):
                resolver.remember(item.host, state.last_ips)
            origin = self._origins[origin_of(item.url)]
            if origin.verdict is None and origin.fetch is None:
                robots_row = item if item.kind == "robots" else None
                copy = self._setup.earlier.robots.get(origin.name)
                self._origins.load(origin, now, robots_row, copy)
                self._hosts.heed_crawl_delay(origin.host)
            if item.kind == "render":
                self.renders.append(item)
            elif item.kind != "robots":
                self.place(PageJob(item, origin))
            elif origin.verdict is not None:
                self._ledger.record_outcome(item, Judged(Outcome.ROBOTS_CACHED))
            else:
                origin.item = item
                self._request_robots(origin)

    def _unique_items(self) -> Iterator[FetchItem]:
        """The rows in order, each (url_key, kind) once."""
        seen = set()
        for item in sorted(self._setup.items, key=lambda i: (i.kind != "robots", i.rank)):
            if (item.url_key, item.kind) in seen:
                self._ledger.left -= 1
            else:
                seen.add((item.url_key, item.kind))
                yield item

    def place(self, job: PageJob | SubJob) -> None:
        """Queue a request, let it wait for its robots.txt, or defer one due after the round."""
        item = job.item
        if item.not_before is not None and item.not_before > self.deadline:
            detail = "not before the end of this round"
            self._end(job, Judged(Outcome.DEFERRED, Reason.ROUND_TIME, detail))
        elif job.origin.usable(self._clock()):
            if isinstance(job, SubJob) and job.is_gate:
                self._ask_robots(job)
                return
            self._pacer.push(item.host, job, item.not_before)
        else:
            job.origin.waiting.append(job)
            if job.origin.fetch is None:
                self._request_robots(job.origin)

    def _request_robots(self, origin: Origin) -> None:
        job = RobotsJob(origin, self._origins.begin(origin))
        self._pacer.push(origin.host, job, urgent=True)

    def may_fetch(self, ticket: Send) -> bool:
        """Whether robots.txt allows a request, checked just before it is sent.

        If not, it gets its outcome here; if the verdict has expired, it is queued again.
        """
        origin = ticket.job.origin
        if not origin.usable(self._clock()):
            self._pacer.give_back(ticket)
            self.place(ticket.job)
            return False
        if self._ask_robots(ticket.job):
            return True
        self._pacer.give_back(ticket)
        return False

    def _ask_robots(self, job: PageJob | SubJob) -> bool:
        """Whether the origin's verdict lets a URL be fetched; if not, its outcome is that."""
        match = job.origin.known.match(self._setup.cfg.agent.name, job.url)
        if match is None:
            self._end(job, no_robots(job.origin))
        elif not match.allowed:
            self._end(job, Judged(Outcome.ROBOTS_DENIED, Reason.ROBOTS_RULE), match.line)
        elif isinstance(job, SubJob) and job.is_gate:
            job.end(None)
        return match is not None and match.allowed

    def _end(self, job: PageJob | SubJob, judged: Judged, robots_line: str | None = None) -> None:
        """The outcome of a job for which nothing was sent."""
        if isinstance(job, SubJob):
            job.end(judged)
        else:
            self._ledger.record_outcome(job.item, judged, robots_line)

    def release(self, origin: Origin) -> None:
        """Queue or defer the pages of an origin whose robots.txt verdict is now known."""
        verdict = origin.verdict
        assert verdict is not None
        if origin.item is not None:  # a redirect hop that is not ours to follow
            deferred = Judged(Outcome.DEFERRED, verdict.reason, verdict.final_url)
            self._ledger.record_outcome(origin.item, deferred)
            origin.item = None
        waiting, origin.waiting = origin.waiting, []
        for job in waiting:
            if verdict.kind == "defer":
                self._end(job, no_robots(origin))
            else:
                self.place(job)

    def give_up(self, host: str, reason: Reason) -> None:
        """Defer all that the host has not begun, and what waits for its robots.txt."""
        for job in self._pacer.drain(host):
            for given_up in job.origin.give_up() if isinstance(job, RobotsJob) else [job]:
                self._end(given_up, Judged(Outcome.DEFERRED, reason))

    def give_up_all(self, reason: Reason) -> None:
        """Defer all that no host has begun."""
        for host in self._pacer.hosts():
            self.give_up(host, reason)
