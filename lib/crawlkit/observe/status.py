"""status: what a crawl is doing, read from its state objects and, without a JVM, from crawldb."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from crawlkit.adapters.lake.duckdb_reader import frontier_counts
from crawlkit.adapters.store.flock import LockHeld
from crawlkit.config import Alerts, Config, ConfigError
from crawlkit.crawl.fetch_progress import (
    clock_text,
    duration_text,
    progress_lines,
    read_progress,
)
from crawlkit.crawl.state import Crawl, Place
from crawlkit.model import Round
from crawlkit.report.alerts import alert_text, evaluate, load_rules, running_values
from crawlkit.round.progress import STAGE_TEXT

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
    now, marks = time.time(), {s: mark for s in STAGES if (mark := crawl.mark(r, s)) is not None}
    planned, committed = marks.get("generate", {}), marks.get("commit", {})
    is_open = r.state == "open"
    driven = _is_driven(crawl, r) if is_open else None
    fetching = None
    if is_open and "fetch" not in marks:
        fetching = read_progress(crawl.objects, r.id, now)
    return {
        "round_id": r.id,
        "state": r.state,
        "done": [*marks],
        "stage": _stage(r, marks, now) if driven else None,
        "buckets": len(r.buckets),
        **{k: planned.get(k) for k in ("planned", "new", "again", "left_out", "regions")},
        "outcomes": committed.get("outcomes"),
        "fetching": fetching,
        "alerts": _alerts(fetching, crawl.cfg.alerts) if driven else [],
        "driven": driven,
    }


def _stage(r: Round, marks: dict[str, dict[str, Any]], now: float) -> dict[str, Any] | None:
    """The stage that is under way: its place among those of a round, since when (Unix s)."""
    after = max((STAGES.index(s) for s in marks), default=0)
    stage = next((s for s in STAGES[after + 1 :]), None)
    if stage is None:
        return None
    since = max((float(mark["ended"]) for mark in marks.values()), default=r.opened_at)
    place = {"number": STAGES.index(stage), "of": len(STAGES) - 1}
    return {"stage": stage, **place, "since": since, "for_s": round(now - since, 1)}


def _alerts(fetching: dict[str, Any] | None, cfg: Alerts) -> list[dict[str, Any]]:
    """The alerts that fire over a running fetch."""
    if fetching is None:
        return []
    found = evaluate(load_rules(), running_values(fetching, cfg.min_answers), cfg)
    return [a._asdict() for a in found if a.state == "firing"]


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
    if r["new"] is not None and r["state"] == "open":
        lines[0] += f"; planned: {r['new']:,} new URLs, {r['again']:,} fetched before"
    if r["outcomes"]:
        lines[0] += ": " + ", ".join(f"{name} {n}" for name, n in sorted(r["outcomes"].items()))
    if r["left_out"]:
        lines[0] += "; left out: " + ", ".join(f"{n} {k}" for k, n in r["left_out"].items())
    f = r["fetching"]
    if r["driven"] is False:
        at = "" if f is None else f" while it fetched, at {clock_text(f['at'])}"
        lines.append(f"    interrupted{at}; nobody drives it: run the same command again to go on")
        return "\n".join(lines)
    if (s := r["stage"]) is not None:
        text = f"{STAGE_TEXT.get(s['stage'], s['stage'])}, for {duration_text(s['for_s'])}"
        lines.append(f"    stage {s['number']} of {s['of']}, {s['stage']}: {text}")
    lines += [f"    {line}" for line in (progress_lines(f) if f is not None else ())]
    lines += [f"    {alert_text(a)}" for a in r["alerts"]]
    return "\n".join(lines)
