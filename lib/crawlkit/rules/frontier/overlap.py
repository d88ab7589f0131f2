"""Which host buckets a second round takes, so that its pages are read while the first one still
waits for its slow hosts.

Hosts of both rounds are asked at the same time, so none waits for another; what is won is that the
page stages of the second round lie within the fetch of the first. Where the queues of all hosts end
together there is nothing to win, and there is one round, as for a crawl of one host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from crawlkit.rules.frontier.slots import address_groups

# What the page stages take for a page, s: at the start of a process, so rather too little.
PAGE_S = 0.004
LEAST_S = 3.0  # that has to be won: a further round takes one second of its own


def buckets_beside(
    rows: Iterable[Mapping[str, Any]], page_s: float = PAGE_S, least_s: float = LEAST_S
) -> list[int]:
    """Buckets of the second round; none if it would win less than `least_s`.

    The first round keeps the buckets with the longest queue. Buckets whose hosts share an address,
    or one to which the robots.txt or pages of the other lead, stay together, since only tasks of
    one round know of each other's requests.

    Args:
        rows: domains with host_bucket, n (URLs of the round), cost_s (polite time), ips (what
            they share: addresses, and names of those to which they lead).
        page_s: time that the page stages take for a URL.
        least_s: least time to be won.
    """
    buckets: dict[int, dict[str, Any]] = {}
    for r in rows:
        b = buckets.setdefault(r["host_bucket"], {"n": 0, "cost_s": 0.0, "ips": []})
        b["n"] += r["n"]
        b["cost_s"] = max(b["cost_s"], r["cost_s"])
        b["ips"] = [*b["ips"], *(r["ips"] or ())]
    groups = address_groups(buckets)  # the longest queue first
    if not groups:
        return []
    queue_s = [max(buckets[b]["cost_s"] for b in g) for g in groups]
    pages, best_s, best = 0, least_s, len(groups)
    for cut in range(len(groups) - 1, 0, -1):
        pages += sum(buckets[b]["n"] for b in groups[cut])
        won_s = min(pages * page_s, queue_s[0] - queue_s[cut])
        if won_s > 0 and won_s >= best_s:
            best_s, best = won_s, cut
    return sorted(b for g in groups[best:] for b in g)
