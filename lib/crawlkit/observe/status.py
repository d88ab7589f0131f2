"""status: what a crawl is doing, read from its state objects and, without a JVM, from crawldb."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from crawlkit.adapters.lake.duckdb_reader import frontier_counts
from crawlkit.config import Config, ConfigError
from crawlkit.crawl.state import Crawl, Place

STAGES = ("inject", "generate", "fetch", "commit", "parse", "dedup", "update", "rank", "report")
NEWEST = 20


def read_status(data: Place, cfg: Config, round_id: str | None = None) -> dict[str, Any]:
    """Rounds with the stages done, URLs by state, due now. Raises ConfigError, CrawlError.

    All open rounds and the newest; or the one named.
    """

    crawl = Crawl(data, cfg)
    if "://" not in str(crawl.objects.root) and not Path(crawl.objects.root).is_dir():
        raise ConfigError(f"--data {data}: no crawl there; run `crawlkit crawl` first")
    crawl.check()
    rounds = []
    known = sorted(
        map(crawl.round, [round_id] if round_id else crawl.round_ids()), key=lambda r: r.no
    )
    for r in [r for r in known[:-NEWEST] if r.state == "open"] + known[-NEWEST:]:
        progress = (
            [json.loads(crawl.objects.get(k)[0]) for k in crawl.objects.list(f"progress/{r.id}/")]
            if r.state == "open"
            else []
        )
        rounds.append(
            {
                "round_id": r.id,
                "state": r.state,
                "done": [s for s in STAGES if crawl.mark(r, s) is not None],
                "buckets": len(r.buckets),
                **{
                    k: (crawl.mark(r, "generate") or {}).get(k)
                    for k in ("planned", "left_out", "regions")
                },
                "fetching": (
                    {
                        k: sum(int(p.get(k, 0)) for p in progress)
                        for k in ("queued", "in_flight", "done", "failed", "bytes")
                    }
                    if progress
                    else None
                ),
            }
        )
    states, due = frontier_counts(crawl.plain_tables(), time.time())
    return {
        "crawl": cfg.crawl.id,
        "rounds": rounds,
        "states": states,
        "known_urls": sum(states.values()),
        "due_now": due,
    }


def status_text(s: dict[str, Any]) -> str:
    """The result of read_status for a terminal."""
    lines = [
        f"crawl {s['crawl']}: {s['known_urls']} URLs known"
        f" ({', '.join(f'{k} {v}' for k, v in sorted(s['states'].items())) or 'none'}); due now"
        f" {s['due_now']}"
    ]
    for r in s["rounds"]:
        where = f"done: {', '.join(r['done'])}" if r["state"] == "open" else r["state"]
        lines.append(
            f"  {r['round_id']}: {where}"
            + (f"; fetching {r['fetching']}" if r["fetching"] else "")
            + (
                f"; left out: {', '.join(f'{n} {k}' for k, n in r['left_out'].items())}"
                if r["left_out"]
                else ""
            )
        )
    return "\n".join(lines)
