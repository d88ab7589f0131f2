"""Which of a task's hosts may be asked next: the queues of all hosts, by due time.

Holds no clock: the caller says what time it is. At most `parallel` (normally one) requests of a
host are open; a registered domain and an address have one open request and their own floors. A host
that waits for a busy domain or address is parked there and comes back when it is free, so every
step costs O(log hosts).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crawlkit.config import Config
from crawlkit.outcomes import Reason
from crawlkit.rules.politeness.host_state import (
    Delay,
    HostState,
    effective_delay_s,
    group_delay_s,
    may_send,
)


@dataclass(slots=True, eq=False)
class _Group:
    """Hosts of one registered domain or address."""

    floor_s: float
    last_end: float
    open: int = 0
    parked: deque[_Entry] = field(default_factory=deque)
    woken: bool = False


@dataclass(slots=True, eq=False)
class _Entry:
    """One host and its jobs."""

    host: str
    state: HostState
    domain: _Group
    address: _Group | None = None
    address_known: bool = False
    open: int = 0
    open_pages: int = 0
    last_start: float = -math.inf
    urgent: deque[Any] = field(default_factory=deque)
    queue: deque[Any] = field(default_factory=deque)
    later: list[tuple[float, int, Any]] = field(default_factory=list)
    due: float | None = None  # its place in the heap
    barred: Reason | None = None
    is_parked: bool = False
    is_resolving: bool = False


class Send(NamedTuple):
    """Start this job now; hand the ticket to `Pacer.ended` or `Pacer.unused`."""

    host: str
    job: Any
    delay_s: float  # gap in force
    groups: tuple[_Group, ...]


class Resolve(NamedTuple):
    """The host's address is needed first: call `Pacer.set_address`."""

    host: str


class GiveUp(NamedTuple):
    """The host cannot be asked before the deadline: call `Pacer.drain`."""

    host: str
    reason: Reason


class Waiting(NamedTuple):
    """Jobs of a host that have not been started. at: when it may be asked next (Unix s)."""

    host: str
    jobs: int
    delay_s: float
    why: str
    at: float


