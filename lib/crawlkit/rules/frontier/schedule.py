"""When a URL is due again: the adaptive interval. Seconds throughout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlkit.config import Schedule


def listed_classes(cfg: Schedule) -> dict[str, str]:
    """Host -> class, as configured."""
    return dict.fromkeys(cfg.dormant_hosts, "dormant") | dict.fromkeys(cfg.news_hosts, "news")


def host_class(host: str, cfg: Schedule, learned: str | None = None) -> str:
    """`news`, `dormant` or `generic`: as configured, else as learned (host_classes.py)."""
    if host in cfg.news_hosts:
        return "news"
    return "dormant" if host in cfg.dormant_hosts else learned or "generic"


def class_of_row(row: Mapping[str, Any], cfg: Schedule, learned: str | None = None) -> str:
    """`sitemap` or `feed` for such a resource, else the class of its host."""
    kind = row.get("fetch_kind")
    return kind if kind in ("sitemap", "feed") else host_class(row["host"], cfg, learned)


def bounds_s(cls: str, cfg: Schedule) -> tuple[float, float]:
    """Floor and ceiling of the interval of a class."""
    floor, *_, ceiling = {
        "news": cfg.news_s,
        "dormant": cfg.dormant_s,
        "sitemap": cfg.sitemap_s,
        "feed": cfg.feed_s,
    }.get(cls, cfg.generic_s)
    return floor, ceiling


def initial_interval_s(priority_class: int, cls: str, cfg: Schedule) -> float:
    """Interval after the first fetch: by priority class, clamped to the host class; a sitemap's and
    feed's own.
    """
    floor, ceiling = bounds_s(cls, cfg)
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
