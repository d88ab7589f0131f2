"""status: what a crawl is doing, read from its state objects and, without a JVM, from crawldb."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from crawlkit.adapters.lake.duckdb_reader import frontier_counts
from crawlkit.config import Config, ConfigError
from crawlkit.crawl.state import Crawl, Place
from crawlkit.model import Round

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
    ids = [round_id] if round_id else crawl.round_ids()
    rounds = sorted(map(crawl.round, ids), key=lambda r: r.no)
    shown = [r for r in rounds[:-NEWEST] if r.state == "open"] + rounds[-NEWEST:]
    states, due = frontier_counts(crawl.plain_tables(), time.time())
    return {
        "crawl": cfg.crawl.id,
        "rounds": [_round_row(crawl, r) for r in shown],
        "states": states,
        "known_urls": sum(states.values()),
        "due_now": due,
    }


def _round_row(crawl: Crawl, r: Round) -> dict[str, Any]:
    planned = crawl.mark(r, "generate") or {}
    return {
        "round_id": r.id,
        "state": r.state,
        "done": [s for s in STAGES if crawl.mark(r, s) is not None],
        "buckets": len(r.buckets),
        **{k: planned.get(k) for k in ("planned", "left_out", "regions")},
        "fetching": _progress(crawl, r.id) if r.state == "open" else None,
    }


def _progress(crawl: Crawl, round_id: str) -> dict[str, int] | None:
    """The sums of the fetch tasks' progress; None if there is none."""
    keys = crawl.objects.list(f"progress/{round_id}/")
    rows = [json.loads(crawl.objects.get(key)[0]) for key in keys]
    names = ("queued", "in_flight", "done", "failed", "bytes")
    return {k: sum(int(row.get(k, 0)) for row in rows) for k in names} if rows else None


def status_text(s: dict[str, Any]) -> str:
    """The result of read_status for a terminal."""
    states = ", ".join(f"{state} {n}" for state, n in sorted(s["states"].items()))
    head = f'crawl "{s["crawl"]}": {s["known_urls"]} URLs known ({states or "none"})'
    return "\n".join([f"{head}; due now {s['due_now']}", *map(_round_text, s["rounds"])])


def _round_text(r: dict[str, Any]) -> str:
    done = f"done: {', '.join(r['done'])}" if r["state"] == "open" else r["state"]
    text = f"  {r['round_id']}: {done}"
    if r["fetching"]:
        text += f"; fetching {r['fetching']}"
    if r["left_out"]:
        text += "; left out: " + ", ".join(f"{n} {k}" for k, n in r["left_out"].items())
    return text
