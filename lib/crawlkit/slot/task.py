"""One attempt of a slot: many hosts at once, each at its pace.

Which host comes next is decided in rules/politeness/pacer.py, what robots.txt allows in robots.py;
ledger.py stores the outcomes. Everything runs in one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable

from crawlkit.adapters.net.address_guard import Guard, parse_place
from crawlkit.adapters.net.dns import Resolver
from crawlkit.adapters.store.free_space import free_bytes
from crawlkit.adapters.store.lease import LeaseLost
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.politeness.pacer import GiveUp, Pacer, Resolve, Send
from crawlkit.slot.handlers import Handlers
from crawlkit.slot.hosts import SlotHosts
from crawlkit.slot.inputs import SlotClock, put_progress
from crawlkit.slot.live_figures import LiveFigures
from crawlkit.slot.page_renders import PageRenders
from crawlkit.slot.robots import RobotsJob, SubJob
from crawlkit.slot.send import Sender
from crawlkit.slot.setup import SlotSetup
from crawlkit.slot.work_queue import WorkQueue

log = logging.getLogger(__name__)
_STEPS_AT_ONCE = 200  # then the sockets get their turn
_LEASE_WATCH_S = 0.2


async def run_attempt(setup: SlotSetup) -> None:
    """Fetch the rows of one attempt. Raises what run_slot raises."""
    await SlotTask(setup).run()


class SlotTask:
    """The loop of one attempt; to be made inside the event loop."""

    def __init__(self, setup: SlotSetup) -> None:
        self._setup = setup
        self._cfg = setup.cfg
        self._io = setup.io
        self._lease = setup.lease
        self._ledger = setup.ledger
        self._clock = SlotClock()
        deadline = self._clock() + setup.cfg.round.minutes * 60
        self._pacer = Pacer(setup.cfg, deadline, setup.quiet_since)
        self._hosts = SlotHosts(setup, self._pacer)
        self._queue = WorkQueue(setup, self._hosts, deadline, self._clock)
        self._engine = setup.io.engine(setup.cfg.fetch)
        self._guard = Guard(setup.cfg.fetch, self._engine.resolver)
        sender = Sender(
            setup.cfg,
            setup.lease,
            self._engine,
            self._hosts,
            setup.ledger,
            self._clock,
            setup.chance,
        )
        self._handlers = Handlers(setup, self._hosts, self._queue, sender, self._clock)
        self._renders = PageRenders(setup, self._hosts, self._queue, self._guard, self._wake_up)
        self._figures = LiveFigures(len(setup.items), setup.ledger, self._pacer, self._clock())
        self._disk_full = False
        self._open = 0  # requests under way
        self._resolving = 0
        self._sends: set[asyncio.Task[None]] = set()
        self._tasks = asyncio.TaskGroup()
        self._wake = asyncio.Event()
        self._over = asyncio.Event()
        self._may_go_on = True

    async def run(self) -> None:
        """Fetch all rows. Raises what run_slot raises."""
        self._queue.load(self._engine.resolver)
        self._renders.load()
        self._watch_lease()
        try:
            async with self._tasks:
                await self._heed_orders()
                self._tasks.create_task(self._every(self._io.progress_s, self._tick))
                self._tasks.create_task(self._every(self._io.stop_list_s, self._heed_orders))
                await self._dispatch()
                self._over.set()
            await self._finish()
        except (asyncio.CancelledError, KeyboardInterrupt):
            await self._store()  # an interrupt: what has an answer is not asked for again
            raise
        except BaseExceptionGroup as group:
            raise _first(group) from None
        finally:
            await self._renders.close()
            await self._engine.close()

    async def _store(self) -> None:
        await self._ledger.finish(self._pacer.state(h) for h in self._hosts.touched)

    async def _finish(self) -> None:
        """Store what has not been stored yet, and report."""
        if self._ledger.left:
            log.error(
                "slot %d of round %s: %d rows got no outcome; the commit gives them back",
                self._setup.slot,
                self._setup.round_id,
                self._ledger.left,
            )
        await self._store()
        if isinstance(self._engine.resolver, Resolver):
            counts = self._engine.resolver.counts
            self._ledger.counts.update({f"dns_{name}": n for name, n in counts.items()})
        await self._show()

    # -- the loop

    async def _dispatch(self) -> None:
        """Start whatever may start, until nothing is queued and nothing is under way.

        Raises LeaseLost.
        """
        while True:
            self._wake.clear()
            if reason := self._round_over():
                self._queue.give_up_all(reason)
                self._renders.give_up(reason)
            may_send = self._may_send()
            steps = self._start_due() if may_send else 0
            if may_send:
                self._renders.start(self._tasks)
            due = self._pacer.next_time()
            if steps == _STEPS_AT_ONCE:
                await asyncio.sleep(0)
            elif due == math.inf and not self._open and not self._resolving:
                if self._renders.is_idle:
                    return
                await self._sleep(1.0)
            else:
                await self._sleep(self._pause_s(due) if may_send else 0.2)

    def _round_over(self) -> Reason | None:
        """Why nothing more is fetched in this round."""
        stop, most = self._setup.stop, self._cfg.round.max_bytes
        if most is not None and self._ledger.counts["bytes"] >= most:
            return Reason.ROUND_BYTES
        if self._disk_full:
            return Reason.DISK_FULL
        over = self._clock() >= self._queue.deadline or (stop is not None and stop.is_set())
        return Reason.ROUND_TIME if over else None

    def _may_send(self) -> bool:
        """Whether requests may be sent now. Raises LeaseLost."""
        may_send = self._lease.may_send(self._cfg.fetch.timeout_s) and not self._hosts.round_paused
        if not self._may_go_on or self._lease.lost:
            raise LeaseLost(
                f"slot {self._setup.slot} of round {self._setup.round_id}: its lease is lost, the"
                " rest is the next attempt's"
            )
        return may_send

    def _start_due(self) -> int:
        """Start what is due now, as far as there is room; the number of steps."""
        steps = 0
        while self._open < self._cfg.fetch.in_flight and steps < _STEPS_AT_ONCE:
            step = self._pacer.next(self._clock())
            if step is None:
                break
            self._take(step)
            steps += 1
        return steps

    def _pause_s(self, due: float) -> float:
        """Seconds until the next step is due; for ever while there is no room for one."""
        has_room = self._open < self._cfg.fetch.in_flight
        until = min(due, self._queue.deadline) if has_room else math.inf
        return max(until - self._clock(), 0.0)

    async def _sleep(self, seconds: float) -> None:
        """Sleep until something ends or is added, at most so long.

        Never over a second: lease and `stop` are checked again.
        """
        try:
            async with asyncio.timeout(min(seconds, 1.0)):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _take(self, step: Send | Resolve | GiveUp) -> None:
        if isinstance(step, GiveUp):
            self._queue.give_up(step.host, step.reason)
        elif isinstance(step, Resolve):
            self._resolving += 1
            self._tasks.create_task(self._resolve(step.host))
        elif isinstance(step.job, RobotsJob):
            self._start(step, self._handlers.fetch_robots)
        elif self._queue.may_fetch(step):
            is_sub = isinstance(step.job, SubJob)
            self._start(step, self._handlers.fetch_sub if is_sub else self._handlers.fetch_page)

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
        """Look up the address of the host's requests; a failure shows again with the request."""
        try:
            address = (await self._guard.admit(parse_place(f"http://{host}/"))).addresses[0]
        except (Refused, IndexError):
            address = None
        self._pacer.set_address(host, address)
        self._resolving -= 1
        self._wake.set()

    # -- beside the requests

    def _wake_up(self) -> None:
        self._wake.set()

    def _watch_lease(self) -> None:
        """Cancel what is under way as soon as the lease ends.

        After a freeze this timer is the first thing to run, so a connection that is established
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
        self._disk_full = free_bytes(self._io.places) < self._cfg.storage.min_free_bytes
        await self._ledger.write_gathered()
        await self._show()

    async def _show(self) -> None:
        """Store the live view's figures; that this fails stops nothing."""
        row = self._figures.row(self._hosts.touched, self._open, self._clock())
        round_id, slot = self._setup.round_id, self._setup.slot
        try:
            await asyncio.to_thread(put_progress, self._io.objects, round_id, slot, row)
        except OSError as e:
            log.warning("progress of slot %d not shown: %s", slot, e)

    async def _heed_orders(self) -> None:
        """Obey what operators have ordered since. Raises what SlotHosts.heed_orders raises."""
        await self._hosts.heed_orders()
        if self._hosts.round_abandoned:
            self._queue.deadline = min(self._queue.deadline, self._clock())
        self._wake.set()


def _first(group: BaseExceptionGroup) -> BaseException:
    """The first exception of the group: it failed first, the rest followed from it."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
