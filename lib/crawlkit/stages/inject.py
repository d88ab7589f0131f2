"""inject: seed lines -> found rows of crawldb_log and rejects.

Nothing is dropped: lines = added + duplicates + refused + comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from crawlkit.outcomes import Refused
from crawlkit.rules.frontier.lifecycle import found_row
from crawlkit.rules.url.canonical import UrlPolicy, host_of, url_key
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.rules.url.seed_lists import Parse
from crawlkit.rules.url.seeds import parse_seed

_PIECE = re.compile(r"([/?#\s'\"]+)")


def _masked(text: str) -> str:
    """Without what stands before an @: a refused line may hold a password, and no table
    keeps it.
    """
    return "".join(
        "…@" + piece.rpartition("@")[2] if "@" in piece else piece for piece in _PIECE.split(text)
    )


def read_lines(
    lines: Iterable[str],
    *,
    now: float,
    buckets: int,
    policy: UrlPolicy,
    priority_class: int = 1,
    source: str = "seed",
    max_url_bytes: int = 2048,
    parse: Parse = parse_seed,
    first_line: int = 1,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, int]]:
    """Found rows (distinct by url_key, first line wins), rejects and counts of the lines.

    parse: how a line is read (rules/url/seed_lists.py). first_line: number of the first line, for
        messages.
    counts: lines, comments, duplicates (within the lines), refused; the rows that remain are lines
        - the others.
    """
    rows: dict[bytes, dict[str, Any]] = {}
    rejects: list[dict[str, Any]] = []
    counts = {"lines": 0, "comments": 0, "duplicates": 0, "refused": 0}
    for n, line in enumerate(lines, first_line):
        counts["lines"] += 1
        try:
            seed = parse(line, priority_class, policy)
            if seed is not None and len(seed.url) > max_url_bytes:
                raise Refused(
                    "url_too_long", f"{len(seed.url)} bytes, scope.max_url_bytes is {max_url_bytes}"
                )
        except Refused as e:
            counts["refused"] += 1
            rejects.append(
                {
                    "stage": "inject",
                    "n": n,
                    "item": _masked(line.strip())[:2000],
                    "reason": str(e.reason),
                    "detail": f"line {n}: {_masked(e.detail)}",
                }
            )
            continue
        if seed is None:
            counts["comments"] += 1
            continue
        key = url_key(seed.url)
        if key in rows:
            counts["duplicates"] += 1
            continue
        host = host_of(seed.url)
        domain = registered_domain(host)
        rows[key] = found_row(
            seed.url,
            key,
            host,
            domain,
            host_bucket(domain, buckets),
            source=source,
            now=now,
            depth=seed.depth,
            priority_class=seed.priority_class,
            boost=seed.boost,
            fetch_kind=seed.fetch_kind,
        )
    return list(rows.values()), rejects, counts
