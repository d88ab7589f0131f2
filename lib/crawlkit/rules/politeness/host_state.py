"""When a host may be asked again: one pure state machine for everything that is sent to it.

Robots, pages, redirects, retries, sitemaps and feeds all count. A gap runs from the end of one
answer to the start of the next request. The state of a host travels: between attempts in part
manifests, between rounds in `hostdb`, as JSON. docs/rules/politeness.md shows the rules as tables.

Times are Unix seconds, durations seconds.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crawlkit.config import Config, Politeness
from crawlkit.outcomes import Reason
from crawlkit.rules.http.retry_after import retry_after_s
from crawlkit.rules.politeness import breaker

DAY_S = 86_400.0
JITTER = 0.25  # a wait after 429 or 503 is lengthened by up to this share
_SHORTEN, _LENGTHEN, _BACK_OFF = 0.8, 1.5, 2.0


@dataclass(slots=True)
class HostState:
    """What is remembered of one host (row of `hostdb`)."""

    host: str
    # the operator's overrides; None: the configuration holds
    operator_delay_s: float | None = None
    parallel: int = 1
    quota_max: int | None = None  # pages a day
    cycle_quota_max: int | None = None  # pages a cycle
    barred: bool = False
    # delays
    robots_delay_s: float | None = None
    adaptive_s: float = 0.0  # grows and shrinks with the answers; the floor holds while it is lower
    jitter_s: float = 0.0  # added to the next gap
    # what happened
    last_request_end: float | None = None
    retry_after_until: float = 0.0
    health: breaker.Health = field(default_factory=breaker.Health)
    avg_ms: float | None = None  # moving average of the answers' times
    quota_day: int = 0  # days since 1970
    quota_used: int = 0
    cycle_day: int = 0  # first day of the cycle that cycle_used counts, days since 1970
    cycle_used: int = 0
    last_ips: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """The state as JSON, for `hostdb.state_json` and parts."""
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> HostState:
        """Inverse of to_json. Unknown fields are left out, missing ones have their defaults.

        Raises ValueError.
        """
        try:
            d = json.loads(text, parse_constant=_refuse_constant)
            health = breaker.Health(**_check_fields(breaker.Health, d.pop("health", {})))
            if not all(len(m) == 3 and all(type(n) is int for n in m) for m in health.minutes):
                raise ValueError("health.minutes")
            return cls(**_check_fields(cls, d), health=health)
        except (AttributeError, TypeError, ValueError, RecursionError) as e:
            raise ValueError(f"not a host state: {e}") from None


_TYPES: dict[str, Any] = {
    "str": str,
    "bool": bool,
    "int": int,
    "float": (int, float),
    "list": list,
    "None": type(None),
}


def _check_fields(cls: type, d: dict[str, Any]) -> dict[str, Any]:
    """The fields of `d` that `cls` has; raises ValueError for one of another type."""
    known = {f.name: str(f.type) for f in dataclasses.fields(cls) if f.name != "health"}
    kept = {k: v for k, v in d.items() if k in known}
    for name, value in kept.items():
        if not any(
            isinstance(value, _TYPES[t.partition("[")[0]]) for t in known[name].split(" | ")
        ):
            raise ValueError(f"{name} is {value!r:.40}")
    return kept


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


class Delay(NamedTuple):
    """The gap in force and the rule that set it."""

    seconds: float
    why: str


class Permit(NamedTuple):
    """When the next request may start. `at` <= now: send; infinite: not at all.

    `reason`: what holds it back.
    """

    at: float
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Event:
    """One request that ended: an answer with a status, or an error without one."""

    started: float
    ended: float
    status: int | None
    retry_after: str | None = None  # field values as received
    date: str | None = None
    challenge: str | None = None  # block_pages.challenge_of
    is_page: bool = True  # counts against the quotas
    ip: str | None = None


def floor_delay_s(state: HostState, cfg: Politeness) -> Delay:
    """The least gap: the operator's word for this host, else the longer of our own delay and
    Crawl-delay.

    Crawl-delay never makes us faster; beyond `crawl_delay_ceiling_s` the ceiling holds and the host
    simply gets fewer URLs.
    """
    if state.operator_delay_s is not None:
        return Delay(state.operator_delay_s, "operator")
    asked = state.robots_delay_s
    if asked is None or not asked > cfg.delay_s:
        return Delay(cfg.delay_s, "own delay")
    ceiling = max(cfg.crawl_delay_ceiling_s, cfg.delay_s)
    if asked > ceiling:
        return Delay(
            ceiling, f"Crawl-delay {asked:g} s is above the ceiling of {ceiling:g} s: fewer URLs"
        )
    return Delay(asked, "Crawl-delay")


def effective_delay_s(state: HostState, cfg: Politeness, now: float = math.inf) -> Delay:
    """The gap in force: the longest of the floor, what the answers made of it, and the slow lane's
    (until it ends).
    """
    delay = floor_delay_s(state, cfg)
    if state.adaptive_s > delay.seconds:
        delay = Delay(state.adaptive_s, "adaptive")
    if now < state.health.slow_until and cfg.max_delay_s > delay.seconds:
        delay = Delay(cfg.max_delay_s, "slow lane")
    return delay


def group_delay_s(state: HostState, floor_s: float, delay_s: float) -> float:
    """Floor within a registered domain or to an address; where an operator set the host's rate, its
    gap in force (`delay_s`) holds there too if it is shorter.
    """
    return floor_s if state.operator_delay_s is None else min(floor_s, delay_s)


def first_day(now: float, days: int) -> int:
    """First day (since 1970, UTC) of the window of `days` days that `now` lies in: 1 for the day's
    quota, `cycle_days` for the cycle's.
    """
    return int(now // DAY_S) // days * days


def _quotas(state: HostState, cfg: Politeness) -> tuple[tuple[int, int, int, int, Reason], ...]:
    """Of each quota: pages, days of its window, the window's first day, pages used in it, its
    reason.
    """
    day = cfg.host_day_quota if state.quota_max is None else state.quota_max
    cycle = cfg.host_cycle_quota if state.cycle_quota_max is None else state.cycle_quota_max
    return (day, 1, state.quota_day, state.quota_used, Reason.HOST_DAY_QUOTA), (
        cycle,
        cfg.cycle_days,
        state.cycle_day,
        state.cycle_used,
        Reason.HOST_CYCLE_QUOTA,
    )


def pages_left(state: HostState, cfg: Politeness, now: float, until: float) -> tuple[int, Reason]:
    """Pages that the quotas let through from `now` to `until`, and the quota that says so.

    A window that begins in between gives its pages too.
    """
    left = []
    for quota, days, begun, used, reason in _quotas(state, cfg):
        this, last = first_day(now, days), first_day(max(now, until), days)
        left.append(
            (max(quota - (used if begun == this else 0), 0) + (last - this) // days * quota, reason)
        )
    return min(left, key=lambda x: x[0])


def pages_left_sql(cfg: Politeness, now: float, until: float) -> tuple[str, str]:
    """`pages_left` of the day's quota and of the cycle's, as SQL over quota_max, quota_day,
    quota_used, cycle_quota_max, cycle_day, cycle_used (null: none).
    """
    day, cycle = used_sql(cfg, now)
    return (
        _left_sql(f"coalesce(quota_max, {cfg.host_day_quota})", day, 1, now, until),
        _left_sql(
            f"coalesce(cycle_quota_max, {cfg.host_cycle_quota})", cycle, cfg.cycle_days, now, until
        ),
    )


def domain_left_sql(cfg: Politeness, now: float, until: float) -> tuple[str, str]:
    """Pages that the quotas of a registered domain let through, as SQL over day_used, cycle_used
    (sums of `used_sql`), and the highest quotas of its hosts: quota_max, cycle_quota_max (null:
    none).
    """
    day = f"greatest({cfg.domain_day_quota}, coalesce(quota_max, 0))"
    cycle = f"greatest({cfg.domain_cycle_quota}, coalesce(cycle_quota_max, 0))"
    return (
        _left_sql(day, "coalesce(day_used, 0)", 1, now, until),
        _left_sql(cycle, "coalesce(cycle_used, 0)", cfg.cycle_days, now, until),
    )


def used_sql(cfg: Politeness, now: float) -> tuple[str, str]:
    """Pages of a row of hostdb in this day and in this cycle, as SQL."""

    def used(days: int, begun: str, pages: str) -> str:
        is_this = f"CAST({begun} AS bigint) = {first_day(now, days)}"
        return f"CASE WHEN {is_this} THEN coalesce({pages}, 0) ELSE 0 END"

    return used(1, "quota_day", "quota_used"), used(cfg.cycle_days, "cycle_day", "cycle_used")


def _left_sql(quota: str, used: str, days: int, now: float, until: float) -> str:
    """What is left of a quota; a window that begins before `until` gives its pages too."""
    more = (first_day(max(now, until), days) - first_day(now, days)) // days
    return f"greatest({quota} - {used}, 0) + {more} * {quota}"


def may_send(
    state: HostState, now: float, cfg: Config, is_page: bool = True, open_pages: int = 0
) -> Permit:
    """When the host may be asked next, and what decides. The latest of all that hold counts.

    `open_pages`: requests for pages under way, which the quotas do not know yet.
    """
    if state.barred:
        return Permit(math.inf, Reason.STOP_LIST)
    permit = Permit(-math.inf, None)
    health = state.health
    if state.last_request_end is not None:
        delay = effective_delay_s(state, cfg.politeness, now)
        why = Reason.HOST_SLOW if delay.why == "slow lane" else None
        permit = Permit(state.last_request_end + delay.seconds + state.jitter_s, why)
    holds = [(state.retry_after_until, Reason.RETRY_AFTER)]
    if health.down:
        holds.append((health.down_until, Reason(str(health.down_reason))))
    for quota, days, begun, used, reason in _quotas(state, cfg.politeness) if is_page else ():
        if quota <= 0:
            holds.append((math.inf, reason))
        elif (used if begun == first_day(now, days) else 0) + open_pages >= quota:
            holds.append(((first_day(now, days) + days) * DAY_S, reason))
    for at, reason in holds:
        if at > max(permit.at, now):
            permit = Permit(at, reason)
    return permit


def after_answer(state: HostState, event: Event, cfg: Config, jitter: float = 0.0) -> HostState:
    """The state after a request has ended. `jitter` in [0, 1) is the caller's random number."""
    p = cfg.politeness
    seconds = max(event.ended - event.started, 0.0)
    floor = floor_delay_s(state, p).seconds
    was = max(state.adaptive_s, floor)
    adaptive, extra = was, 0.0
    if event.status in (429, 503):
        adaptive = max(was, min(was * _BACK_OFF, p.max_backoff_s))
        if adaptive == 0.0:  # an exempt host without any delay backs off too
            adaptive = min(p.delay_s or 1.0, p.max_backoff_s)
        extra = adaptive * JITTER * jitter
    elif seconds * 1000 > p.slow_ms:
        adaptive = max(was, min(was * _LENGTHEN, p.max_delay_s))
    elif seconds * 1000 < p.quick_ms and not breaker.is_server_failure(event.status):
        adaptive = max(was * _SHORTEN, floor)
    wait = (
        retry_after_s(event.retry_after, event.ended, p.max_retry_after_s, event.date)
        if (event.status or 0) >= 300
        else None
    )
    day, cycle = first_day(event.ended, 1), first_day(event.ended, p.cycle_days)
    used = state.quota_used if state.quota_day == day else 0
    cycle_used = state.cycle_used if state.cycle_day == cycle else 0
    ips = state.last_ips
    if event.ip is not None and event.ip not in ips[:1]:
        ips = [event.ip, *(i for i in ips if i != event.ip)][:4]
    return dataclasses.replace(
        state,
        adaptive_s=0.0 if adaptive <= floor else adaptive,
        jitter_s=extra,
        last_request_end=max(event.ended, state.last_request_end or 0.0),
        retry_after_until=max(state.retry_after_until, event.ended + wait if wait else 0.0),
        health=breaker.after(
            state.health, event.started, event.ended, event.status, event.challenge, cfg.breaker
        ),
        avg_ms=(
            seconds * 1000 if state.avg_ms is None else 0.8 * state.avg_ms + 0.2 * seconds * 1000
        ),
        quota_day=day,
        quota_used=used + event.is_page,
        cycle_day=cycle,
        cycle_used=cycle_used + event.is_page,
        last_ips=ips,
    )


def is_urgent(before: HostState, after: HostState, event: Event) -> bool:
    """Whether the change must be durable before the host's next request: a crash may not
    forget it.
    """
    return (
        event.status in (429, 503)
        or after.retry_after_until > before.retry_after_until
        or after.health.down_until != before.health.down_until
        or after.health.down != before.health.down
        or before.health.slow_until <= event.started < after.health.slow_until
    )
