"""Capacity arithmetic (docs/planner.md): from a target to machines and cost.

Between them: throughput, bandwidth, storage and filters. Decimal units throughout: 1 KB = 1000
bytes. A month is 30 days, a year 12 of them, as in the published designs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any

DAY_S = 86_400
MONTH_S = 30 * DAY_S
LINES_GBIT = (1, 10, 25, 40, 100, 200, 400, 800)


class PlanError(ValueError):
    """An input that cannot be; the message names it."""


@dataclass(frozen=True)
class Workload:
    """What is to be crawled, and with what. Shares are 0 to 1."""

    pages: float = 1e9  # fetched in period_s
    period_s: float = MONTH_S
    page_bytes: float = 100e3  # raw
    compression: float = 5.0  # raw / stored
    stored_compressed: bool = False  # page_bytes is what is stored
    links_per_page: float = 50.0
    metadata_bytes: float = 500.0  # kept for each page fetched
    duplicate_share: float = 0.0  # of the pages: stored once
    peak_factor: float = 3.0
    # network
    fetch_s: float = 2.0  # of one page, the wait for its connection included
    dns_miss_share: float = 0.1
    dns_domains: float = 1e7  # cached
    dns_entry_bytes: float = 50.0
    # frontier
    known_urls: float = 1e10
    frontier_urls: float = 1e10  # queued
    url_bytes: float = 200.0
    shard_urls: float = 1e6
    shards: float | None = None  # instead of shard_urls
    false_positive_share: float = 0.01
    hosts: float = 1e7
    host_bytes: float = 100.0
    robots_bytes: float = 500.0
    host_delay_s: float = 1.0
    host_day_quota: float = 100_000.0
    host_cycle_quota: float = 100_000.0
    cycle_days: float = 30.0
    largest_host_pages: float = 1e6
    # storage
    months_kept: float = 1.0
    snapshots_kept: float = 0.0  # further months of pages
    index_share: float = 0.0  # of what is kept
    replicas: float = 1.0
    # machines
    in_flight: float = 50.0  # requests in flight on one machine
    headroom: float = 1.5
    size_for_peak: bool = False  # in flight at the peak instead of on average with headroom
    cores: float = 16.0
    cpu_ms_per_page: float = 10.0  # of one core, all stages: measure it (docs/planner.md)
    cpu_load: float = 0.7  # of a core that may be planned for
    # prices
    machine_usd_h: float = 0.80
    storage_usd_tb_month: float = 23.0
    egress_usd_tb: float = 0.0  # crawling is mostly ingress
    render_share: float = 0.0  # of the pages
    render_cpu_s: float = 3.0  # of one core a rendered page


@dataclass(frozen=True)
class Claim:
    """A figure that a source gives for an output.

    `slip`: an error of the source; `note` has the right figure.
    """

    output: str
    value: float
    note: str = ""
    slip: bool = False


@dataclass(frozen=True)
class Profile:
    """A published design or a step of growth: inputs, and the outputs that its source gives."""

    title: str
    workload: Workload
    claims: tuple[Claim, ...] = ()
    changes: tuple[str, ...] = field(default_factory=tuple)


_ABOVE_ZERO = (
    "pages",
    "period_s",
    "page_bytes",
    "compression",
    "fetch_s",
    "in_flight",
    "cores",
    "cpu_load",
    "host_delay_s",
    "host_day_quota",
    "host_cycle_quota",
    "cycle_days",
    "shard_urls",
    "known_urls",
)


def plan(w: Workload) -> dict[str, float]:
    """Every output, in the units of its name. Raises PlanError."""
    _check_inputs(w)
    out = _rates(w) | _storage(w) | _network(w) | _frontier(w) | _hosts(w)
    machines = _machines(w, out)
    return out | machines | _cost(w, out, machines)


def _check_inputs(w: Workload) -> None:
    """Raises PlanError."""
    for f in fields(w):
        value = getattr(w, f.name)
        is_number = isinstance(value, float | int) and not isinstance(value, bool)
        if is_number and not 0 <= value < math.inf:
            raise PlanError(f"{f.name} is {value}: expected a number of at least 0")
    for name in _ABOVE_ZERO:
        if not getattr(w, name):
            raise PlanError(f"{name} must be above 0")
    if not 0 < w.false_positive_share < 1:
        raise PlanError("false_positive_share must lie between 0 and 1")


def _rates(w: Workload) -> dict[str, float]:
    """Pages and bits a second."""
    pages_per_s = w.pages / w.period_s
    bytes_per_s = pages_per_s * w.page_bytes
    line = bytes_per_s * 8 * w.peak_factor / 1e9
    return {
        "pages_per_s": pages_per_s,
        "peak_pages_per_s": pages_per_s * w.peak_factor,
        "pages_per_month": pages_per_s * MONTH_S,
        "bytes_per_s": bytes_per_s,
        "bits_per_s": bytes_per_s * 8,
        "peak_bits_per_s": bytes_per_s * 8 * w.peak_factor,
        "line_gbit": float(next((g for g in LINES_GBIT if g >= line), math.ceil(line / 100) * 100)),
    }


def _storage(w: Workload) -> dict[str, float]:
    """Bytes fetched and kept."""
    pages_per_s = w.pages / w.period_s
    pages_per_month = pages_per_s * MONTH_S
    raw_month = pages_per_month * w.page_bytes
    compression = 1 if w.stored_compressed else w.compression
    history = raw_month * (w.months_kept + w.snapshots_kept) * (1 + w.index_share)
    return {
        "raw_bytes_per_day": pages_per_s * DAY_S * w.page_bytes,
        "raw_bytes_per_month": raw_month,
        "raw_bytes_per_year": raw_month * 12,
        "stored_bytes_per_month": raw_month / compression * (1 - w.duplicate_share),
        "history_bytes": history,
        "replicated_bytes": history * w.replicas,
        "metadata_bytes_per_month": pages_per_month * w.metadata_bytes,
    }


def _network(w: Workload) -> dict[str, float]:
    """Links found, and DNS."""
    pages_per_s = w.pages / w.period_s
    return {
        "links_per_day": pages_per_s * DAY_S * w.links_per_page,
        "url_checks_per_s": pages_per_s * w.links_per_page,
        "dns_queries_per_s": pages_per_s * w.dns_miss_share,
        "dns_hit_share": 1 - w.dns_miss_share,
        "dns_cache_bytes": w.dns_domains * w.dns_entry_bytes,
    }


def _frontier(w: Workload) -> dict[str, float]:
    """The queue and a Bloom filter of the known URLs."""
    bits_per_key = -math.log(w.false_positive_share) / math.log(2) ** 2
    shards = w.shards or math.ceil(w.frontier_urls / w.shard_urls)
    return {
        "frontier_bytes": w.frontier_urls * w.url_bytes,
        "shards": float(shards),
        "shard_bytes": w.frontier_urls * w.url_bytes / shards,
        "filter_bits_per_key": bits_per_key,
        "filter_hashes": float(round(bits_per_key * math.log(2))),
        "filter_bytes": w.known_urls * bits_per_key / 8,
    }


def _hosts(w: Workload) -> dict[str, float]:
    """State of the hosts, and how long the largest takes at its pace and quotas."""
    by_delay = DAY_S / w.host_delay_s
    by_quota = min(by_delay, w.host_day_quota)
    return {
        "host_state_bytes": w.hosts * w.host_bytes,
        "robots_bytes": w.hosts * w.robots_bytes,
        "host_pages_per_day": by_delay,
        "quota_binds": float(w.host_day_quota < by_delay),
        "largest_host_days": w.largest_host_pages * w.host_delay_s / DAY_S,
        "cycle_quota_binds": float(w.host_cycle_quota < by_quota * w.cycle_days),
        "largest_host_days_by_quota": _days_by_quota(w, by_quota),
    }


def _days_by_quota(w: Workload, pages_per_day: float) -> float:
    """Days until all pages of the largest host are fetched once, begun with a cycle: whole cycles
    at their quota, then the last one at its daily rate.
    """
    per_cycle = min(w.host_cycle_quota, pages_per_day * w.cycle_days)
    whole = max(math.ceil(round(w.largest_host_pages / per_cycle, 9)) - 1, 0)
    return whole * w.cycle_days + (w.largest_host_pages - whole * per_cycle) / pages_per_day


def _machines(w: Workload, out: dict[str, float]) -> dict[str, float]:
    """How many, by what binds: requests in flight or CPU; each with its headroom."""
    each = w.in_flight / w.fetch_s
    workers = math.ceil(round(out["pages_per_s"] / each, 9))
    by_flight = (
        math.ceil(round(out["peak_pages_per_s"] / each, 9))
        if w.size_for_peak
        else math.ceil(round(workers * w.headroom, 9))
    )
    cpu_s = w.cpu_ms_per_page / 1000 + w.render_share * w.render_cpu_s
    by_cpu = math.ceil(round(out["pages_per_s"] * cpu_s / (w.cores * w.cpu_load), 9))
    machines = max(by_flight, by_cpu, 1)
    return {
        "pages_per_s_of_a_machine": each,
        "workers": float(workers),
        "machines_by_in_flight": float(by_flight),
        "machines_by_cpu": float(by_cpu),
        "machines": float(machines),
        "pages_per_s_per_machine_used": out["pages_per_s"] / machines,
    }


def _cost(w: Workload, out: dict[str, float], machines: dict[str, float]) -> dict[str, float]:
    """USD a month, and for 1e9 pages."""
    month_h = MONTH_S / 3600
    kept_tb = out["stored_bytes_per_month"] * w.months_kept * w.replicas / 1e12
    compute = machines["machines"] * month_h * w.machine_usd_h
    storage = kept_tb * w.storage_usd_tb_month
    egress = out["stored_bytes_per_month"] / 1e12 * w.egress_usd_tb
    total = compute + storage + egress
    return {
        "compute_usd_per_month": compute,
        "storage_usd_per_month": storage,
        "egress_usd_per_month": egress,
        "usd_per_month": total,
        "usd_per_1e9_pages": total / out["pages_per_month"] * 1e9,
    }


def differences(profile: Profile, tolerance: float = 0.05) -> list[dict[str, Any]]:
    """Each claim of a source beside the computed figure.

    `within`: whether it is within the tolerance (a share); slips of the source are marked.
    """
    out = plan(profile.workload)
    rows = []
    for c in profile.claims:
        got = out[c.output]
        off = got / c.value - 1 if c.value else float(got != 0)
        rows.append(
            {
                "output": c.output,
                "computed": got,
                "source": c.value,
                "off": off,
                "within": abs(off) <= tolerance + 1e-9,
                "slip": c.slip,
                "note": c.note,
            }
        )
    return rows


def with_inputs(workload: Workload, assignments: dict[str, Any]) -> Workload:
    """The workload with some inputs replaced. Raises PlanError for a name or value that is none."""
    kinds = {f.name: f for f in fields(Workload)}
    values: dict[str, Any] = {}
    for name, value in assignments.items():
        if name not in kinds:
            raise PlanError(f"no input {name!r:.60}; there are {', '.join(kinds)}")
        wants_bool = isinstance(getattr(workload, name), bool)
        try:
            values[name] = (
                {"true": True, "false": False}[str(value).lower()] if wants_bool else float(value)
            )
        except (KeyError, ValueError, TypeError):
            raise PlanError(
                f"{name}={value!r:.60}: expected {'true or false' if wants_bool else 'a number'}"
            ) from None
    return replace(workload, **values)
