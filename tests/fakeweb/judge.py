"""Judging a crawl by the server's log alone: was anything fetched that must not be, or too soon?"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakeweb.plan import FakeWeb


@dataclass(slots=True)
class Entry:
    """One line of the log; times are monotonic seconds, `wall_end` Unix seconds.

    A fault has no status.
    """

    host: str
    address: str
    path: str
    method: str
    status: int | None
    start: float
    end: float
    wall_end: float
    in_flight: int
    connection: int
    aborted: bool
    day: int
    user_agent: str | None
    if_none_match: str | None
    if_modified_since: str | None
    retry_after_s: int | None

    @property
    def url(self) -> str:
        return f"http://{self.host}{self.path}"


@dataclass(frozen=True)
class Delays:
    """Least gaps in force, s: a host's own (its Crawl-delay counts beside it), a registered
    domain's, an address's.

    abort_slack_s: how late the server may see that a client has gone (the end of an aborted
    exchange).
    """

    host_s: float
    domain_s: float = 0.0
    address_s: float = 0.0
    retry_after_ceiling_s: float = 86_400.0
    tolerance_s: float = 0.005
    abort_slack_s: float = 0.1


@dataclass
class Violations:
    """What was found, each as a line to read.

    `unplanned` (URLs outside the plan) is no violation in itself.
    """

    disallowed: list[str] = field(default_factory=list)  # robots.txt as last served forbids it
    no_robots: list[str] = field(default_factory=list)  # a page before any robots.txt of its host
    unreadable: list[str] = field(
        default_factory=list
    )  # a page while robots.txt answers 5xx or 429
    host_gap: list[str] = field(default_factory=list)
    domain_gap: list[str] = field(default_factory=list)
    address_gap: list[str] = field(default_factory=list)
    retry_after: list[str] = field(default_factory=list)
    in_flight: list[str] = field(default_factory=list)
    user_agent: list[str] = field(default_factory=list)  # more than one, or none
    unplanned: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(len(v) for k, v in vars(self).items() if k != "unplanned")

    def __str__(self) -> str:
        return (
            "\n".join(
                f"{kind}: {line}"
                for kind, lines in vars(self).items()
                if kind != "unplanned"
                for line in lines
            )
            or "no violations"
        )


def load_log(path: str | Path) -> list[Entry]:
    """The entries of a log in order of their start. A half-written last line is left out."""
    text = Path(path).read_text(encoding="utf-8")
    return sorted(
        (
            Entry(**json.loads(line))
            for line in text.splitlines(keepends=True)
            if line.endswith("\n")
        ),
        key=lambda e: e.start,
    )


def counts(log: Iterable[Entry]) -> Counter[str]:
    """How often each URL was answered with a page (200, or 304)."""
    return Counter(e.url for e in log if e.status in (200, 304) and not e.aborted)


def judge(log: Iterable[Entry], web: FakeWeb, delays: Delays) -> Violations:
    """Every rule of the plan against the log.

    Gaps run from the end of an exchange to the start of the next.

    The address gap is judged over the whole log; hosts that shared no task may meet there before
    their addresses are known, so give `address_s` only where they must not.
    """
    found, log = Violations(), sorted(log, key=lambda e: e.start)
    by_host: defaultdict[str, list[Entry]] = defaultdict(list)
    by_domain: defaultdict[str, list[Entry]] = defaultdict(list)
    by_address: defaultdict[str, list[Entry]] = defaultdict(list)
    for e in log:
        by_host[e.host].append(e)
        by_address[e.address].append(e)
        if e.host in web.hosts:
            by_domain[web.hosts[e.host].domain].append(e)
    for name, entries in by_host.items():
        _rules(entries, name, web, found)
        _gaps(entries, _host_delay(name, web, delays), delays, found.host_gap, name)
        _retry_after(entries, delays, found)
        last = None
        for e in entries:
            if last and e.start < last.end - _slack(last, delays):
                found.in_flight.append(
                    f"{e.url} started {last.end - e.start:.3f} s before {last.url} ended"
                )
            last = e if last is None or e.end > last.end else last
    for kind, least, groups in (
        (found.domain_gap, delays.domain_s, by_domain),
        (found.address_gap, delays.address_s, by_address),
    ):
        for name, entries in groups.items():
            _gaps(entries, lambda _, d=least: d, delays, kind, name)
    agents = Counter(e.user_agent for e in log)
    if len(agents) > 1 or None in agents:
        found.user_agent.append(f"user agents: {dict(agents)}")
    return found


def _slack(last: Entry, delays: Delays) -> float:
    return delays.tolerance_s + (delays.abort_slack_s if last.aborted else 0.0)


def _host_delay(name: str, web: FakeWeb, delays: Delays) -> Callable[[Entry], float]:
    """The gap that must follow an entry: with the Crawl-delay from the first robots.txt on."""
    host = web.hosts.get(name)
    seen = False

    def after(entry: Entry) -> float:
        nonlocal seen
        seen = seen or entry.path == "/robots.txt"
        return max(
            delays.host_s,
            host.robots.delay_s if host and seen and not host.robots.location else 0.0,
        )

    return after


def _gaps(
    entries: list[Entry],
    after: Callable[[Entry], float],
    delays: Delays,
    found: list[str],
    name: str,
) -> None:
    last: Entry | None = None
    need = 0.0
    for e in entries:
        if last and (gap := e.start - last.end) < need - _slack(last, delays):
            found.append(f"{name}: {gap:.3f} s from {last.url} to {e.url}, at least {need:g}")
        need_after = after(e)
        if last is None or e.end >= last.end:
            last, need = e, need_after


def _retry_after(entries: list[Entry], delays: Delays, found: Violations) -> None:
    until, why = 0.0, ""
    for e in entries:
        if e.start < until - delays.tolerance_s:
            found.retry_after.append(
                f"{e.url} came {until - e.start:.3f} s before the end of Retry-After of {why}"
            )
        if e.status in (429, 503) and e.retry_after_s and not e.aborted:
            until, why = (
                max(until, e.end + min(e.retry_after_s, delays.retry_after_ceiling_s)),
                e.url,
            )


def _rules(entries: list[Entry], name: str, web: FakeWeb, found: Violations) -> None:
    """Robots rules: those last served to the crawler hold."""
    host = web.hosts.get(name)
    robots_day: int | None = None
    for e in entries:
        if e.path == "/robots.txt":
            robots_day = e.day
        elif host is None:
            found.unplanned.append(e.url)
        elif e.path in host.extra:
            continue  # a hop of its robots.txt
        elif robots_day is None:
            found.no_robots.append(e.url)
        elif not host.robots.readable:
            found.unreadable.append(e.url)
        else:
            allowed = web.allowed(e.url, robots_day)
            if allowed is None:
                found.unplanned.append(e.url)
            elif not allowed:
                found.disallowed.append(e.url)
