"""audit judges requests by the settings of their round, not by those of the command that asks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from crawlkit.config import parse_config
from crawlkit.crawl.state import Crawl
from crawlkit.report.audit import audit

ROBOTS = b"User-agent: mybot\nDisallow: /\n\nUser-agent: *\nAllow: /\n"


def asked(round_id: str, host: str, started: float) -> dict[str, Any]:
    return {
        "round_id": round_id,
        "url": f"http://{host}/",
        "host": host,
        "kind": "page",
        "slot": 0,
        "ip": "192.0.2.1",
        "started": started,
        "ended": started + 0.01,
        "delay_ms": 1000,
        "reason": None,
    }


def audited(
    tmp_path, opened_with: str, asked_with: str, forget: bool = False, status: int | None = 200
) -> dict[str, Any]:
    crawl = Crawl(tmp_path / "d", parse_config(opened_with))
    round_ = crawl.open_round(0.0)
    if forget:
        round_.rules = None
        crawl.put_round(round_)
    hosts = ("a.site.example", "b.site.example")
    rows = {
        "captures": [asked(round_.id, host, 100.0 + i * 0.1) for i, host in enumerate(hosts)],
        "commands": [],
        "robots": [
            {"origin": f"http://{host}", "fetched_at": 50.0, "status": status, "body": ROBOTS}
            for host in hosts
        ],
    }
    cfg = parse_config(asked_with)
    return audit(
        SimpleNamespace(
            crawl=Crawl(tmp_path / "d", cfg),
            cfg=cfg,
            tables=SimpleNamespace(rows=lambda name, columns, part=None: rows[name]),
        )
    )


QUICK = "politeness: {domain_delay_s: 0.05, ip_delay_s: 0.05}\n"


@pytest.mark.parametrize(
    ("opened_with", "asked_with", "forget", "expected"),
    [
        (QUICK, "", False, {"violations": 0}),
        ("", QUICK, False, {"domain": 1, "address": 1, "disallowed": 0}),
        (QUICK, "", True, {"domain": 1, "address": 1}),  # a round that does not tell
        (QUICK + "agent: {name: mybot}\n", QUICK, False, {"disallowed": 2}),
        (QUICK, QUICK + "agent: {name: mybot}\n", False, {"disallowed": 0}),
    ],
)
def test_the_settings_of_the_round_count(tmp_path, opened_with, asked_with, forget, expected):
    said = audited(tmp_path, opened_with, asked_with, forget)
    assert {k: said[k] for k in expected} == expected, said


ALLOW = QUICK + "robots: {on_429: allow}\n"


@pytest.mark.parametrize(
    ("opened_with", "asked_with", "status", "disallowed"),
    [
        (ALLOW, QUICK, 429, 0),  # what the rule of the fetch says (rules/robots/fetching.py)
        (QUICK, ALLOW, 429, 2),
        (QUICK, QUICK, 404, 0),
        (QUICK, QUICK, 503, 2),
        (ALLOW, ALLOW, None, 2),
    ],
)
def test_what_could_be_read_is_what_the_fetch_could_read(
    tmp_path, opened_with, asked_with, status, disallowed
):
    said = audited(tmp_path, opened_with, asked_with, status=status)
    assert said["disallowed"] == disallowed
