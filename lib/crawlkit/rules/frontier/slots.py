"""Which slot and region fetches a registered domain: hosts that share an address go together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from crawlkit.config import Config
from crawlkit.rules.frontier.regions import region_of, serving

Name = TypeVar("Name", str, int)
PlacesOf = Callable[[str], Iterable[str]]


def assign_slots(
    domains: Iterable[Mapping[str, Any]], slots: int, hot_share: float, hot: Iterable[str] = ()
) -> tuple[dict[str, int], int]:
    """Slot of each domain and the number of slots.

    domains: rows of domain, n (planned URLs), cost_s (polite time), ips. Domains that share an
    address go together; a hot domain (named, or above `hot_share` of all rows when there are
    several) has a slot of its own; the others are spread by their polite time, longest first.
    """
    rows = {d["domain"]: d for d in domains}
    total = sum(r["n"] for r in rows.values())
    hot_names = set(hot)
    groups = address_groups(rows)
    out: dict[str, int] = {}
    load = [0.0] * slots
    extra = slots
    for g in groups:
        n = sum(rows[d]["n"] for d in g)
        if len(groups) > 1 and (hot_names & set(g) or (n > hot_share * total and n >= 1000)):
            slot, extra = extra, extra + 1
        else:
            slot = min(range(slots), key=lambda s: (load[s], s))
            load[slot] += sum(rows[d]["n"] for d in g)
        out |= dict.fromkeys(g, slot)
    used = sorted(set(out.values()))
    dense = {s: i for i, s in enumerate(used)}
    return {d: dense[s] for d, s in out.items()}, len(used)


def address_groups(rows: Mapping[Name, Mapping[str, Any]]) -> list[list[Name]]:
    """Domains (or buckets) that share addresses, together; the group with the longest polite time
    first.
    """
    parent = {d: d for d in rows}

    def root(d: Name) -> Name:
        while parent[d] != d:
            parent[d] = parent[parent[d]]
            d = parent[d]
        return d

    at_ip: dict[str, Name] = {}
    for d in sorted(rows):
        for ip in rows[d]["ips"] or ():
            parent[root(d)] = root(at_ip.setdefault(ip, d))
    groups: dict[Name, list[Name]] = defaultdict(list)
    for d in sorted(rows):
        groups[root(d)].append(d)
    return sorted(groups.values(), key=lambda g: (-max(rows[d]["cost_s"] for d in g), g[0]))


def assign_in_regions(
    domains: Iterable[Mapping[str, Any]], cfg: Config, places_of: PlacesOf | None = None
) -> tuple[dict[str, tuple[int, str]], list[str]]:
    """(slot, region) of each domain, and the region of each slot.

    Domains that share an address have one region: that of the longest polite time. places_of: an
    address -> where it is (`region_of`); None: nobody knows.
    """
    rows = {d["domain"]: d for d in domains}
    region: dict[str, str] = {}
    for g in address_groups(rows):
        slowest = max(g, key=lambda d: (rows[d]["cost_s"], d))
        places: list[str] = []
        if places_of is not None:
            places = [place for ip in rows[slowest]["ips"] or () for place in places_of(ip)]
        region |= dict.fromkeys(g, serving(region_of(slowest, cfg.fetch, places), cfg.fetch))
    out: dict[str, tuple[int, str]] = {}
    regions: list[str] = []
    for name in sorted(set(region.values())):
        slot_of, n = assign_slots(
            [r for d, r in rows.items() if region[d] == name],
            cfg.fetch.slots,
            cfg.frontier.hot_share,
            cfg.frontier.hot_hosts,
        )
        out |= {d: (len(regions) + slot, name) for d, slot in slot_of.items()}
        regions += [name] * n
    return out, regions
