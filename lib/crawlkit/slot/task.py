"""One attempt of a slot: many hosts at once, each at its pace (REQUIREMENTS D, E2).

Which host comes next is rules/politeness/pacer.py; what robots.txt says is slot_robots.py; what is kept of it
is slot_ledger.py. Everything runs in one event loop.
"""

from __future__ import annotations

import asyncio
import dataclasses
import heapq
import logging
import math
import random
import threading
from collections.abc import Awaitable, Callable
from ipaddress import ip_network

from crawlkit.adapters.net.address_guard import Guard, parse_place
from crawlkit.adapters.net.dns import Resolver
from crawlkit.adapters.store.lease import Lease, LeaseLost
from crawlkit.adapters.store.objects import StoreUnavailable
from crawlkit.adapters.store.stop_list import Orders, read_orders
from crawlkit.config import Config
from crawlkit.model import FetchItem
from crawlkit.outcomes import Outcome, Reason, Refused
from crawlkit.rules.feeds import sitemaps
from crawlkit.rules.frontier.fetch_outcome import Judged, judge
from crawlkit.rules.http.conditional import conditional_headers
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.rules.politeness.pacer import GiveUp, Pacer, Resolve, Send
from crawlkit.rules.url.canonical import UrlPolicy, host_of, origin_of, url_key
from crawlkit.rules.url.domains import registered_domain
from crawlkit.slot.inputs import Earlier, SlotClock, SlotIO, put_progress
from crawlkit.slot.ledger import Ledger
from crawlkit.slot.robots import Origin, Origins, PageJob, RobotsJob, copy_of, no_robots
from crawlkit.slot.send import Sender

log = logging.getLogger(__name__)
_STEPS_AT_ONCE = 200  # then the sockets get their turn
_LEASE_WATCH_S = 0.2
_ROBOTS_ACCEPT = "text/plain,*/*;q=0.5"
_SITEMAP_ACCEPT = "application/xml,text/xml,application/rss+xml,application/atom+xml,*/*;q=0.5"


