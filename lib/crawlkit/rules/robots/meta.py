"""Directives of meta robots elements and X-Robots-Tag fields, and machine-readable opt-outs of AI
use (docs/rules/html.md).

After Google's robots meta tag specification. All declarations that concern us add up: the most
restrictive holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from crawlkit.rules.robots.meta_dates import date_at

MAX_CHARS = 8192  # of one field or attribute
MAX_DIRECTIVES = 64

_AI = frozenset({"noai", "noimageai", "noml", "notrain"})
_AI_FIELDS = frozenset({"content-usage", "content-signal"})
_VALUED = {
    "max-snippet": re.compile(r"-1|\d{1,9}"),
    "max-video-preview": re.compile(r"-1|\d{1,9}"),
    "max-image-preview": re.compile(r"none|standard|large"),
}
_TOKEN = re.compile(r"([^\s,;:]{1,200})[ \t]*(:?)\s*")
_NEXT = re.compile(r"[\s,;:]*")


@dataclass(frozen=True)
class RobotsDirectives:
    """What holds for us on one page.

    `unavailable_after` is a date or a UTC time, ISO 8601 (the earliest).
    """

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False
    unavailable_after: str | None = None
    directives: tuple[str, ...] = ()  # all that are in force, `name` or `name=value`, sorted
    ai_signals: tuple[str, ...] = ()
    tdm_reservation: int | None = None  # W3C TDMRep: 1 reserved, 0 not
    tdm_policy: str | None = None


def robots_directives(
    metas: Iterable[tuple[str, str]], headers: Iterable[tuple[str, str]], agent: str
) -> RobotsDirectives:
    """Directives in force for the robot `agent`, from (name, content) of meta elements and (name,
    value) of fields.
    """
    found: set[str] = set()
    signals: list[str] = []
    reservation: int | None = None
    policy: str | None = None
    for raw, value in metas:
        name = raw.strip().lower()
        for_all, for_agent = meta_directives(name, value, agent)
        found |= for_all | for_agent
        if name == "tdm-reservation":
            reservation = _reservation(value, reservation)
        elif name == "tdm-policy":
            policy = policy or value.strip()[:MAX_CHARS]
    for raw, value in headers:
        name = raw.strip().lower()
        if name == "x-robots-tag":
            for_all, for_agent = header_directives(value, agent)
            found |= for_all | for_agent
        elif name == "tdm-reservation":
            reservation = _reservation(value, reservation)
        elif name == "tdm-policy":
            policy = policy or value.strip()[:MAX_CHARS]
        elif name in _AI_FIELDS:
            signals.append(f"{name}: {value.strip()[:MAX_CHARS]}")
    dates = [d.partition("=")[2] for d in found if d.startswith("unavailable_after=")]
    return RobotsDirectives(
        noindex=not found.isdisjoint({"noindex", "none"}),
        nofollow=not found.isdisjoint({"nofollow", "none"}),
        noarchive=not found.isdisjoint({"noarchive", "nocache"}),
        unavailable_after=min(dates, default=None),
        directives=tuple(sorted(found)),
        ai_signals=tuple(sorted(found & _AI) + signals),
        tdm_reservation=reservation,
        tdm_policy=policy,
    )


def header_directives(value: str, agent: str) -> tuple[set[str], set[str]]:
    """Directives of one X-Robots-Tag field for all robots and for `agent`.

    A robot's name holds until the next one.
    """
    return _directives(value, agent.lower(), "all", True)


def meta_directives(name: str, content: str, agent: str) -> tuple[set[str], set[str]]:
    """Directives of one meta element for all robots (name `robots`) and for `agent` (its
    own name).
    """
    scope = {"robots": "all", agent.lower(): "agent"}.get(name.strip().lower())
    return _directives(content, agent.lower(), scope, False) if scope else (set(), set())


def _directives(text: str, agent: str, scope: str, names_robots: bool) -> tuple[set[str], set[str]]:
    found: dict[str, set[str]] = {"all": set(), "agent": set(), "other": set()}
    text, pos = text[:MAX_CHARS], 0
    for _ in range(MAX_CHARS):
        pos = _NEXT.match(text, pos).end()  # type: ignore[union-attr]
        m = _TOKEN.match(text, pos)
        if not m or len(found["all"]) + len(found["agent"]) >= MAX_DIRECTIVES:
            break
        name, pos = m.group(1).lower(), m.end()
        if not m.group(2):
            found[scope].add(name)
        elif name == "unavailable_after" or name in _VALUED:
            value, pos = _value(name, text, pos)
            if value:
                found[scope].add(f"{name}={value}")
        elif names_robots:
            scope = (
                "all"
                if name in ("*", "robots")
                else "agent"
                if name.partition("/")[0] == agent
                else "other"
            )
        else:
            pos = _comma(text, pos)
    return found["all"], found["agent"]


def _value(name: str, text: str, pos: int) -> tuple[str | None, int]:
    if name == "unavailable_after":
        return date_at(text, pos) or (None, _comma(text, pos))
    end = _comma(text, pos)
    value = text[pos:end].strip().lower()
    return (value if _VALUED[name].fullmatch(value) else None), end


def _comma(text: str, pos: int) -> int:
    found = text.find(",", pos)
    return found if found >= 0 else len(text)


def _reservation(value: str, known: int | None) -> int | None:
    value = value.strip()
    return max(int(value), known or 0) if value in ("0", "1") else known
