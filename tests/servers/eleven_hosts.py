"""Eleven hosts as an operator meets them: six that answer, two of them with broken links, one with
a Crawl-delay of a second, one that is down, one that robots.txt closes, one with a certificate of
its own, one that has no end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from crawlkit.local.web_server import Exchange, Reply, Request, WebServer

from tests.servers.tls_server import tls_server

HTML = [("Content-Type", "text/html")]
PLAIN = [f"plain{n}.test" for n in range(4)]
BROKEN = ["broken0.test", "broken1.test"]
SLOW, DOWN, DENY, SELF, TRAP = "slow.test", "down.test", "deny.test", "self.test", "trap.test"
HOSTS = [*PLAIN, *BROKEN, SLOW, DOWN, DENY, SELF, TRAP]
CRAWL_DELAY_S, ANSWER_BYTES = 1.0, 400


@dataclass
class ElevenHosts:
    """pages: linked by the home page of each host that answers. slow_pages: of the slow one."""

    pages: int
    slow_pages: int
    seen: list[tuple[float, Exchange]] = field(default_factory=list)  # when answered, Unix s
    port: int = 0
    tls_port: int = 0

    @property
    def seeds(self) -> list[str]:
        """A home page of each host."""
        return [f"{'https' if host == SELF else 'http'}://{host}/" for host in HOSTS]

    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings of a crawl of them."""
        to = {host: f"127.81.0.{n}:{self.port}" for n, host in enumerate(HOSTS, 2)}
        to |= {DOWN: "127.81.1.1:9", SELF: f"127.0.0.1:{self.tls_port}"}
        return {
            "agent": {"name": "crawlkit-test"},
            "fetch": {"connect_to": to, "allow_private": ["127.0.0.0/8"]},
            "politeness": {"delay_s": 0.02, "domain_delay_s": 0.0, "ip_delay_s": 0.0},
            "round": {"urls_per_host": max(self.pages, 50)},
            "frontier": {"guess_sitemap": False},
            "storage": {"min_free_bytes": 0},
        }

    def asked(
        self, host: str | None = None, until: float = float("inf"), since: float = 0.0
    ) -> list[Exchange]:
        """Requests that were answered from a time until another (Unix s), by their start."""
        of_time = [x for at, x in [*self.seen] if since < at <= until]
        return sorted((x for x in of_time if host in (None, x.request.host)), key=lambda x: x.start)

    def answer(self, request: Request) -> Reply:
        """What a host answers."""
        host, path = request.host, request.target
        if path == "/robots.txt":
            rules = {SLOW: f"Crawl-delay: {CRAWL_DELAY_S:g}", DENY: "Disallow: /"}
            text = f"User-agent: *\n{rules.get(host, 'Disallow:')}\n"
            return Reply(200, [("Content-Type", "text/plain")], text.encode())
        if host == TRAP:
            day = int(path.strip("/d") or 0)
            return _page(host, path, [f"/d{day * 3 + n}" for n in (1, 2, 3)])
        if host in BROKEN and path != "/":
            return Reply(404, HTML, b"<title>none</title>")
        pages = self.slow_pages if host == SLOW else self.pages
        return _page(host, path, [f"/{n}" for n in range(pages)] if path == "/" else ["/"])


def _page(host: str, path: str, links: list[str]) -> Reply:
    words = " ".join(f"{host}{path}w{n}" for n in range(9))  # no two pages are alike
    body = f"<!doctype html><title>{path}</title><p>{words}" + "".join(
        f"<a href={link}>{link}</a> " for link in links
    )
    return Reply(200, HTML, body.encode().ljust(ANSWER_BYTES))


@contextmanager
def eleven_hosts(pages: int, slow_pages: int) -> Iterator[ElevenHosts]:
    """The hosts, served on loopback."""
    web = ElevenHosts(pages, slow_pages)
    addresses = [f"127.81.0.{n}" for n in range(2, 2 + len(HOSTS))]
    server = WebServer(
        addresses, web.answer, on_exchange=lambda x: web.seen.append((time.time(), x))
    )
    with server, ExitStack() as stack:
        web.port, web.tls_port = server.port, stack.enter_context(tls_server("self_signed", SELF))
        yield web
