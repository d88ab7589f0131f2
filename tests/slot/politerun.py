"""Two slots, each a process of its own, crawl the web of politeweb.py; its log is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.servers.politeweb import Host, Verdict, judge, plan_web, read_log


def polite_run(
    folder: Path, hosts: int, pages: int, delay_s: float, slots: int = 2
) -> tuple[Verdict, list[Counter[str]]]:
    """The verdict and the counts of each slot.

    Hosts of one domain or one address are in one slot.
    """
    web, domain_s, address_s = plan_web(hosts, pages, delay_s), delay_s / 4, delay_s / 4
    log = folder / "server.log"
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.servers.politeweb",
            str(hosts),
            str(pages),
            str(log),
            str(delay_s),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        port = int(server.stdout.readline())
        config = {
            "fetch": {
                "connect_to": {h.name: f"{h.address}:{port}" for h in web},
                "allow_private": ["127.0.0.0/8"],
                "timeout_s": 5.0,
                "connect_timeout_s": 5.0,
            },
            "politeness": {"delay_s": delay_s, "domain_delay_s": domain_s, "ip_delay_s": address_s},
            "lease": {"ttl_s": 30.0, "renew_s": 5.0, "margin_s": 2.0},
            "round": {"minutes": 20.0},
            "breaker": {"slow_error_share": 1.0, "server_errors": 100},
        }
        children = [
            _start(folder / str(n), config, [u for h in part for u in h.urls()])
            for n, part in enumerate(_parts(web, slots))
            if part
        ]
        counts = [
            Counter(json.loads(child.communicate(timeout=1200)[0].splitlines()[-1]))
            for child in children
        ]
        server.stdin.close()
        server.wait(30)
    return judge(read_log(log), web, delay_s, domain_s, address_s), counts


def _start(folder: Path, config: dict[str, Any], urls: list[str]) -> subprocess.Popen[bytes]:
    folder.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.slot.slot_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    child.stdin.write(json.dumps({"urls": urls, "config": config, "folder": str(folder)}).encode())
    child.stdin.close()
    child.stdin = None
    return child


def _parts(web: list[Host], slots: int) -> list[list[Host]]:
    """Hosts that share a domain or an address together, as the planner does."""
    group = {h.name: h.name for h in web}

    def root(name: str) -> str:
        while group[name] != name:
            name = group[name]
        return name

    first: dict[str, str] = {}
    for h in web:
        for key in (h.domain, h.address):
            group[root(h.name)] = root(first.setdefault(key, h.name))
    parts: list[list[Host]] = [[] for _ in range(slots)]
    for n, name in enumerate(dict.fromkeys(root(h.name) for h in web)):
        parts[n % slots] += [h for h in web if root(h.name) == name]
    return parts
