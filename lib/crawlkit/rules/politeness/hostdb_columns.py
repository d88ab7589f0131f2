"""The columns of `hostdb` that follow from a host's politeness state."""

from __future__ import annotations

from typing import Any

from crawlkit.config import Config
from crawlkit.rules.politeness import breaker
from crawlkit.rules.politeness.host_state import HostState, effective_delay_s, may_send

_NEVER = 4e9  # Unix s: a permit at or after it is none


def hostdb_columns(state: HostState, clock_now: float, cfg: Config) -> dict[str, Any]:
    """Pace, health and quotas of a host as `hostdb` keeps them. Times are Unix s.

    clock_now: real time, at which the delay, the permit and the counts of errors hold. Quotas are
    left to `generate`: they may be changed between two rounds.
    """
    permit = may_send(state, clock_now, cfg, is_page=False)
    delay_s = effective_delay_s(state, cfg.politeness, clock_now).seconds
    robots_s = state.robots_delay_s
    requests_1h, failed_1h = breaker.errors_1h(state.health, clock_now)
    blocked = state.health.down and state.health.down_reason == "host_blocked"
    return {
        "state_json": state.to_json(),
        "delay_ms": round(delay_s * 1000),
        "robots_delay_ms": None if robots_s is None else round(min(robots_s, 1e9) * 1000),
        "next_allowed_at": permit.at if 0 < permit.at < _NEVER else None,
        "last_request_at": state.last_request_end,
        "retry_after_until": state.retry_after_until or None,
        "breaker": "open" if state.health.down else "closed",
        "slow_until": state.health.slow_until or None,
        "health": 1.0 - (failed_1h / requests_1h if requests_1h else 0.0),
        "failures": state.health.failures,
        "errors_24h": breaker.errors_24h(state.health, clock_now),
        "avg_ms": state.avg_ms,
        "quota_used": state.quota_used,
        "quota_day": str(state.quota_day),
        "quota_max": (
            cfg.politeness.host_day_quota if state.quota_max is None else state.quota_max
        ),
        "cycle_used": state.cycle_used,
        "cycle_day": state.cycle_day,
        "last_ips": state.last_ips,
        "flags": ["blocked"] if blocked else [],
    }
