"""When a URL is due again: the adaptive interval. Seconds throughout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlkit.config import Config, Schedule, of_host
from crawlkit.outcomes import State

FORCED = "forced"  # flag: an operator wants it, whatever its category
_BOUND = ("minutes", "hours", "days", "weeks")


def listed_classes(cfg: Schedule) -> dict[str, str]:
    """Host -> class, as configured."""
    return dict.fromkeys(cfg.dormant_hosts, "dormant") | dict.fromkeys(cfg.news_hosts, "news")


def host_class(host: str, cfg: Schedule, learned: str | None = None) -> str:
    """`news`, `dormant` or `generic`: as configured, else as learned (host_classes.py)."""
    if host in cfg.news_hosts:
        return "news"
    return "dormant" if host in cfg.dormant_hosts else learned or "generic"


def class_of_row(row: Mapping[str, Any], cfg: Schedule, learned: str | None = None) -> str:
    """`sitemap` or `feed` for such a resource, else its category, else the class of its host."""
    kind = row.get("fetch_kind")
    if kind in ("sitemap", "feed"):
        return str(kind)
    category = category_of(row, cfg)
    return category if category in _BOUND else host_class(row["host"], cfg, learned)


def category_of(row: Mapping[str, Any], cfg: Schedule) -> str | None:
    """The category that an operator gave a URL (`url`, `host`); None: none."""
    if not cfg.recrawl:
        return None
    starts = [k for k in cfg.recrawl if "://" in k and row["url"].startswith(k)]
    return cfg.recrawl[max(starts, key=len)] if starts else of_host(cfg.recrawl, row["host"])


def is_manual(row: Mapping[str, Any], cfg: Schedule) -> bool:
    """Whether only an operator makes the URL due again."""
    return category_of(row, cfg) == "manual"


def with_ordered(cfg: Config, policies: Mapping[str, Mapping[str, Any]]) -> Config:
    """The configuration with the categories that operators ordered for hosts (`recrawl`)."""
    ordered = {host: p["recrawl"] for host, p in policies.items() if p.get("recrawl")}
    if not ordered:
        return cfg
    schedule = cfg.schedule.model_copy(update={"recrawl": cfg.schedule.recrawl | ordered})
    return cfg.model_copy(update={"schedule": schedule})


def setting_sql(settings: Mapping[str, str], row: str = "") -> str | None:
    """A CASE over url and host of a row; None: there are no settings.

    settings: start of a URL, host, `*.suffix` or `*` -> SQL of the value; the longest start counts,
    then the host, then the longest suffix. row: its name with a dot.
    """
    keys = sorted(settings, key=lambda k: (-len(k), k))
    tests = [(f"left({row}url, {len(k)}) = '{k}'", settings[k]) for k in keys if "://" in k]
    hosts = [k for k in keys if "://" not in k and not k.startswith("*")]
    for value in sorted({settings[k] for k in hosts}):
        names = ", ".join(f"'{k}'" for k in hosts if settings[k] == value)
        tests.append((f"{row}host IN ({names})", value))
    suffixes = [k for k in keys if k.startswith("*.")]
    tests += [(f"right({row}host, {len(k) - 1}) = '{k[1:]}'", settings[k]) for k in suffixes]
    if "*" in settings:
        tests.append(("true", settings["*"]))
    whens = " ".join(f"WHEN {test} THEN {then}" for test, then in tests)
    return f"CASE {whens} END" if tests else None


def next_fetch_sql(cfg: Schedule) -> str:
    """When a row of the frontier is due by its category: SQL over its columns.

    What was never fetched, waits for a retry or is wanted by an operator stays as it is. A manual
    one is never due; one that is manual no more is due by its interval.
    """
    named = setting_sql({key: f"'{category}'" for key, category in cfg.recrawl.items()})
    category, kind = named or "CAST(NULL AS string)", "coalesce(fetch_kind, 'page')"
    ceilings = " ".join(f"WHEN '{c}' THEN {bounds_s(c, cfg)[1]!r}" for c in _BOUND)
    ceiling = f"CASE WHEN {kind} = 'page' THEN CASE {category} {ceilings} END END"
    kept = ", ".join(f"'{s}'" for s in (State.FETCHED, State.REDIRECTED, State.ROBOTS_SKIPPED))
    return f"""CASE WHEN last_fetch IS NULL OR coalesce(array_contains(flags, '{FORCED}'), false)
            OR NOT (state IN ({kept}) OR (state = '{State.RETRYING}' AND next_fetch IS NULL))
        THEN next_fetch
        WHEN coalesce({category} = 'manual', false) THEN CAST(NULL AS timestamp)
        ELSE least(coalesce(next_fetch, {_after_sql("interval_s")}), {_after_sql(ceiling)}) END"""


def _after_sql(seconds: str) -> str:
    """The time so long after the last fetch."""
    return f"timestamp_micros(unix_micros(last_fetch) + CAST(({seconds}) * 1e6 AS bigint))"


def bounds_s(cls: str, cfg: Schedule) -> tuple[float, float]:
    """Floor and ceiling of the interval of a class."""
    floor, *_, ceiling = {
        "news": cfg.news_s,
        "dormant": cfg.dormant_s,
        "sitemap": cfg.sitemap_s,
        "feed": cfg.feed_s,
        "minutes": cfg.minutes_s,
        "hours": cfg.hours_s,
        "days": cfg.days_s,
        "weeks": cfg.weeks_s,
    }.get(cls, cfg.generic_s)
    return floor, ceiling


def initial_interval_s(priority_class: int, cls: str, cfg: Schedule) -> float:
    """Interval after the first fetch: by priority class, clamped to the host class; a sitemap's,
    feed's and category's own.
    """
    floor, ceiling = bounds_s(cls, cfg)
    if cls in _BOUND:
        return floor
    if cls in ("sitemap", "feed"):
        return {"sitemap": cfg.sitemap_s, "feed": cfg.feed_s}[cls][1]
    return min(max(cfg.initial_s[min(max(priority_class, 0), 3)], floor), ceiling)


def next_interval_s(interval_s: float, changed: bool | None, cls: str, cfg: Schedule) -> float:
    """Interval after another fetch: shorter after a change, longer after none, the same without
    evidence.
    """
    floor, ceiling = bounds_s(cls, cfg)
    factor = 1.0 if changed is None else cfg.changed_factor if changed else cfg.unchanged_factor
    return min(max(interval_s * factor, floor), ceiling)
