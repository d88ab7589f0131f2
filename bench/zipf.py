"""One round of 20,000 URLs whose hosts are of Zipf sizes, with a delay, beside the polite minimum:
`python -m bench zipf`, six minutes. Not part of `make bench`.

No crawler that keeps the delays can be quicker than its longest queue: the largest host's URLs,
each with its delay and answer time.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml
from crawlkit.local.web_server import Exchange, Reply, Request, WebServer

from bench.measure import ROOT, write
from bench.process import watch
from bench.rounds import phase

URLS, HOSTS, EXPONENT, DELAY_S, ANSWER_S = 20_000, 1_000, 0.8, 0.2, 0.01
MARK = 1.2


def sizes() -> list[int]:
    """URLs of each host: in proportion to rank ** -EXPONENT, one at least, URLS in all."""
    weights = [(n + 1) ** -EXPONENT for n in range(HOSTS)]
    out = [max(1, round(URLS * w / sum(weights))) for w in weights]
    out[0] += URLS - sum(out)
    return out


def answer(request: Request) -> Reply:
    if request.target == "/robots.txt":
        return Reply(404, delay_s=ANSWER_S)
    return Reply(
        200,
        [("Content-Type", "text/html")],
        f"<title>{request.target}</title><p>{request.host} {request.target}".encode() * 20,
        delay_s=ANSWER_S,
    )


def run(folder: Path) -> dict[str, Any]:
    hosts = {
        f"h{n}.z{n}.example": (f"127.30.{n // 250}.{n % 250 + 1}", size)
        for n, size in enumerate(sizes())
    }
    log: list[tuple[str, float, float]] = []
    lock = threading.Lock()

    def note(e: Exchange) -> None:
        with lock:
            log.append((e.request.host, e.start, e.end))

    with WebServer([a for a, _ in hosts.values()], answer, on_exchange=note) as web:
        (folder / "seeds.txt").write_text(
            "\n".join(f"http://{h}/{n}" for h, (_, size) in hosts.items() for n in range(size))
        )
        (folder / "crawl.yaml").write_text(
            yaml.safe_dump(
                {
                    "fetch": {
                        "connect_to": {h: f"{a}:{web.port}" for h, (a, _) in hosts.items()},
                        "allow_private": ["127.0.0.0/8"],
                        "ports": [80, web.port],
                        "in_flight": 500,
                    },
                    "politeness": {
                        "delay_s": DELAY_S,
                        "domain_delay_s": DELAY_S,
                        "ip_delay_s": DELAY_S,
                    },
                    "round": {"max_urls": 2 * URLS, "urls_per_host": URLS, "minutes": 30},
                    "frontier": {"explore": 0.0, "guess_sitemap": False},
                }
            )
        )
        argv = [
            sys.executable,
            "-m",
            "crawlkit",
            "crawl",
            "--seeds",
            str(folder / "seeds.txt"),
            "--data",
            str(folder / "crawl"),
            "--config",
            str(folder / "crawl.yaml"),
            "--rounds",
            "1",
            "--json",
        ]
        here = watch(argv, phase, os.environ | {"PYTHONPATH": f"{ROOT / 'lib'}:{ROOT}"})
    return figures(log, here.cpu.get("fetch", {}), here.wall.get("fetch", 0.0))


def figures(
    log: list[tuple[str, float, float]], cpu: dict[str, float], stage_s: float
) -> dict[str, Any]:
    queues: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for host, start, end in log:
        queues[host].append((start, end))
    short = sum(
        b[0] - a[1] < DELAY_S - 1e-4
        for q in queues.values()
        for a, b in zip(sorted(q), sorted(q)[1:], strict=False)
    )
    longest = max(
        sum(end - start for start, end in q) + DELAY_S * (len(q) - 1) for q in queues.values()
    )
    bound = sum(cpu.values()) / (os.cpu_count() or 1)
    return {
        "requests": len(log),
        "hosts": len(queues),
        "largest": max(map(len, queues.values())),
        "gaps_too_short": short,
        "longest_s": longest,
        "cpu_s": sum(cpu.values()),
        "cpu_bound_s": bound,
        "span_s": max(e for _, _, e in log) - min(s for _, s, _ in log),
        "stage_s": stage_s,
        "ratio": stage_s / max(longest, bound),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        r = run(Path(name))
    table = f"""# A polite round of Zipf hosts

{r["requests"]:,} requests to {r["hosts"]:,} hosts (sizes as rank to the power of
-{EXPONENT:g}; the largest {r["largest"]:,}), {DELAY_S:g} s between two requests to a host,
answers after {ANSWER_S:g} s. The fetch stage of one round of `crawlkit crawl`, from its start to
its end, beside the larger of two bounds.

| what | measured | mark |
|---|---|---|
| fetch stage / the larger bound | {r["ratio"]:.2f} | at most {MARK:g} |
| gaps too short by the server's log | {r["gaps_too_short"]} | 0 |
| fetch stage, s; first to last request, s | {r["stage_s"]:.0f}; {r["span_s"]:.0f} | |
| bound: longest queue, its delays and answer times, s | {r["longest_s"]:.0f} | |
| bound: CPU time of the stage over the cores, s | {r["cpu_bound_s"]:.0f} | |
"""
    write("zipf", r, table, ("pyspark",))
    sys.exit(0 if r["ratio"] <= MARK and not r["gaps_too_short"] else 1)