class Pacer:
    """Queues of jobs by host.

    A job is any object; its attribute `is_page` says whether the quotas count it.
    """

    def __init__(self, cfg: Config, deadline: float, quiet_since: float = -math.inf) -> None:
        """`deadline`: Unix s after which nothing starts.

        `quiet_since`: no request of an earlier attempt ended after it.
        """
        self._cfg, self._deadline, self._quiet_since = cfg, deadline, quiet_since
        self._hosts: dict[str, _Entry] = {}
        self._domains: dict[str, _Group] = {}
        self._addresses: dict[str, _Group] = {}
        self._heap: list[tuple[float, int, _Entry | _Group]] = []
        self._seq = 0

    def add_host(self, domain: str, state: HostState) -> None:
        """Let a host take part, with its state; hosts of one domain share its gap."""
        group = self._domains.setdefault(
            domain, _Group(self._cfg.politeness.domain_delay_s, self._quiet_since)
        )
        end = max(
            self._quiet_since,
            -math.inf if state.last_request_end is None else state.last_request_end,
        )
        if end > -math.inf:
            state.last_request_end = end
            group.last_end = max(group.last_end, end)
        self._hosts[state.host] = _Entry(state.host, state, group)

    def __contains__(self, host: str) -> bool:
        return host in self._hosts

    def owns_domain(self, domain: str) -> bool:
        """Whether hosts of this registered domain take part."""
        return domain in self._domains

    def hosts(self) -> list[str]:
        """All hosts that take part."""
        return list(self._hosts)

    def state(self, host: str) -> HostState:
        """The politeness state of a host."""
        return self._hosts[host].state

    def set_state(self, host: str, state: HostState) -> None:
        """What is now known of the host: after an answer, or when a Crawl-delay was read."""
        self._hosts[host].state = state

    def bar(self, host: str, reason: Reason) -> None:
        """Start nothing more for this host; its jobs come back as GiveUp with `reason`."""
        entry = self._hosts[host]
        entry.barred = reason
        self._plan(entry, -math.inf)

    def set_address(self, host: str, address: str | None) -> None:
        """Where the host's requests go (None: unknown, no floor by address)."""
        entry = self._hosts[host]
        entry.address_known, entry.is_resolving, entry.address = True, False, None
        if address is not None:
            group = self._addresses.setdefault(
                address, _Group(self._cfg.politeness.ip_delay_s, self._quiet_since)
            )
            if entry.state.last_request_end is not None:
                group.last_end = max(group.last_end, entry.state.last_request_end)
            entry.address = group
        self._plan(entry, -math.inf)

    def push(
        self, host: str, job: Any, not_before: float | None = None, urgent: bool = False
    ) -> None:
        """Add a job behind the others of its host; `urgent`: before all that are not."""
        entry = self._hosts[host]
        if not_before is not None:
            heapq.heappush(entry.later, (not_before, self._next_seq(), job))
        else:
            (entry.urgent if urgent else entry.queue).append(job)
        self._plan(entry, -math.inf if not_before is None else not_before)

    def drain(self, host: str) -> list[Any]:
        """Take all jobs that have not been started."""
        entry = self._hosts[host]
        jobs = [
            *entry.urgent,
            *entry.queue,
            *(job for _, _, job in sorted(entry.later, key=lambda x: x[:2])),
        ]
        entry.urgent.clear()
        entry.queue.clear()
        entry.later.clear()
        return jobs

    def longest_queues(self, n: int, now: float) -> list[Waiting]:
        """The hosts for which most time will be waited: jobs by delay, the longest first."""
        found = []
        for entry in self._hosts.values():
            jobs = len(entry.urgent) + len(entry.queue) + len(entry.later)
            if jobs:
                delay = effective_delay_s(entry.state, self._cfg.politeness, now)
                found.append((jobs * delay.seconds, jobs, entry, delay))
        longest = heapq.nlargest(n, found, key=lambda f: f[:2])
        return [
            Waiting(entry.host, jobs, delay.seconds, *self._next_of(entry, delay, now))
            for _, jobs, entry, delay in longest
        ]

    def _next_of(self, entry: _Entry, delay: Delay, now: float) -> tuple[str, float]:
        """What holds a host back, and until when."""
        at, reason = may_send(entry.state, now, self._cfg, True, entry.open_pages)
        held = reason if at > now + delay.seconds else None
        why = str(entry.barred or held or delay.why)
        return why, min(max(at, now), self._deadline)

    def next_time(self) -> float:
        """When to ask again at the latest; infinite: not before something ends or is added."""
        return self._heap[0][0] if self._heap else math.inf

    def next(self, now: float) -> Send | Resolve | GiveUp | None:
        """What to do now, or None: nothing before `next_time`."""
        while self._heap and self._heap[0][0] <= now:
            due, _, item = heapq.heappop(self._heap)
            if isinstance(item, _Group):
                item.woken = False
                if item.open or not item.parked:
                    continue
                entry = item.parked.popleft()
                entry.is_parked = False
                step = self._try(entry, now)
                self._wake(item)
            elif item.due == due:
                item.due = None
                step = self._try(item, now)
            else:
                continue  # planned anew since
            if step is not None:
                return step
        return None

    def end(self, ticket: Send) -> None:
        """The request is over; the state after it was set before."""
        entry = self._close(ticket)
        end = entry.state.last_request_end or 0.0
        for group in ticket.groups:
            group.last_end = max(group.last_end, end)
            self._wake(group)
        if entry.address is not None and entry.address not in ticket.groups:
            entry.address.last_end = max(entry.address.last_end, end)
        self._plan(entry, -math.inf)

    def give_back(self, ticket: Send) -> None:
        """Nothing was sent after all."""
        entry = self._close(ticket)
        for group in ticket.groups:
            self._wake(group)
        self._plan(entry, -math.inf)

    def _close(self, ticket: Send) -> _Entry:
        entry = self._hosts[ticket.host]
        entry.open -= 1
        entry.open_pages -= ticket.job.is_page
        for group in ticket.groups:
            group.open -= 1
        return entry

    def _try(self, entry: _Entry, now: float) -> Send | Resolve | GiveUp | None:
        allowed = 1 if entry.state.health.down else max(entry.state.parallel, 1)
        if entry.open >= allowed or entry.is_parked:
            return None
        while entry.later and entry.later[0][0] <= now:
            entry.queue.append(heapq.heappop(entry.later)[2])
        jobs = entry.urgent or entry.queue
        if not jobs:
            if entry.later:
                self._plan(entry, entry.later[0][0])
            return None
        if entry.barred:
            return GiveUp(entry.host, entry.barred)
        at, reason = may_send(entry.state, now, self._cfg, jobs[0].is_page, entry.open_pages)
        delay_s = effective_delay_s(entry.state, self._cfg.politeness, now).seconds
        if entry.open:  # an operator's parallel requests start a delay apart
            at = max(at, entry.last_start + delay_s)
        if at > self._deadline:
            return GiveUp(entry.host, reason or Reason.ROUND_TIME)
        if at > now:
            self._plan(entry, at)
            return None
        if not entry.address_known and self._cfg.politeness.ip_delay_s > 0:
            entry.is_resolving = True
            return Resolve(entry.host)
        groups = tuple(g for g in (entry.domain, entry.address) if g is not None and g.floor_s > 0)
        for group in groups:
            busy = group.open and entry.state.parallel <= 1
            if busy or now < group.last_end + group_delay_s(entry.state, group.floor_s, delay_s):
                group.parked.append(entry)
                entry.is_parked = True
                self._wake(group)
                return None
        entry.open += 1
        entry.open_pages += jobs[0].is_page
        entry.last_start = now
        for group in groups:
            group.open += 1
        if entry.open < allowed:
            self._plan(entry, now + delay_s)
        return Send(entry.host, jobs.popleft(), delay_s, groups)

    def _plan(self, entry: _Entry, at: float) -> None:
        """Look at the host again at `at`, or earlier if that is planned already."""
        if entry.is_parked or entry.is_resolving or (entry.due is not None and entry.due <= at):
            return
        entry.due = at
        heapq.heappush(self._heap, (at, self._next_seq(), entry))

    def _wake(self, group: _Group) -> None:
        """Let the first parked host try when the group is free."""
        if group.parked and not group.open and not group.woken:
            group.woken = True
            heapq.heappush(self._heap, (group.last_end + group.floor_s, self._next_seq(), group))

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq
