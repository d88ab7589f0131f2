"""A hundred thousand requests over 200 hosts, judged by the server's own log: `python -m bench
polite`, eight minutes. Not part of `make bench`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.measure import write
from tests.servers.politeweb import Verdict
from tests.slot.politerun import polite_run

HOSTS, PAGES, DELAY_S = 200, 640, 0.8


def report(verdict: Verdict) -> None:
    share = f"{verdict.longest_s:.0f} s / {verdict.span_s:.0f} s = {verdict.share_of_maximum:.3f}"
    table = f"""# Politeness at size

{HOSTS} hosts (some share an address or a registered domain), gap {DELAY_S:g} s a host,
{DELAY_S / 4:g} s a domain and an address, Crawl-delay, robots rules, redirects, 503 and 429 with
Retry-After; two slots, each a process. Judged from the server's log alone.

| what | measured | mark |
|---|---|---|
| requests | {verdict.requests:,} | at least 100,000 |
| gaps too short, two requests in flight, forbidden pages | {len(verdict.violations)} | 0 |
| longest queue (delays in force and answer times) / time taken | {share} | at least 0.90 |
"""
    write(
        "polite",
        {
            "requests": verdict.requests,
            "violations": len(verdict.violations),
            "longest_s": verdict.longest_s,
            "span_s": verdict.span_s,
            "share_of_maximum": verdict.share_of_maximum,
        },
        table,
        ("isal",),
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        report(polite_run(Path(folder), HOSTS, PAGES, DELAY_S)[0])
