"""When a host is to be left alone: the slow lane, the breaker, the blocked state
(docs/rules/politeness.md).

A host is *slow* while more than a share of the last hour's answers failed, *down* after some server
errors in 24 h or signs of a block, and comes back by one probe: the first request after
`down_until` decides. All functions are pure; times are Unix seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from crawlkit import config, outcomes
from crawlkit.rules.politeness import block_pages

DAY_S = 86_400.0
HOUR_MIN = 60  # minutes kept


@dataclass(slots=True)
class Health:
    """What a host's answers were like, bounded: at most 60 minutes and `breaker.server_errors`
    times are kept.
    """

    minutes: list[list[int]] = field(
        default_factory=list
    )  # [minute since 1970, answers, failures], rising
    server_errors: list[float] = field(default_factory=list)  # times of the last 5xx within 24 h
    failures: int = 0  # failures in a row
    denied_run: int = 0  # 403 and 429 in a row
    slow_until: float = 0.0
    down_until: float = 0.0
    down_reason: str | None = None  # set while down: breaker_open or host_blocked
    down_detail: str | None = None
    down_count: int = 0  # times down without a quiet day between

    @property
    def down(self) -> bool:
        """Down, or waiting for its probe to succeed."""
        return self.down_reason is not None


def is_server_failure(status: int | None) -> bool:
    """An answer that counts as a failing server: none at all (no status), or 5xx.

    4xx are answers.
    """
    return status is None or status >= 500


def after(
    health: Health,
    started: float,
    ended: float,
    status: int | None,
    challenge: str | None,
    cfg: config.Breaker,
) -> Health:
    """Health after one request that ran from `started` to `ended`; `status` None: no answer
    came.
    """
    h = _count(health, ended, status, cfg)
    if h.down:
        return _judge_probe(h, ended, status, challenge, cfg) if started >= h.down_until else h
    if challenge:
        return _take_down(h, ended, outcomes.Reason.HOST_BLOCKED, f"challenge: {challenge}", cfg)
    if h.denied_run >= cfg.blocked_run:
        return _take_down(
            h,
            ended,
            outcomes.Reason.HOST_BLOCKED,
            f"{h.denied_run} answers 403 or 429 in a row",
            cfg,
        )
    if (
        is_server_failure(status)
        and status is not None
        and len(h.server_errors) >= cfg.server_errors
    ):
        return _take_down(
            h,
            ended,
            outcomes.Reason.BREAKER_OPEN,
            f"{len(h.server_errors)} server errors in 24 h",
            cfg,
        )
    answers, failures = errors_1h(h, ended)
    if (
        is_server_failure(status)
        and answers >= cfg.slow_min_requests
        and failures > cfg.slow_error_share * answers
    ):
        h = replace(h, slow_until=ended + cfg.slow_lane_s)
    return h


def errors_1h(health: Health, now: float) -> tuple[int, int]:
    """Answers and failures of the last hour, whole minutes."""
    first = int(now // 60) - HOUR_MIN + 1
    kept = [m for m in health.minutes if m[0] >= first]
    return sum(m[1] for m in kept), sum(m[2] for m in kept)


def errors_24h(health: Health, now: float) -> int:
    """Server errors of the last 24 h, counted up to `breaker.server_errors`."""
    return sum(t > now - DAY_S for t in health.server_errors)


def _count(h: Health, now: float, status: int | None, cfg: config.Breaker) -> Health:
    bad = is_server_failure(status)
    minute = int(now // 60)
    minutes = [m for m in h.minutes if minute - HOUR_MIN < m[0] <= minute]
    if minutes and minutes[-1][0] == minute:
        _, answers, failures = minutes.pop()
    else:
        answers = failures = 0
    minutes.append([minute, answers + 1, failures + bad])
    errors = [t for t in h.server_errors if t > now - DAY_S]
    if bad and status is not None:
        errors = [*errors, now][-cfg.server_errors :]
    return replace(
        h,
        minutes=minutes,
        server_errors=errors,
        failures=h.failures + 1 if bad else 0,
        denied_run=(
            h.denied_run + 1
            if block_pages.counts_as_denial(status)
            else (h.denied_run if status is None else 0)
        ),
    )


def _take_down(h: Health, now: float, reason: str, detail: str, cfg: config.Breaker) -> Health:
    """Down for `down_s`, twice as long each further time; a day after its last end the count starts
    again.
    """
    count = h.down_count if now < h.down_until + DAY_S else 0
    for_s = min(cfg.down_s * 2.0 ** min(count, 30), max(cfg.max_down_s, cfg.down_s))
    return replace(
        h,
        down_until=now + for_s,
        down_reason=str(reason),
        down_detail=detail,
        down_count=count + 1,
        denied_run=0,
    )


def _judge_probe(
    h: Health, now: float, status: int | None, challenge: str | None, cfg: config.Breaker
) -> Health:
    if challenge or is_server_failure(status):
        detail = f"challenge: {challenge}" if challenge else "the probe failed"
        reason = outcomes.Reason.HOST_BLOCKED if challenge else h.down_reason
        return _take_down(h, now, str(reason), detail, cfg)
    if block_pages.counts_as_denial(status) and h.down_reason == outcomes.Reason.HOST_BLOCKED:
        return _take_down(h, now, h.down_reason, f"the probe was answered {status}", cfg)
    if status == 429:  # alive but busy: its back-off decides, the next request is a probe again
        return h
    return replace(h, down_reason=None, down_detail=None, server_errors=[])
