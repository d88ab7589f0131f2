"""Which region fetches a registered domain: as an operator says by name, suffix or top-level
domain, else by the country of its address.
"""

from __future__ import annotations

from collections.abc import Iterable

from crawlkit.config import Fetch, of_host


def region_of(domain: str, cfg: Fetch, places: Iterable[str] = ()) -> str:
    """The domain's region by its longest pattern, else by the first of its places that a region
    names, else that of `*`, else the first region; empty if there are no regions.

    places: `country:DE`, `continent:EU` of its addresses, the nearest first.
    """
    if not cfg.regions:
        return ""
    named = {pattern: region for region, patterns in cfg.regions.items() for pattern in patterns}
    rest = named.pop("*", next(iter(cfg.regions)))
    by_place = next((named[place] for place in places if place in named), rest)
    return of_host(named, domain) or by_place


def serving(region: str, cfg: Fetch) -> str:
    """The region that fetches for it: itself, or while it is down the nearest that is not
    (`nearest`, then in the order of `regions`).
    """
    if region not in cfg.regions_down:
        return region
    return next(
        r for r in (*cfg.nearest.get(region, ()), *cfg.regions) if r not in cfg.regions_down
    )
