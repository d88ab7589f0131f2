"""What explain has found, as sentences and as text for a terminal."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from typing import Any

_HOST_TIMES = ("next_allowed_at", "retry_after_until", "slow_until", "pages_again_at")
_SCHEDULE_TIMES = ("first_seen", "last_fetch", "next_fetch")
_DAYS = ("quota_day", "cycle_day")  # days since 1970


def reasons(x: dict[str, Any], now: float) -> list[str]:
    """Sentences, the decisive first, that explain why the URL is or is not fetched next.

    x: what explain has found; now: Unix s.
    """
    return [
        *_operator_reasons(x),
        *_scope_reasons(x),
        *_robots_reasons(x["robots"]),
        *_schedule_reasons(x, now),
        *_host_reasons(x["host"], now),
        *_history_reasons(x),
    ]


def _operator_reasons(x: dict[str, Any]) -> list[str]:
    if x["stopped"] is not None:
        return [f"an operator has stopped the host: {x['stopped'] or 'no reason given'}"]
    if x["host"].get("blacklisted"):
        reason = x["host"].get("reason") or "no reason given"
        return [f"the host is not to be fetched: {reason}"]
    return []


def _scope_reasons(x: dict[str, Any]) -> list[str]:
    reason = x["scope"]["reason"]
    if x["schedule"] is None:
        out_of_scope = f": it is out of scope ({reason})" if reason else ""
        return [f"the crawl does not know it{out_of_scope}"]
    return [f"today's scope would not let it in ({reason})"] if reason else []


def _robots_reasons(r: dict[str, Any] | None) -> list[str]:
    if r is None or r["allowed"] is True:
        return []
    if r["allowed"] is False:
        return [f"robots.txt forbids it: line {r['line_no']} of group {r['group']}: {r['line']}"]
    error = r["error"] or r["status"]
    return [f"robots.txt could not be read ({error}), so nothing of the host is fetched"]


def _schedule_reasons(x: dict[str, Any], now: float) -> list[str]:
    s = x["schedule"]
    if s is None:
        return []
    error = f"{s['error_type']} {s['error_detail'] or ''}"
    why = [_due(x, now)]
    if s["state"] in ("dead", "refused"):
        why = [f"it is {s['state']}: {error}".rstrip() + "; `crawlkit recrawl` wakes it"]
    if s["state"] == "retrying":
        why.append(f"its last try failed: {error}".rstrip())
    return why


def _due(x: dict[str, Any], now: float) -> str:
    at = x["schedule"]["next_fetch"]
    if at is None:
        return "it has no next time; if its category is manual, `crawlkit recrawl` alone brings it"
    if at > now:
        return f"it is due at {_time(at)}"
    if x["claimed_by"]:
        return f"it is due since {_time(at)}; round {x['claimed_by']} has its bucket"
    return f"it is due since {_time(at)}; a next round takes it as its place in the order allows"


def _host_reasons(host: dict[str, Any], now: float) -> list[str]:
    why = []
    wait = host.get("next_allowed_at")
    if wait and wait > now:
        why.append(f"its host may be fetched again at {_time(wait)} (breaker {host['breaker']})")
    if host["pages_left"] == 0:
        again = host["pages_again_at"]
        until = f" until {_time(again)}" if again else ""
        why.append(f"its host has had its pages ({host['quota']}){until}")
    return why


def _history_reasons(x: dict[str, Any]) -> list[str]:
    why = []
    last = next((c for c in reversed(x["captures"]) if c["is_outcome"]), None)
    if last is not None:
        reason = f" ({last['reason']})" if last["reason"] else ""
        why.append(f"its last outcome was {last['outcome']}{reason} in round {last['round_id']}")
    if x["commands_waiting"]:
        why.append(f"commands wait for the next round: {', '.join(x['commands_waiting'])}")
    return why


def explain_text(x: dict[str, Any]) -> str:
    """What explain has found, for a terminal."""
    if "refused" in x:
        return f"{x['url']}\nrefused: {x['refused']} {x['detail']}"
    out = [x["canonical"], *(f"  {w}" for w in x["why"]), ""]
    rewritings = [f"rewritten: {s['what']}: {s['url']}" for s in x["rewritings"]]
    out += rewritings or ["rewritten: nothing"]
    out.append(f"scope: {'in' if x['scope']['in_scope'] else 'refused by ' + x['scope']['reason']}")
    out.append(f"robots.txt: {_robots_text(x['robots'])}")
    out.append(f"host: {_values(x['host'], _HOST_TIMES, (None, [], False))}")
    if x["schedule"]:
        out.append(f"schedule: {_values(x['schedule'], _SCHEDULE_TIMES, (None, [], ''))}")
    out.append(f"captures: {len(x['captures'])}")
    out += map(_capture_text, x["captures"][-20:])
    for r in x["rejects"][:20]:
        reason = f"{r['reason']} {r['detail'] or ''}"
        out.append(f"rejected: {r['stage']} in {r['round_id']}: {reason}")
    if d := x["duplicates"]:
        out.append(
            f"duplicates: {d['method']} in a cluster of {d['size']}; {d['canonical_url']} stands"
            f" for it; members: {', '.join(d['members'][:5])}"
        )
    return "\n".join(out)


def _robots_text(r: dict[str, Any] | None) -> str:
    if r is None:
        return "never requested"
    head = f"status {r['status'] or r['error']} of {_time(r['fetched_at'])}"
    if r["allowed"] is None:
        return f"{head}, unreadable"
    verdict = "allowed" if r["allowed"] else "forbidden"
    rule = f" by line {r['line_no']} ({r['line']})" if r["line_no"] else ", no rule matches"
    return f"{head}, {verdict}{rule}, group {r['group'] or 'none'}"


def _values(row: Mapping[str, Any], times: Collection[str], empty: tuple[Any, ...]) -> str:
    """`name value` of all that is not empty; times are Unix s."""
    filled = {k: v for k, v in row.items() if v not in empty}
    return ", ".join(f"{k} {_time(v) if k in times else _value(k, v)}" for k, v in filled.items())


def _value(name: str, value: Any) -> str:
    """A value for people: days as dates, numbers with two decimals at most, lists as words."""
    if name in _DAYS:
        return str(datetime.date(1970, 1, 1) + datetime.timedelta(days=int(value)))
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _capture_text(c: dict[str, Any]) -> str:
    started = _time(c["started"]) if c["started"] else "-"
    outcome = f"{c['kind']} {c['outcome']} {c['reason'] or ''} {c['status'] or ''}"
    return f"  {c['round_id']} {started} {outcome} {c['warc_filename'] or ''}".rstrip()


def _time(t: float) -> str:
    return datetime.datetime.fromtimestamp(t, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
