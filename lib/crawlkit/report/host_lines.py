"""What the report tells of each host: its queue, its delay and who set it, its robots.txt."""

from __future__ import annotations

from typing import Any

from crawlkit.config import Config
from crawlkit.rules.politeness.host_state import HostState, effective_delay_s

_SOURCES = {
    "own delay": "setting politeness.delay_s",
    "Crawl-delay": "robots.txt, Crawl-delay",
    "adaptive": "adaptive: its answers are slow",
    "operator": "operator",
    "slow lane": "slow lane: its answers are very slow",
}


def tell_hosts(rows: list[dict[str, Any]], cfg: Config) -> list[dict[str, Any]]:
    """Rows of the query `hosts` with delay_s, delay_source and holds in place of its state."""
    states = [_read_state(r) for r in rows]
    # the time of the report is that of the newest request, so that repeating it tells the same
    now = max((s.last_request_end or 0.0 for s in states), default=0.0)
    out = []
    for row, state in zip(rows, states, strict=True):
        delay = effective_delay_s(state, cfg.politeness, now)
        told = {k: v for k, v in row.items() if k not in ("state_json", "blacklisted")}
        told["delay_s"] = delay.seconds
        told["delay_source"] = _SOURCES.get(delay.why, delay.why)
        told["robots"] = tell_robots(row["robots"], cfg.robots.on_429)
        told["held"] = _hold(row, state, now)
        out.append(told)
    return out


def tell_robots(state: str | None, on_429: str) -> str:
    """What the newest answer for robots.txt means: its status as text, or why there was none."""
    if not state:
        return "not asked yet"
    if not state.isdigit():
        return f"{state}, asked again"
    status = int(state)
    if status < 300:
        return f"{status}: its rules hold"
    if status < 500 and (status != 429 or on_429 == "allow"):
        return f"{status}: all is allowed"
    return f"{status}: nothing for now, asked again"


def _read_state(row: dict[str, Any]) -> HostState:
    try:
        return HostState.from_json(row["state_json"] or "")
    except ValueError:  # a host that was never asked has none
        return HostState(row["host"])


def _hold(row: dict[str, Any], state: HostState, now: float) -> str:
    if row["blacklisted"] or state.barred:
        return f"blocked: {row['reason'] or 'by an operator'}"
    if row["breaker"] not in (None, "closed"):
        return f"breaker {row['breaker']}: {row['reason'] or state.health.down_reason or ''}"
    return "Retry-After" if state.retry_after_until > now else ""
