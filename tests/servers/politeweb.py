"""A web of many hosts with mixed delays, robots, redirects and Retry-After; served by a process of
its own, which logs what came.

`python -m tests.servers.politeweb HOSTS PAGES LOG DELAY_S` prints its port. The plan is a function
of its sizes alone, so the judge knows it too.
"""

from __future__ import annotations

import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from crawlkit.local.web_server import Exchange, Reply, Request, WebServer

HTML = [("Content-Type", "text/html")]
TOLERANCE_S = 0.001


@dataclass(slots=True)
class Host:
    """`pages` planned requests, robots.txt not counted; every seventh page is forbidden, every
    fifth redirects.
    """

    name: str
    domain: str
    address: str
    pages: int
    answer_s: float
    crawl_delay_s: float | None
    refusals: int  # pages answered by 503 or 429 with Retry-After: 1, by the number of the request
    seen: int = 0

    def urls(self) -> list[str]:
        return [
            f"http://{self.name}{'/private' if n % 7 == 3 else '/hop' if n % 5 == 2 else ''}/{n}"
            for n in range(self.pages)
        ]


def plan_web(hosts: int, pages: int, delay_s: float) -> list[Host]:
    chance = random.Random(hosts * 1_000_003 + pages)
    found: list[Host] = []
    for n in range(hosts):
        domain = f"d{n // 3 if n % 4 else n}.test"  # some domains have several hosts
        address = (
            found[-1].address
            if n % 10 == 9
            else f"127.{20 + n // 200}.{n // 100 % 2 + 1}.{n % 100 + 2}"
        )  # some addresses too
        slow = n % 20 == 7
        busy = n % 25 == 11
        share = 0.45 if slow else 0.5 if busy else 1.0
        found.append(
            Host(
                f"h{n}.{domain}",
                domain,
                address,
                int(pages * share),
                chance.choice([0.0, 0.0, 0.002, 0.01]),
                2 * delay_s if slow else None,
                2 if busy else 0,
            )
        )
    return found


def answer(hosts: dict[str, Host], request: Request) -> Reply:
    host = hosts[request.host]
    if request.target == "/robots.txt":
        delay = f"Crawl-delay: {host.crawl_delay_s}\n" if host.crawl_delay_s else ""
        return Reply(
            200,
            [("Content-Type", "text/plain")],
            f"User-agent: *\nDisallow: /private\n{delay}".encode(),
        )
    host.seen += 1
    if host.refusals and host.seen in (3, 8)[: host.refusals]:
        return Reply(503 if host.seen == 3 else 429, [*HTML, ("Retry-After", "1")], b"not now")
    if request.target.startswith("/hop"):
        return Reply(
            302, [("Location", request.target.removeprefix("/hop"))], b"", delay_s=host.answer_s
        )
    return Reply(200, HTML, b"<p>" + request.target.encode() * 40, delay_s=host.answer_s)


@dataclass
class Verdict:
    """What the log shows.

    `longest_s`: the longest queue, delays in force and answer times summed.
    """

    requests: int = 0
    violations: list[str] = field(default_factory=list)
    span_s: float = 0.0
    longest_s: float = 0.0

    @property
    def share_of_maximum(self) -> float:
        return self.longest_s / self.span_s if self.span_s else 1.0


def judge(
    lines: Iterable[dict], hosts: list[Host], delay_s: float, domain_s: float, address_s: float
) -> Verdict:
    """Every gap of hosts, domains and addresses, one request at a time, nothing forbidden,
    Retry-After waited for.
    """
    by_name = {h.name: h for h in hosts}
    log = sorted(lines, key=lambda e: e["start"])
    verdict = Verdict(len(log))
    queues: dict[tuple[str, str], list[dict]] = defaultdict(list)
    for e in log:
        host = by_name[e["host"]]
        for key in (("host", host.name), ("domain", host.domain), ("address", e["address"])):
            queues[key].append(e)
        if e["target"].startswith("/private"):
            verdict.violations.append(f"disallowed: {e}")
        if e["address"] != host.address:
            verdict.violations.append(f"address: {e}")
    for (kind, name), entries in queues.items():
        robots_read, total = False, 0.0
        for before, e in zip(entries, entries[1:]):
            robots_read |= before["target"] == "/robots.txt"
            least = {"domain": domain_s, "address": address_s}.get(kind) or max(
                delay_s, (by_name[name].crawl_delay_s or 0.0) if robots_read else 0.0
            )
            if kind == "host" and before["retry_after"]:
                least = max(least, 1.0)
            if e["start"] - before["end"] < least - TOLERANCE_S:
                verdict.violations.append(
                    f"{kind} {name}: {e['start'] - before['end']:.4f} s of {least} s before"
                    f" {e['target']}"
                )
            total += least + e["end"] - e["start"]
        verdict.longest_s = max(verdict.longest_s, total)
    if log:
        verdict.span_s = max(e["end"] for e in log) - log[0]["start"]
    return verdict


def read_log(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


if __name__ == "__main__":
    planned = {h.name: h for h in plan_web(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[4]))}
    with open(sys.argv[3], "w", buffering=1 << 16, encoding="utf-8") as out:

        def log(x: Exchange) -> None:
            row = {
                "host": x.request.host,
                "address": x.request.address,
                "target": x.request.target,
                "start": x.start,
                "end": x.end,
                "retry_after": x.reply.status in (429, 503),
            }
            out.write(json.dumps(row) + "\n")

        with WebServer(
            {h.address for h in planned.values()}, lambda r: answer(planned, r), 0, log
        ) as server:
            print(server.port, flush=True)
            sys.stdin.read()  # until the input is closed
