"""What a run of rounds did and what is due next: the answer of `crawlkit crawl` and `round`."""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from crawlkit.adapters.lake.duckdb_reader import aggregate, frontier_counts
from crawlkit.crawl.fetch_progress import bytes_text
from crawlkit.outcomes import REMEDIES
from crawlkit.report.alerts import alert_text
from crawlkit.round.job import Job

_NEXT = (
    "SELECT epoch_us(next_fetch) / 1e6, url FROM t WHERE next_fetch IS NOT NULL"
    " AND state NOT IN ('dead', 'refused') ORDER BY next_fetch, url LIMIT 1"
)


def summarize(
    job: Job, rounds: list[str], injected: dict[str, Any], started: float, now: float
) -> dict[str, Any]:
    """Rounds run, what is known, what is due next and where everything is.

    Args:
        rounds: ids of the rounds that fetched something.
        injected: counts of inject; empty if nothing was given.
        started: real time at which the run began, Unix s. now: nominal time, Unix s.
    """
    states, due_now = frontier_counts(job.tables, now)
    due_at, url = next(iter(aggregate(job.tables, "crawldb", _NEXT)), (None, None))
    crawl = job.crawl
    reported = (crawl.mark(crawl.round(rounds[-1]), "report") if rounds else None) or {}
    summary: dict[str, Any] = {
        "rounds": rounds,
        "nothing_due": not rounds,
        "known_urls": sum(states.values()),
        "states": states,
        "due_now": due_now,
        "next_due": None if due_at is None else _iso(due_at),
        "next_url": url,
        "wall_s": round(time.time() - started, 1),
        "left_out": _left_out(job),
        "outcomes": _outcomes(job, rounds),
        **_asked(job, rounds),
        "alerts": reported.get("alerts", []),
        "report": f"{crawl.report}/index.html",
        "warc": crawl.warc_place,
        "tables": crawl.tables_root,
    }
    if injected:
        names = ("added", "duplicates", "refused", "examples")
        summary["seeds"] = {name: injected[name] for name in names}
    return summary


def _outcomes(job: Job, rounds: list[str]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for round_id in rounds:
        mark = job.crawl.mark(job.crawl.round(round_id), "commit") or {}
        total.update(mark.get("outcomes", {}))
    return dict(total)


_ASKED = """
    SELECT count(*) FILTER (WHERE started IS NOT NULL),
        count(*) FILTER (WHERE is_outcome AND kind = 'page' AND outcome = 'fetched'),
        count(*) FILTER (WHERE is_outcome AND kind = 'page' AND outcome = 'not_modified'),
        count(*) FILTER (WHERE is_outcome AND kind = 'page' AND reason IN ('http_404', 'http_410')),
        coalesce(sum(warc_record_length), 0)
    FROM t
"""


def _asked(job: Job, rounds: list[str]) -> dict[str, int]:
    names = ("requests", "pages", "unchanged", "broken_links", "stored_bytes")
    if not rounds:
        return dict.fromkeys(names, 0)
    found = aggregate(job.tables, "captures", _ASKED, [], {"round_id": rounds})[0]
    return dict(zip(names, found, strict=True))


def _left_out(job: Job) -> dict[str, int]:
    """What the newest round, and the one that it was split from, left out, by reason."""
    rounds = map(job.crawl.round, job.crawl.round_ids())
    newest = max(rounds, key=lambda r: r.no, default=None)
    mark = (job.crawl.mark(newest, "generate") if newest else None) or {}
    left_out = Counter(mark.get("left_out") or {})
    if mark.get("beside"):
        first = job.crawl.mark(job.crawl.round(mark["beside"]), "generate") or {}
        left_out.update(first.get("left_out") or {})
    return dict(left_out)


def _iso(t: float) -> str:
    return datetime.datetime.fromtimestamp(t, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def summary_text(s: dict[str, Any]) -> str:
    """The summary for people; it ends with the places of report, WARC files and tables."""
    lines = []
    if "seeds" in s:
        seeds = s["seeds"]
        lines.append(
            f"seeds: {seeds['added']} added, {seeds['duplicates']} already known,"
            f" {seeds['refused']} refused"
        )
        lines += [f"  refused: {e}" for e in seeds["examples"]]
    if s["left_out"]:
        reasons = ", ".join(f"{n} by {reason}" for reason, n in sorted(s["left_out"].items()))
        lines.append(f"due, but left out of the last round: {reasons}")
    lines += _nothing_due(s) if s["nothing_due"] else _rounds_run(s)
    if s.get("reached"):
        lines.append(f"ended by {s['reached']}; run the same command again to go on")
    places = (f"report: {s['report']}", f"WARC:   {s['warc']}", f"tables: {s['tables']}")
    return "\n".join([*lines, *places])


def _nothing_due(s: dict[str, Any]) -> list[str]:
    at = f" at {s['next_due']}" if s["next_due"] else ""
    return [f"nothing due: {s['known_urls']} URLs known; next: {s['next_url'] or 'none'}{at}"]


def _remedies(outcomes: dict[str, int]) -> Iterator[str]:
    for reason, text in REMEDIES.items():
        if any(f"({reason})" in name for name in outcomes):
            wake = "; then `crawlkit recrawl URL`" if f"refused ({reason})" in outcomes else ""
            yield f"hint: {reason}: {text}{wake}"


def _rounds_run(s: dict[str, Any]) -> list[str]:
    width = max((len(k) for k in s["outcomes"]), default=0)
    by_count = sorted(s["outcomes"].items(), key=lambda p: -p[1])
    states = ", ".join(f"{k} {v}" for k, v in sorted(s["states"].items()))
    later = "" if s["due_now"] else f"; next due: {s['next_due'] or 'none'}"
    unchanged = f", {s['unchanged']:,} unchanged" if s["unchanged"] else ""
    return [
        f"{s['requests']:,} requests in {s['wall_s']} s: {s['pages']:,} pages fetched{unchanged},"
        f" {s['broken_links']:,} broken links, {bytes_text(s['stored_bytes'])} stored"
        f" ({len(s['rounds'])} round(s): {', '.join(s['rounds'])})",
        *(f"  {k:<{width}}  {v:>8}" for k, v in by_count),
        *_remedies(s["outcomes"]),
        *map(alert_text, s["alerts"]),
        f"known URLs: {s['known_urls']} ({states}); due now: {s['due_now']}{later}",
    ]
