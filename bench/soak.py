"""A long run of the fetch slot in one process, round after round as in a reused Spark worker,
against nginx on loopback.

`python -m bench.soak [REQUESTS [MINUTES]]` (500,000 and 25 by default; the longer counts). Not part
of `make bench`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

from crawlkit.config import Config
from crawlkit.slot.run import run_slot

from bench.measure import write
from bench.nginx import nginx
from tests.slot.slotweb import plan, slot_io

HOSTS, PAGES = 200, 60  # of a round
WINDOW_S = 20 * 60


def sample(requests: int, started: float) -> dict[str, Any]:
    rss = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    return {
        "t": time.monotonic() - started,
        "requests": requests,
        "rss_bytes": rss,
        "files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
    }


def main(requests: int = 500_000, minutes: float = 25.0) -> None:
    page = b"<html><body>" + b"<p>A page of the soak.</p>" * 150 + b"</body></html>"
    samples: list[dict[str, Any]] = []
    with (
        nginx({"page.html": page, "other.html": page[:2000]}) as server,
        tempfile.TemporaryDirectory() as name,
    ):
        cfg = Config.model_validate(
            {
                "fetch": {
                    "connect_to": {"*.test": f"127.0.0.1:{server.http}"},
                    "allow_private": ["127.0.0.0/8"],
                    "timeout_s": 10.0,
                },
                "politeness": {
                    "delay_s": 0.25,
                    "domain_delay_s": 0.0,
                    "ip_delay_s": 0.0,
                    "host_day_quota": 10**9,
                    "host_cycle_quota": 10**9,
                },
                "warc": {"roll_bytes": 8 << 20},
                "breaker": {"slow_error_share": 1.0},
            }
        )
        sent, started, n = 0, time.monotonic(), 0
        while sent < requests or time.monotonic() - started < minutes * 60:
            folder = Path(name) / str(n)
            urls = [
                f"http://h{h}.test/{('page.html', 'other.html', 'missing.html')[i % 3]}?{n}-{i}"
                for i in range(PAGES)
                for h in range(HOSTS)
            ]
            sent += run_slot(plan(urls), cfg, slot_io(folder), seed=n)["requests"]
            for file in sorted(folder.rglob("*"), reverse=True):
                file.unlink() if file.is_file() else file.rmdir()
            samples.append(sample(sent, started))
            print(json.dumps(samples[-1]), flush=True)
            n += 1
    report(samples)


def report(samples: list[dict[str, Any]]) -> None:
    """Growth is between the medians of the window's first and last five rounds: memory goes up and
    down within a round.
    """
    window = [s for s in samples if s["t"] >= samples[-1]["t"] - WINDOW_S]
    rss = [s["rss_bytes"] / 2**20 for s in window]
    files, threads = ([window[0][key], window[-1][key]] for key in ("files", "threads"))
    growth, sent, seconds, span = (
        median(rss[-5:]) - median(rss[:5]),
        samples[-1]["requests"],
        samples[-1]["t"],
        window[-1]["t"] - window[0]["t"],
    )
    memory = (
        f"{growth:+.1f} MiB (medians of five rounds); least {min(rss):.0f}, most {max(rss):.0f} MiB"
    )
    table = f"""# Soak of the fetch slot

| what | measured | mark |
|---|---|---|
| requests | {sent:,} in {seconds / 60:.1f} minutes | at least 500,000 |
| memory over the last {span / 60:.1f} minutes | {memory} | at most +8 MiB |
| open files, first and last of the window | {files[0]}, {files[1]} | equal |
| threads between rounds, first and last | {threads[0]}, {threads[1]} | equal |
"""
    write(
        "soak",
        {
            "requests": sent,
            "seconds": seconds,
            "window_s": span,
            "rss_growth_mib": growth,
            "rss_mib": [min(rss), max(rss)],
            "files": files,
            "threads": threads,
            "samples": samples,
        },
        table,
        ("isal",),
    )


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:3]))