class SlotTask:
    """`chance` makes the jitter; `quiet_since`: Unix s after which no request of an earlier attempt
    ended.
    """

    def __init__(
        self,
        items: list[FetchItem],
        cfg: Config,
        io: SlotIO,
        lease: Lease,
        earlier: Earlier,
        ledger: Ledger,
        quiet_since: float,
        chance: random.Random,
        stop: threading.Event | None,
    ) -> None:
        self._cfg, self._io, self._lease, self._ledger, self._chance, self._stop = (
            cfg,
            io,
            lease,
            ledger,
            chance,
            stop,
        )
        self._items, self._earlier = items, earlier
        self._round_id, self._slot = items[0].round_id, items[0].slot
        self._clock = SlotClock()
        self._deadline = self._clock() + cfg.round.minutes * 60
        self._policy, self._allow = (
            UrlPolicy.of(cfg.urls),
            tuple(ip_network(n) for n in cfg.fetch.allow_private),
        )
        self._pacer = Pacer(cfg, self._deadline, quiet_since)
        self._origins = Origins(cfg, self._allow, self._owns)
        self._domains: dict[str, str] = {}  # host -> registered domain
        self._open = self._resolving = 0
        self._sends: set[asyncio.Task[None]] = set()
        self._may_go_on = True
        self._orders: Orders | None = None

    async def run(self) -> None:
        """Raises what run_slot says."""
        self._engine = self._io.engine(self._cfg.fetch)
        self._sender = Sender(
            self._cfg,
            self._lease,
            self._engine,
            self._pacer,
            self._ledger,
            self._clock,
            self._chance,
        )
        self._guard = Guard(self._cfg.fetch, self._engine.resolver)
        self._wake, self._over = asyncio.Event(), asyncio.Event()
        self._load()
        self._watch_lease()
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await self._heed_orders()
                self._tasks.create_task(self._every(self._io.progress_s, self._tick))
                self._tasks.create_task(self._every(self._io.stop_list_s, self._heed_orders))
                await self._dispatch()
                self._over.set()
            if self._ledger.left:
                log.error(
                    "slot %d of round %s: %d rows got no outcome; the commit gives them back",
                    self._slot,
                    self._round_id,
                    self._ledger.left,
                )
            await self._ledger.finish(self._pacer.state(h) for h in self._sender.touched)
            if isinstance(self._engine.resolver, Resolver):
                self._ledger.counts.update(
                    {f"dns_{name}": n for name, n in self._engine.resolver.counts.items()}
                )
            await self._show()
        except BaseExceptionGroup as group:
            raise _first(group) from None
        finally:
            await self._engine.close()

    # -- what there is to do

    def _load(self) -> None:
        """Queue the rows in rank order, robots rows first, so that each origin is known before its
        pages.
        """
        now, seen = self._clock(), set()
        for item in sorted(self._items, key=lambda i: (i.kind != "robots", i.rank)):
            if (item.url_key, item.kind) in seen:
                self._ledger.left -= 1
                continue
            seen.add((item.url_key, item.kind))
            self._domains[item.host] = item.domain
            if item.host not in self._pacer:
                state = self._earlier.states.get(item.host) or _state_of(item)
                self._pacer.add_host(item.domain, state)
                if isinstance(self._engine.resolver, Resolver):
                    self._engine.resolver.remember(item.host, state.last_ips)
            origin = self._origins[origin_of(item.url)]
            if origin.verdict is None and origin.fetch is None:
                self._origins.load(
                    origin,
                    now,
                    item if item.kind == "robots" else None,
                    self._earlier.robots.get(origin.name),
                )
                self._heed_crawl_delay(origin.host)
            if item.kind != "robots":
                self._place(PageJob(item, origin))
            elif origin.verdict is not None:
                self._ledger.done(item, Judged(Outcome.ROBOTS_CACHED))
            else:
                origin.item = item
                self._ask(origin)

    def _place(self, job: PageJob) -> None:
        item = job.item
        if item.not_before is not None and item.not_before > self._deadline:
            self._ledger.done(
                item,
                Judged(Outcome.DEFERRED, Reason.ROUND_TIME, "not before the end of this round"),
            )
        elif job.origin.usable(self._clock()):
            self._pacer.push(item.host, job, item.not_before)
        else:
            job.origin.waiting.append(item)
            if job.origin.fetch is None:
                self._ask(job.origin)

    def _ask(self, origin: Origin) -> None:
        self._pacer.push(origin.host, RobotsJob(origin, self._origins.begin(origin)), urgent=True)

    def _owns(self, host: str) -> bool:
        """Whether requests to a host are this slot's to pace; a new host of one of its domains is
        taken in.
        """
        domain = registered_domain(host)
        if host not in self._pacer and self._pacer.owns_domain(domain):
            self._pacer.add_host(domain, HostState(host))
            self._domains[host] = domain
            self._obey(host)
        return host in self._pacer

    def _heed_crawl_delay(self, host: str) -> None:
        state = self._pacer.state(host)
        delay_s = self._origins.crawl_delay_s(host, state.robots_delay_s)
        if delay_s != state.robots_delay_s:
            self._pacer.set_state(host, dataclasses.replace(state, robots_delay_s=delay_s))
            self._sender.touched.add(host)

    # -- the loop

    async def _dispatch(self) -> None:
        """Start whatever may start, until nothing is left and nothing is under way.

        Raises LeaseLost.
        """
        while True:
            self._wake.clear()
            if self._clock() >= self._deadline or (self._stop is not None and self._stop.is_set()):
                for host in self._pacer.hosts():
                    self._give_up(host, Reason.ROUND_TIME)
            may_send = (
                self._lease.may_send(self._cfg.fetch.timeout_s)
                and self._round_id not in self._orders.paused
            )
            if not self._may_go_on or self._lease.lost:
                raise LeaseLost(
                    f"slot {self._slot} of round {self._round_id}: its lease is lost, the rest is"
                    " the next attempt's"
                )
            steps = 0
            while (
                may_send
                and self._open < self._cfg.fetch.in_flight
                and steps < _STEPS_AT_ONCE
                and (step := self._pacer.next(self._clock())) is not None
            ):
                self._take(step)
                steps += 1
            due = self._pacer.next_time()
            if steps == _STEPS_AT_ONCE:
                await asyncio.sleep(0)
            elif due == math.inf and not self._open and not self._resolving:
                return
            else:
                until = (
                    min(due, self._deadline) if self._open < self._cfg.fetch.in_flight else math.inf
                )
                await self._sleep(max(until - self._clock(), 0.0) if may_send else 0.2)

    async def _sleep(self, seconds: float) -> None:
        """Until something ends or is added, at most so long and never over a second: lease and
        `stop` are looked at again.
        """
        try:
            async with asyncio.timeout(min(seconds, 1.0)):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _take(self, step: Send | Resolve | GiveUp) -> None:
        if isinstance(step, GiveUp):
            self._give_up(step.host, step.reason)
        elif isinstance(step, Resolve):
            self._resolving += 1
            self._tasks.create_task(self._resolve(step.host))
        elif isinstance(step.job, RobotsJob):
            self._start(step, self._robots)
        elif self._may_fetch(step):
            self._start(step, self._page)

    def _may_fetch(self, ticket: Send) -> bool:
        """Asked just before each page is sent: does its robots.txt let us? If not, the page has its
        outcome.
        """
        item, origin = ticket.job.item, ticket.job.origin
        if not origin.usable(self._clock()):
            self._pacer.unused(ticket)
            self._place(ticket.job)
            return False
        match = origin.verdict.match(self._cfg.agent.name, item.url)
        if match is not None and match.allowed:
            return True
        self._pacer.unused(ticket)
        if match is None:
            self._ledger.done(item, no_robots(origin))
        else:
            self._ledger.done(
                item, Judged(Outcome.ROBOTS_DENIED, Reason.ROBOTS_RULE), robots_line=match.line
            )
        return False

    def _give_up(self, host: str, reason: Reason) -> None:
        """Give back all that the host has not begun, and what waits for its robots.txt."""
        for job in self._pacer.drain(host):
            items = [job.item] if isinstance(job, PageJob) else job.origin.give_up()
            for item in items:
                self._ledger.done(item, Judged(Outcome.DEFERRED, reason))

    def _start(self, ticket: Send, handle: Callable[[Send], Awaitable[None]]) -> None:
        async def run() -> None:
            try:
                await handle(ticket)
            finally:
                self._open -= 1
                self._wake.set()

        self._open += 1
        task = self._tasks.create_task(run())
        self._sends.add(task)
        task.add_done_callback(self._sends.discard)

    async def _resolve(self, host: str) -> None:
        """Learn the address that the host's requests will go to; a failure is the request's to
        meet.
        """
        try:
            address = (await self._guard.admit(parse_place(f"http://{host}/"))).addresses[0]
        except (Refused, IndexError):
            address = None
        self._pacer.set_address(host, address)
        self._resolving -= 1
        self._wake.set()

    # -- one request

    async def _page(self, ticket: Send) -> None:
        item = ticket.job.item
        limits = (
            {}
            if item.kind == "page"
            else {
                "accept": _SITEMAP_ACCEPT,
                "content_types": (),
                "max_body_bytes": max(self._cfg.fetch.max_body_bytes, sitemaps.MAX_BYTES),
            }
        )
        answer = await self._sender.ask(item.url, item.etag, item.last_modified, **limits)
        await self._sender.settle(ticket, answer)
        judged = judge(
            item.url,
            answer,
            bool(conditional_headers(item.etag, item.last_modified)),
            self._policy,
            self._allow,
        )
        await self._ledger.answered(
            item, judged, answer, ticket.delay_s, self._pacer.state(ticket.host)
        )
        self._sender.stored(answer)

    async def _robots(self, ticket: Send) -> None:
        origin, url = ticket.job.origin, ticket.job.url
        answer = await self._sender.ask(
            url,
            accept=_ROBOTS_ACCEPT,
            content_types=(),
            max_body_bytes=self._cfg.robots.max_bytes + 1,
        )
        hop = self._origins.receive(origin, self._clock(), answer)
        self._heed_crawl_delay(origin.host)
        await self._sender.settle(ticket, answer)
        judged = judge(url, answer, False, self._policy, self._allow)
        if hop is None and judged.outcome is Outcome.REDIRECTED:
            judged = Judged(Outcome.HTTP_ERROR, origin.verdict.reason, judged.redirect_to)
        request = FetchItem(
            self._round_id,
            url_key(url),
            url,
            ticket.host,
            self._domains[ticket.host],
            self._slot,
            0,
            "robots",
        )
        is_outcome = (
            hop is None
            and origin.item is not None
            and origin.verdict.reason is not Reason.ROBOTS_FOREIGN_HOST
        )
        if is_outcome:
            request.url_key, origin.item = origin.item.url_key, None
        copy = copy_of(origin) if hop is None else None
        await self._ledger.answered(
            request,
            judged,
            answer,
            ticket.delay_s,
            self._pacer.state(ticket.host),
            is_outcome=is_outcome,
            copy=copy,
        )
        self._sender.stored(answer)
        if hop is not None:
            self._pacer.push(host_of(hop), RobotsJob(origin, hop), urgent=True)
        else:
            self._release(origin)

    def _release(self, origin: Origin) -> None:
        """The verdict is there: the origin's pages may go, or are given back."""
        if origin.item is not None:  # a hop that is not ours to follow
            self._ledger.done(
                origin.item,
                Judged(Outcome.DEFERRED, origin.verdict.reason, origin.verdict.final_url),
            )
            origin.item = None
        waiting, origin.waiting = origin.waiting, []
        for item in waiting:
            if origin.verdict.kind == "defer":
                self._ledger.done(item, no_robots(origin))
            else:
                self._place(PageJob(item, origin))

    # -- beside the requests

    def _watch_lease(self) -> None:
        """Cut off what is under way as soon as the lease ends.

        After a freeze this timer is the first thing to run, so a connection that comes to stand
        then carries no request any more.
        """
        if self._lease.may_send():
            asyncio.get_running_loop().call_later(_LEASE_WATCH_S, self._watch_lease)
            return
        self._may_go_on = False
        for task in self._sends:
            task.cancel()
        self._wake.set()

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while not self._over.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._over.wait()
            except TimeoutError:
                await work()

    async def _tick(self) -> None:
        await self._ledger.tidy()
        await self._show()

    async def _show(self) -> None:
        """The live view's figures; a view that cannot be shown stops nothing."""
        slowest = heapq.nlargest(
            5, ((self._pacer.state(h).avg_ms or 0.0, h) for h in self._sender.touched)
        )
        counts, ledger = self._ledger.counts, self._ledger
        row = {
            "queued": max(ledger.left - self._open, 0),
            "in_flight": self._open,
            "done": len(self._items) - ledger.left,
            "failed": ledger.failed,
            "bytes": counts["bytes"],
            "slowest": [[h, round(ms)] for ms, h in slowest],
        }
        try:
            await asyncio.to_thread(put_progress, self._io.objects, self._round_id, self._slot, row)
        except OSError as e:
            log.warning("progress of slot %d not shown: %s", self._slot, e)

    async def _heed_orders(self) -> None:
        """Do what operators have ordered since.

        Raises ValueError for orders that cannot be read: nothing is sent against them.
        """
        try:
            self._orders = await asyncio.to_thread(read_orders, self._io.objects)
        except StoreUnavailable as e:
            if self._orders is None:
                raise
            log.warning(
                "stop list not read: %s", e
            )  # what is barred stays so; the lease bounds how long this may last
            return
        if self._round_id in self._orders.abandoned:
            self._deadline = min(self._deadline, self._clock())
        for host in self._pacer.hosts():
            self._obey(host)
        self._wake.set()

    def _obey(self, host: str) -> None:
        """What is ordered for one host: nothing more, or another pace."""
        if self._orders.stopped(host, self._domains[host]) is not None:
            self._pacer.bar(host, Reason.STOP_LIST)
        if (policy := self._orders.policies.get(host)) is not None:
            state = self._pacer.state(host)
            told = dataclasses.replace(
                state,
                operator_delay_s=policy["delay_s"],
                parallel=policy["parallel"],
                quota_max=policy["quota_max"],
                cycle_quota_max=policy["cycle_quota_max"],
            )
            if told != state:
                self._pacer.set_state(host, told)
                self._sender.touched.add(host)


def _state_of(item: FetchItem) -> HostState:
    """The host's state as handed over; one that cannot be read is a new one."""
    if item.host_state:
        try:
            return HostState.from_json(item.host_state)
        except ValueError as e:
            log.warning("state of %s dropped: %s", item.host, e)
    return HostState(item.host)


def _first(group: BaseExceptionGroup) -> BaseException:
    """The one exception behind the group: what failed first; the rest followed from it."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
