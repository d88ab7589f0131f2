"""Proof from the fetch log alone that a round was polite."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

TOLERANCE_S = 0.001  # times are kept in microseconds, gaps are compared in milliseconds


class Sent(NamedTuple):
    """One request as logged. Times in Unix s; `delay_s` the gap in force for the host before it."""

    host: str
    started: float
    ended: float
    delay_s: float
    domain: str | None = None
    address: str | None = None  # key within which the address floor holds (task and IP)
    allowed: bool = True  # by robots.txt as known when it was sent
    parallel: int = 1  # the operator's allowance for the host
    url: str = ""
    floors_s: tuple[float, float] | None = (
        None  # of its domain and its address; None: those given for the whole log
    )


class Violation(NamedTuple):
    """`kind`: disallowed, host, domain or address.

    `gap_s` < 0: sent while another request was still open.
    """

    kind: str
    key: str
    url: str
    started: float
    gap_s: float
    required_s: float


class Gap(NamedTuple):
    """Time from the end of a host's last answer to a request, and what was ordered."""

    host: str
    url: str
    gap_s: float
    required_s: float


def closest(log: Iterable[Sent]) -> Gap | None:
    """The request that kept the least beyond (or most below) the delay ordered for its host.

    Hosts that an operator allowed several requests at once have no such gap.
    """
    last_end: dict[str, float] = {}
    least: Gap | None = None
    for r in sorted(log, key=lambda r: (r.started, r.ended)):
        if r.parallel == 1 and r.host in last_end:
            gap = Gap(r.host, r.url, r.started - last_end[r.host], r.delay_s)
            if least is None or gap.gap_s - gap.required_s < least.gap_s - least.required_s:
                least = gap
        last_end[r.host] = max(r.ended, last_end.get(r.host, r.ended))
    return least


def violations(
    log: Iterable[Sent], domain_delay_s: float = 0.0, ip_delay_s: float = 0.0
) -> list[Violation]:
    """Every request that robots.txt forbade or that came too early, at most once for each kind.

    The gap runs from the latest end of the earlier requests of the same host (domain, address) to
    the start of this one. The floors of domain and address yield to a lower delay in force (an
    operator's negotiated rate).
    """
    rows = sorted(log, key=lambda r: (r.started, r.ended))
    found = [
        Violation("disallowed", r.host, r.url, r.started, 0.0, 0.0) for r in rows if not r.allowed
    ]
    found += _too_close("host", [(r.host, r.delay_s, r) for r in rows])
    floors = [r.floors_s or (domain_delay_s, ip_delay_s) for r in rows]
    found += _too_close(
        "domain",
        [
            (r.domain, min(floor, r.delay_s), r)
            for r, (floor, _) in zip(rows, floors, strict=True)
            if r.domain and floor > 0
        ],
    )
    found += _too_close(
        "address",
        [
            (r.address, min(floor, r.delay_s), r)
            for r, (_, floor) in zip(rows, floors, strict=True)
            if r.address and floor > 0
        ],
    )
    return found


def _too_close(kind: str, rows: list[tuple[str, float, Sent]]) -> list[Violation]:
    """`rows` (key, required gap, request) in the order of their starts."""
    found = []
    last_end: dict[str, float] = {}
    open_ends: dict[str, list[float]] = {}
    for key, required_s, r in rows:
        ends = open_ends.setdefault(key, [])
        while ends and ends[0] <= r.started:
            last = heapq.heappop(ends)
            last_end[key] = max(last, last_end.get(key, last))
        if len(ends) >= r.parallel:
            found.append(Violation(kind, key, r.url, r.started, r.started - max(ends), required_s))
        elif key in last_end and r.started - last_end[key] < required_s - TOLERANCE_S:
            found.append(
                Violation(kind, key, r.url, r.started, r.started - last_end[key], required_s)
            )
        heapq.heappush(ends, r.ended)
    return found
