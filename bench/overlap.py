"""Polite crawls with and without rounds at the same time (`round.overlap`), judged by the server's
own log: `python -m bench overlap`, six minutes. Not part of `make bench`.

`python -m bench.overlap WEB on|off` crawls one web once: also `three` and `large`, which take long.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from crawlkit.local.web_server import Exchange, Reply, Request, WebServer

from bench.measure import ROOT, write

HTML = [("Content-Type", "text/html")]
FAN = 12  # links from a page down the tree of its host
TOLERANCE_S = 0.001
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "lib")}
WORDS = [
    f"{a}{b}{c}" for a in ("ba", "co", "di", "fu") for b in ("la", "me", "ni") for c in "rstvz"
]


@dataclass(frozen=True)
class Web:
    """pages: of each host. words: of a page."""

    pages: tuple[int, ...]
    delay_s: float
    words: int

    @property
    def longest_s(self) -> float:
        """The longest queue: robots.txt, sitemap guess and pages, each with its gap."""
        return (max(self.pages) + 1) * self.delay_s


WEBS = {
    "three": Web((300,) * 3, 1.0, 300),
    "equal": Web((60,) * 40, 0.5, 2000),
    "uneven": Web((200, *(60,) * 99), 0.5, 2000),
    "large": Web((240, *(80,) * 187), 0.5, 2000),
}


IN_TURN = ("equal", "uneven")


def host(n: int) -> str:
    return f"h{n}.d{n}.test"


def answer(web: Web, request: Request) -> Reply:
    n = int(request.host[1:].partition(".")[0])
    if request.target == "/robots.txt":
        return Reply(200, [("Content-Type", "text/plain")], b"User-agent: *\nDisallow: /private\n")
    name = request.target.strip("/") or "0"
    if not name.isdigit() or int(name) >= web.pages[n]:
        return Reply(404, HTML, b"none")
    page = int(name)
    chance = random.Random(n * 100_003 + page)
    below = [k for k in range(page * FAN + 1, page * FAN + FAN + 1) if k < web.pages[n]]
    links = [f'<a href="/{k}">{k}</a>' for k in below] + ['<a href="/private/1">no</a>']
    links.append(f'<a href="http://{host((n + 1) % len(web.pages))}/">next</a>')
    text = "</p><p>".join(" ".join(chance.choices(WORDS, k=50)) for _ in range(web.words // 50))
    body = f"<title>{n} {page}</title>{' '.join(links)}<p>{text}</p>"
    return Reply(200, HTML, body.encode())


def violations(web: Web, log: list[Exchange]) -> dict[str, int]:
    """Forbidden pages that were asked for, and gaps of a host that are too short."""
    found = {"disallowed": 0, "too short": 0}
    by_host: dict[str, list[Exchange]] = defaultdict(list)
    for e in sorted(log, key=lambda e: e.start):
        by_host[e.request.host].append(e)
        found["disallowed"] += e.request.target.startswith("/private")
    for entries in by_host.values():
        for before, e in zip(entries, entries[1:], strict=False):
            found["too short"] += e.start - before.end < web.delay_s - TOLERANCE_S
    return found


def tree_bytes(root: int) -> int:
    """Resident memory of a process and all below it, shared pages counted once (PSS)."""
    children: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        children[parent].append(int(stat.parent.name))
    total, todo = 0, [root]
    while todo:
        pid = todo.pop()
        todo += children.get(pid, [])
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next((int(x.split()[1]) for x in rollup.splitlines() if x.startswith("Pss:")), 0)
    return total * 1024


def crawl(name: str, overlap: bool, folder: Path) -> dict[str, Any]:
    """One crawl of a web to its end; what it took and what the server saw."""
    web, log = WEBS[name], []
    addresses = {host(n): f"127.91.{n // 200}.{n % 200 + 1}" for n in range(len(web.pages))}
    with WebServer(addresses.values(), lambda r: answer(web, r), 0, log.append) as server:
        port = server.port
        config = {
            "fetch": {
                "connect_to": {h: f"{a}:{port}" for h, a in addresses.items()},
                "allow_private": ["127.0.0.0/8"],
            },
            "politeness": {"delay_s": web.delay_s, "domain_delay_s": 0, "ip_delay_s": 0},
            "frontier": {"guess_sitemap": False},
            "round": {"overlap": overlap},
        }
        (folder / "crawl.yaml").write_text(yaml.safe_dump(config))
        (folder / "seeds.txt").write_text("\n".join(f"http://{h}/" for h in addresses))
        words = (
            "crawl",
            "--seeds",
            folder / "seeds.txt",
            "--data",
            folder / "crawl",
            "--rounds",
            20,
        )
        argv = [
            sys.executable,
            "-m",
            "crawlkit",
            *words,
            "--config",
            folder / "crawl.yaml",
            "--json",
        ]
        began, peak = time.monotonic(), 0
        with (folder / "events").open("w") as err, (folder / "said").open("w") as out:
            process = subprocess.Popen([*map(str, argv)], stdout=out, stderr=err, env=ENVIRONMENT)
            while process.poll() is None:
                peak = max(peak, tree_bytes(process.pid))
                time.sleep(0.5)
        wall_s = time.monotonic() - began
    if process.returncode:
        sys.exit((folder / "events").read_text()[-2000:])
    said = json.loads((folder / "said").read_text().splitlines()[-1])
    return {
        "wall_s": round(wall_s, 1),
        "longest_s": web.longest_s,
        "pages": said["outcomes"].get("fetched", 0),
        "rounds": len(said["rounds"]),
        "peak_mb": round(peak / 1e6),
        **violations(web, log),
    }


def report(results: dict[str, dict[str, dict[str, Any]]]) -> None:
    columns = ("wall_s", "longest_s", "pages", "rounds", "peak_mb", "disallowed", "too short")
    lines = [f"| web | overlap | {' | '.join(columns)} |", "|---|---|" + "---|" * len(columns)]
    for name, ways in results.items():
        for way, r in ways.items():
            lines.append(f"| {name} | {way} | {' | '.join(f'{r[c]:g}' for c in columns)} |")
    webs = "; ".join(
        f"{name}: {len(w.pages)} hosts, {sum(w.pages):,} pages, gap {w.delay_s:g} s"
        for name, w in WEBS.items()
        if name in results
    )
    note = (
        "Hosts of equal queues have one round at a time: both lines of `equal` are the same crawl,"
        " and differ by what else the machine had to do."
    )
    table = f"# Rounds at the same time\n\n{webs}. {note}\n\n" + "\n".join(lines) + "\n"
    write("overlap", results, table, ("duckdb",))


def once(name: str, way: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return crawl(name, way == "on", Path(folder))


def main() -> None:
    report({name: {way: once(name, way) for way in ("off", "on")} for name in IN_TURN})


if __name__ == "__main__":
    print(sys.argv[1:], once(*sys.argv[1:]))
