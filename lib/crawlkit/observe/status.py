"""status: what a crawl is doing, read from its state objects and, without a JVM, from crawldb."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from crawlkit.adapters.lake.duckdb_reader import frontier_counts
from crawlkit.adapters.store.flock import LockHeld
from crawlkit.config import Config, ConfigError
from crawlkit.crawl.fetch_progress import clock_text, progress_lines, read_progress
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
    committed = crawl.mark(r, "commit") or {}
    return {
        "round_id": r.id,
        "state": r.state,
        "done": [s for s in STAGES if crawl.mark(r, s) is not None],
        "buckets": len(r.buckets),
        **{k: planned.get(k) for k in ("planned", "left_out", "regions")},
        "outcomes": committed.get("outcomes"),
        "fetching": _fetching(crawl, r),
        "driven": _is_driven(crawl, r) if r.state == "open" else None,
    }


def _fetching(crawl: Crawl, r: Round) -> dict[str, Any] | None:
    """The progress of a round that is being fetched."""
    if r.state != "open" or crawl.mark(r, "fetch") is not None:
        return None
    return read_progress(crawl.objects, r.id, time.time())


def _is_driven(crawl: Crawl, r: Round) -> bool:
    """Whether a process runs the round's stages."""
    try:
        with crawl.driver_lock(r):
            return False
    except LockHeld:
        return True


def status_text(s: dict[str, Any]) -> str:
    """The result of read_status for a terminal."""
    states = ", ".join(f"{state} {n}" for state, n in sorted(s["states"].items()))
    head = f'crawl "{s["crawl"]}": {s["known_urls"]} URLs known ({states or "none"})'
    return "\n".join([f"{head}; due now {s['due_now']}", *map(_round_text, s["rounds"])])


def _round_text(r: dict[str, Any]) -> str:
    done = f"done: {', '.join(r['done'])}" if r["state"] == "open" else r["state"]
    lines = [f"  {r['round_id']}: {done}"]
    if r["outcomes"]:
        lines[0] += ": " + ", ".join(f"{name} {n}" for name, n in sorted(r["outcomes"].items()))
    if r["left_out"]:
        lines[0] += "; left out: " + ", ".join(f"{n} {k}" for k, n in r["left_out"].items())
    f = r["fetching"]
    if r["driven"] is False:
        at = "" if f is None else f" while it fetched, at {clock_text(f['at'])}"
        lines.append(f"    interrupted{at}; nobody drives it: run the same command again to go on")
    elif f is not None:
        lines += [f"    {line}" for line in progress_lines(f)]
    return "\n".join(lines)
