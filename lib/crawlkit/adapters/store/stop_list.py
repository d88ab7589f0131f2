"""The operator's standing orders, `control/stop.json`: running slots read them every few seconds.

One small object, changed by compare-and-swap: hosts and domains that are stopped, the pace of
single hosts, rounds that are paused or abandoned. `commands` records who gave an order and when;
this is what holds now.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from crawlkit.adapters.store.objects import ObjectMissing, Objects

ORDERS_KEY = "control/stop.json"
MAX_TRIES = 100


class Orders(NamedTuple):
    """hosts, domains: name -> reason.

    policies: host -> delay_s, parallel, quota_max, cycle_quota_max, recrawl, weight (null or
        absent: as configured).
    """

    hosts: Mapping[str, str]
    domains: Mapping[str, str]
    policies: Mapping[str, Mapping[str, Any]]
    paused: frozenset[str]
    abandoned: frozenset[str]

    def stopped(self, host: str, domain: str) -> str | None:
        """Why a host is stopped; None: it is not."""
        return self.hosts.get(host, self.domains.get(domain))


def parse_orders(raw: bytes) -> Orders:
    """Raises ValueError: the caller must not take that for "nothing is stopped"."""
    try:
        row = json.loads(raw)
        hosts, domains = (_reasons(row.get(key, {})) for key in ("hosts", "domains"))
        policies = {str(h): _policy(p) for h, p in row.get("policies", {}).items()}
        return Orders(
            hosts,
            domains,
            policies,
            frozenset(map(str, row.get("paused", ()))),
            frozenset(map(str, row.get("abandoned", ()))),
        )
    except (TypeError, AttributeError, RecursionError) as e:
        raise ValueError(f"{ORDERS_KEY}: {e}") from None


def _reasons(stopped: Any) -> dict[str, str]:
    """Why each is stopped; a plain list gives no reasons."""
    if isinstance(stopped, dict):
        return {str(k): str(v) for k, v in stopped.items()}
    return {str(k): "" for k in stopped}


def _policy(p: Mapping[str, Any]) -> dict[str, Any]:
    delay_s, parallel = p.get("delay_s"), p.get("parallel")
    quotas = {
        name: None if p.get(name) is None else int(p[name])
        for name in ("quota_max", "cycle_quota_max")
    }
    return {
        "delay_s": None if delay_s is None else float(delay_s),
        "parallel": max(1, int(parallel or 1)),
        **quotas,
        "weight": None if p.get("weight") is None else float(p["weight"]),
        "recrawl": None if p.get("recrawl") is None else str(p["recrawl"]),
    }


def read_orders(objects: Objects) -> Orders:
    """The orders in force; none if there is no such object.

    Raises ValueError if it cannot be read, OSError.
    """
    try:
        return parse_orders(objects.get(ORDERS_KEY)[0])
    except ObjectMissing:
        return Orders({}, {}, {}, frozenset(), frozenset())


def change_orders(objects: Objects, change: Callable[[dict[str, Any]], None]) -> Orders:
    """Change the orders; the new ones.

    `change` edits the dict of them in place and may be called again if another writer was quicker.
    Raises ValueError if what is stored cannot be read, OSError.
    """
    for _ in range(MAX_TRIES):
        try:
            raw, etag = objects.get(ORDERS_KEY)
        except ObjectMissing:
            raw, etag = b"{}", None
        now = parse_orders(raw)
        row: dict[str, Any] = {
            "hosts": dict(now.hosts),
            "domains": dict(now.domains),
            "policies": dict(now.policies),
            "paused": sorted(now.paused),
            "abandoned": sorted(now.abandoned),
        }
        change(row)
        data = json.dumps(row, sort_keys=True).encode()
        if objects.compare_and_swap(ORDERS_KEY, data, etag) is not None:
            return parse_orders(data)
    raise OSError(f"{ORDERS_KEY} changes all the time: nothing was ordered")
