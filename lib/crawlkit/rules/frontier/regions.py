"""Which region fetches a registered domain: as an operator says by name, suffix or top-level
domain.
"""

from __future__ import annotations

from crawlkit.config import Fetch, of_host


def region_of(domain: str, cfg: Fetch) -> str:
    """The domain's region by its longest pattern; the first region if none covers it; empty if
    there are no regions.
    """
    if not cfg.regions:
        return ""
    named = {pattern: region for region, patterns in cfg.regions.items() for pattern in patterns}
    return of_host(named, domain) or next(iter(cfg.regions))


def serving(region: str, cfg: Fetch) -> str:
    """The region that fetches for it: itself, or while it is down the nearest that is not
    (`nearest`, then in the order of `regions`).
    """
    if region not in cfg.regions_down:
        return region
    return next(
        r for r in (*cfg.nearest.get(region, ()), *cfg.regions) if r not in cfg.regions_down
    )
