"""audit: proof from the tables alone that rounds were polite (REQUIREMENTS D10)."""

from __future__ import annotations

import json
from typing import Any

from crawlkit.crawl.open_crawl import OpenCrawl
from crawlkit.crawl.state import audited_rules
from crawlkit.outcomes import Reason
from crawlkit.rules.politeness.pacing_audit import Sent, violations
from crawlkit.rules.robots import parser
from crawlkit.rules.url.canonical import origin_of
from crawlkit.rules.url.domains import registered_domain


def audit(job: OpenCrawl, round_id: str | None = None) -> dict[str, Any]:
    """Violations over the requests of one round or of all.

    Raises CrawlError if there is no such round.

    Each request is judged by the settings that its round was opened with, or if the round does not
    tell, by those of today. A request is disallowed if the copy of robots.txt in force when it was
    sent (the newest fetched before it) forbids it, or if there was none that could be read; of what
    was purged only the pace is left to be looked at. The rows are brought to the driver: some 10^7
    requests at most.
    """
    part = {"round_id": [job.crawl.round(round_id).id]} if round_id else None
    rows = [
        r
        for r in job.tables.rows(
            "captures",
            [
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
            ],
            part,
        )
        if r["started"] is not None
    ]
    copies: dict[str, list[dict[str, Any]]] = {}
    for c in sorted(
        job.tables.rows("robots", ["origin", "fetched_at", "status", "body"]),
        key=lambda c: c["fetched_at"],
    ):
        copies.setdefault(c["origin"], []).append(c)
    parallel: dict[str, int] = {}  # the most that an operator has ever allowed a host
    for c in job.tables.rows("commands", ["target", "arguments"], {"verb": ["host_set"]}):
        parallel[c["target"]] = max(
            parallel.get(c["target"], 1), json.loads(c["arguments"])["parallel"]
        )
    known_rounds, today, parsed = set(job.crawl.round_ids()), audited_rules(job.cfg), {}
    rules = {
        r: (job.crawl.round(r).rules if r in known_rounds else None) or today
        for r in {row["round_id"] for row in rows}
    }

    def allowed(url: str, at: float, agent: str, max_bytes: int) -> bool:
        origin = origin_of(url)
        known = [c for c in copies.get(origin, ()) if c["fetched_at"] <= at]
        if not known:
            return False
        copy = known[-1]
        if copy["status"] is None or copy["status"] >= 500 or copy["status"] == 429:
            # the newest attempt could not be read: an older readable copy may still be in force
            readable = [
                c
                for c in known
                if c["status"] is not None and c["status"] < 500 and c["status"] != 429
            ]
            if not readable:
                return False
            copy = readable[-1]
        if not 200 <= copy["status"] < 300:
            return True
        key = (origin, copy["fetched_at"], max_bytes)
        if key not in parsed:
            parsed[key] = parser.parse(copy["body"] or b"", max_bytes)
        return parsed[key].match(agent, url).allowed

    def sent(r: dict[str, Any]) -> Sent:
        rule = rules[r["round_id"]]
        fine = (
            r["kind"] == "robots"
            or r["reason"] == Reason.PURGED
            or r["url"].endswith("/robots.txt")
            or allowed(r["url"], r["started"], rule["agent"], rule["robots_max_bytes"])
        )
        return Sent(
            r["host"],
            r["started"],
            r["ended"],
            (r["delay_ms"] or 0) / 1000,
            registered_domain(r["host"]),
            f"{r['round_id']} {r['slot']} {r['ip']}" if r["ip"] else None,
            fine,
            parallel.get(r["host"], 1),
            r["url"],
            (rule["domain_delay_s"], rule["ip_delay_s"]),
        )

    log = [sent(r) for r in rows]
    found = violations(log)
    by_kind = {
        k: sum(v.kind == k for v in found) for k in ("disallowed", "host", "domain", "address")
    }
    return {
        "requests": len(log),
        "violations": len(found),
        **by_kind,
        "examples": [v._asdict() for v in found[:20]],
    }
