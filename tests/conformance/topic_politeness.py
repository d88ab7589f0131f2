"""Probes of topic politeness: the delay in force after some answers, and what the audit counts."""

from __future__ import annotations

import pathlib
from urllib.parse import urlsplit

from crawlkit.config import Config, Politeness
from crawlkit.rules.politeness.host_state import Event, HostState, after_answer, effective_delay_s
from crawlkit.rules.politeness.pacing_audit import Sent, violations
from crawlkit.rules.robots.parser import parse


def answer(given: dict, case_dir: pathlib.Path) -> dict:
    if "fetch_log" in given:
        return {"violations": len(violations([_sent(row, given) for row in given["fetch_log"]]))}
    cfg = Config(politeness=_politeness(given))
    state = HostState("site.example", operator_delay_s=given.get("operator_delay_s"))
    if given.get("crawl_delay") is not None:
        robots = parse(f"User-agent: *\nCrawl-delay: {given['crawl_delay']}\n".encode())
        state.robots_delay_s = robots.crawl_delay_s(cfg.agent.name)
    now = 1_700_000_000.0
    for a in given.get("answers") or ():
        event = Event(
            now,
            now + a.get("seconds", 0.0),
            a.get("status"),
            _header(a, "retry-after"),
            _header(a, "date"),
        )
        state = after_answer(state, event, cfg)
        now = event.ended + 3600.0
    delay = effective_delay_s(state, cfg.politeness)
    return {"delay_s": round(delay.seconds, 6), "row_says_why": "ceiling" in delay.why}


def _politeness(given: dict) -> Politeness:
    settings = {
        "delay_s": given.get("own_delay_s"),
        "crawl_delay_ceiling_s": given.get("ceiling_s"),
    }
    return Politeness(**{k: v for k, v in settings.items() if v is not None})


def _sent(row: dict, given: dict) -> Sent:
    host = row.get("host") or urlsplit(row["url"]).hostname
    delay_s = (
        row.get("delay_s") if row.get("delay_s") is not None else given.get("default_delay_s", 1.0)
    )
    allowed = row.get("allowed", True) is not False
    return Sent(host, row["start"], row["end"], delay_s, allowed=allowed, url=row.get("url", ""))


def _header(row: dict, name: str) -> str | None:
    return next((v for k, v in row.get("headers") or () if k.lower() == name), None)
