"""What a failed fetch means for its URL (docs/rules/politeness.md).

What it means for the host is rules/politeness/host_state.py.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from crawlkit.config import Retry
from crawlkit.outcomes import Reason

JITTER = 0.25  # a wait is lengthened by up to this share

# The server or the way to it failed: worth another try. Any other error (malformed answers, the
# guard, a filter) would come out the same.
RETRIED_ERRORS = frozenset(
    {
        Reason.DNS_FAIL,
        Reason.DNS_NXDOMAIN,
        Reason.CONNECT_REFUSED,
        Reason.CONNECT_TIMEOUT,
        Reason.CONNECT_FAIL,
        Reason.PROXY_FAIL,
        Reason.TLS_FAIL,
        Reason.TIMEOUT,
        Reason.READ_STALLED,
        Reason.DISCONNECTED,
    }
)


class Action(StrEnum):
    """What becomes of the URL."""

    RETRY = "retry"  # after wait_s
    LATER = "later"  # not before wait_s, else when its schedule makes it due
    NO_RETRY = "no_retry"  # when its schedule makes it due
    DEAD = "dead"
    REFETCH_UNCONDITIONAL = "refetch_unconditional"  # now, without validators


class UrlRetry(NamedTuple):
    """`unchanged`: the answer proves that the stored copy is current (304 to a condition of
    ours).
    """

    action: Action
    wait_s: float
    unchanged: bool = False


def url_retry(
    status: int | None,
    error: str | None,
    attempt: int,
    cfg: Retry,
    *,
    host_wait_s: float = 0.0,
    sent_conditional: bool = False,
    has_copy: bool = False,
    jitter: float = 0.0,
) -> UrlRetry:
    """The next step for a URL after one answer (`status`) or none (`error`, a Reason).

    `attempt` counts failures in a row, 1 the first. `host_wait_s`: how long the host is left alone
    anyway (Retry-After, back-off, breaker). `has_copy`: the body that a 304 would confirm is
    stored. `jitter` in [0, 1).
    """
    if status is None:
        if error in RETRIED_ERRORS:
            return _again(attempt, cfg, host_wait_s, jitter)
        return UrlRetry(Action.NO_RETRY, 0.0)
    if status == 304:
        if not sent_conditional:  # RFC 9110 15.4.5: an answer to a condition that we did not set
            return _again(attempt, cfg, host_wait_s, jitter)
        if not has_copy:
            return UrlRetry(Action.REFETCH_UNCONDITIONAL, host_wait_s)
        return UrlRetry(Action.NO_RETRY, 0.0, unchanged=True)
    if status == 429:  # about the host, not about the URL: as often as it takes
        return UrlRetry(Action.RETRY, max(host_wait_s, cfg.delays_s[0] if cfg.delays_s else 0.0))
    if status == 408 or status >= 500:
        return _again(attempt, cfg, host_wait_s, jitter)
    if status in (404, 410, 451):
        return UrlRetry(Action.DEAD, 0.0)
    if status == 403:
        return UrlRetry(Action.LATER, cfg.forbidden_s)
    return UrlRetry(Action.NO_RETRY, 0.0)


def _again(attempt: int, cfg: Retry, host_wait_s: float, jitter: float) -> UrlRetry:
    if not 1 <= attempt <= len(cfg.delays_s):
        return UrlRetry(Action.LATER, host_wait_s)
    return UrlRetry(
        Action.RETRY, max(cfg.delays_s[attempt - 1] * (1 + JITTER * jitter), host_wait_s)
    )
