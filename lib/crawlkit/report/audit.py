"""audit: proof from the tables alone that rounds were polite."""

from __future__ import annotations

import json
from typing import Any

from crawlkit.config import Robots
from crawlkit.crawl.open_crawl import OpenCrawl
from crawlkit.crawl.state import audited_rules
from crawlkit.model import Round
from crawlkit.outcomes import Reason
from crawlkit.rules.politeness.pacing_audit import Sent, closest, violations
from crawlkit.rules.robots.fetching import KeptCopy, RobotsVerdict, verdict_of
from crawlkit.rules.url.canonical import origin_of
from crawlkit.rules.url.domains import registered_domain

_COLUMNS = (
    "url",
    "host",
    "kind",
    "slot",
    "round_id",
    "ip",
    "started",
    "ended",
    "delay_ms",
    "reason",
)


def audit(job: OpenCrawl, round_id: str | None = None) -> dict[str, Any]:
    """Violations over the requests of one round or of all.

    Raises CrawlError if there is no such round.

    Each request is judged by the settings that its round was opened with, or if the round does not
    tell, by those of today. A request is disallowed if the copy of robots.txt in force when it was
    sent (the newest fetched before it) forbids it, or if there was none that could be read; of what
    was purged only the pace is left to be looked at. What was imported is no request of ours. The
    rows are brought to the driver: some 10^7 requests at most.
    """
    part = {"round_id": [job.crawl.round(round_id).id]} if round_id else None
    rows = [r for r in job.tables.rows("captures", _COLUMNS, part) if r["started"] is not None]
    rounds = _rounds(job, {row["round_id"] for row in rows})
    rows = [r for r in rows if not (known := rounds.get(r["round_id"])) or not known.imported]
    today = audited_rules(job.cfg)
    rules = {
        r["round_id"]: (rounds[r["round_id"]].rules if r["round_id"] in rounds else None) or today
        for r in rows
    }
    kept = job.tables.rows("robots", ["origin", "fetched_at", "status", "body"])
    copies, parallel = _Copies(kept, job.cfg.robots), _parallel(job)
    log = [_make_sent(r, rules[r["round_id"]], copies, parallel) for r in rows]
    found = violations(log)
    kinds, least = ("disallowed", "host", "domain", "address"), closest(log)
    return {
        "requests": len(log),
        "violations": len(found),
        **{k: sum(v.kind == k for v in found) for k in kinds},
        "closest": None if least is None else least._asdict(),
        "examples": [v._asdict() for v in found[:20]],
    }


def _rounds(job: OpenCrawl, names: set[str]) -> dict[str, Round]:
    """The rounds of these names that the crawl still knows."""
    return {name: job.crawl.round(name) for name in names.intersection(job.crawl.round_ids())}


def _parallel(job: OpenCrawl) -> dict[str, int]:
    """The most requests at once that an operator has ever allowed a host."""
    most: dict[str, int] = {}
    for c in job.tables.rows("commands", ["target", "arguments"], {"verb": ["host_set"]}):
        allowed = json.loads(c["arguments"])["parallel"]
        most[c["target"]] = max(most.get(c["target"], 1), allowed)
    return most


def _make_sent(
    r: dict[str, Any], rule: dict[str, Any], copies: _Copies, parallel: dict[str, int]
) -> Sent:
    """A request as the pacing audit takes it. r: a row of `captures`."""
    is_exempt = r["kind"] == "robots" or r["url"].endswith("/robots.txt")
    is_allowed = (
        is_exempt or r["reason"] == Reason.PURGED or copies.allow(r["url"], r["started"], rule)
    )
    return Sent(
        r["host"],
        r["started"],
        r["ended"],
        (r["delay_ms"] or 0) / 1000,
        registered_domain(r["host"]),
        f"{r['round_id']} {r['slot']} {r['ip']}" if r["ip"] else None,
        is_allowed,
        parallel.get(r["host"], 1),
        r["url"],
        (rule["domain_delay_s"], rule["ip_delay_s"]),
    )


class _Copies:
    """The copies of robots.txt of a crawl, by origin and time."""

    def __init__(self, rows: list[dict[str, Any]], today: Robots) -> None:
        self._today = today
        self._copies: dict[str, list[KeptCopy]] = {}
        for row in sorted(rows, key=lambda row: row["fetched_at"]):
            copy = KeptCopy(row["origin"], row["status"], row["body"], row["fetched_at"])
            self._copies.setdefault(copy.origin, []).append(copy)
        self._verdicts: dict[tuple[str, float, int, str], RobotsVerdict] = {}

    def allow(self, url: str, at: float, rule: dict[str, Any]) -> bool:
        """Whether the newest copy that could be read, of those fetched until `at`, lets a URL be
        fetched: where a later attempt failed, an older copy may still have been in force.
        """
        for copy in reversed(self._copies.get(origin_of(url), [])):
            if copy.fetched_at <= at:
                match = self._verdict(copy, rule).match(rule["agent"], url)
                if match is not None:
                    return match.allowed
        return False

    def _verdict(self, copy: KeptCopy, rule: dict[str, Any]) -> RobotsVerdict:
        max_bytes = rule["robots_max_bytes"]
        on_429 = rule.get("robots_on_429", self._today.on_429)  # rounds of before did not keep it
        key = copy.origin, copy.fetched_at, max_bytes, on_429
        if key not in self._verdicts:
            config = self._today.model_copy(update={"max_bytes": max_bytes, "on_429": on_429})
            self._verdicts[key] = verdict_of(copy, config)
        return self._verdicts[key]
