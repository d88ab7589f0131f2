"""A few hosts on loopback, a slot's fetch list for them, and what its parts say: for the tests of
the slot.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.adapters.store.open_store import open_objects
from crawlkit.adapters.store.parts import read_slot
from crawlkit.config import S3, Config
from crawlkit.local.web_server import Exchange, Reply, Request, WebServer
from crawlkit.model import Capture, FetchItem, RobotsCopy
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.rules.politeness.pacing_audit import Sent, violations
from crawlkit.rules.url.canonical import host_of, origin_of, url_key
from crawlkit.rules.url.domains import registered_domain
from crawlkit.slot.inputs import SlotIO

HTML = [("Content-Type", "text/html")]
Page = Reply | Callable[[Request], Reply]
_addresses = itertools.count(2)


def page(text: str, **kw: Any) -> Reply:
    return Reply(200, HTML, text.encode(), **kw)


def robots(text: str = "") -> Reply:
    return Reply(200, [("Content-Type", "text/plain")], text.encode())


class SlotWeb:
    """`sites`: host -> path -> reply. Hosts without robots.txt have none (404).

    A host's address is its own unless given.
    """

    def __init__(
        self, sites: dict[str, dict[str, Page]], addresses: dict[str, str] | None = None
    ) -> None:
        self.sites = sites
        self.address = {h: f"127.0.1.{next(_addresses) % 250 + 2}" for h in sites} | (
            addresses or {}
        )
        self.log: list[Exchange] = []
        self.server = WebServer(self.address.values(), self._answer, 0, self.log.append)

    def _answer(self, request: Request) -> Reply:
        found = self.sites.get(request.host, {}).get(
            request.target, Reply(404, HTML, b"no such page")
        )
        return found(request) if callable(found) else found

    def __enter__(self) -> SlotWeb:
        self.server.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.stop()

    def config(self, **sections: dict[str, Any]) -> Config:
        """Quick: gaps of 0.2 s (host) and 0.05 s (domain, address), and a lease that a busy machine
        can renew.
        """
        base = {
            "fetch": {
                "connect_to": {h: f"{a}:{self.server.port}" for h, a in self.address.items()},
                "allow_private": ["127.0.0.0/8"],
                "timeout_s": 2.0,
                "connect_timeout_s": 1.0,
            },
            "politeness": {"delay_s": 0.2, "domain_delay_s": 0.05, "ip_delay_s": 0.05},
            "lease": {"ttl_s": 20.0, "renew_s": 1.0, "margin_s": 0.5},
            "round": {"minutes": 0.5},
        }
        for name, values in sections.items():
            base[name] = base.get(name, {}) | values
        return Config.model_validate(base)

    def asked(self, host: str) -> list[str]:
        """Paths in the order in which they were asked for."""
        return [
            x.request.target
            for x in sorted(self.log, key=lambda x: x.start)
            if x.request.host == host
        ]

    def violations(
        self, delay_s: float = 0.2, domain_s: float = 0.05, ip_s: float = 0.05
    ) -> list[Any]:
        """By the server's own clock and log."""
        sent = [
            Sent(
                x.request.host,
                x.start,
                x.end,
                delay_s,
                registered_domain(x.request.host),
                x.request.address,
            )
            for x in self.log
        ]
        return violations(sent, domain_s, ip_s)


def plan(
    urls: list[str], states: dict[str, HostState] | None = None, **given: Any
) -> list[FetchItem]:
    """The rows of slot 0: one robots row for each origin, then the pages; `given` are further
    fields of the pages.
    """
    rank, items = itertools.count(), []
    for origin in dict.fromkeys(origin_of(u) for u in urls):
        url, host = origin + "/robots.txt", host_of(origin + "/")
        state = (states or {}).get(host)
        items.append(
            FetchItem(
                "r1",
                url_key(url),
                url,
                host,
                registered_domain(host),
                0,
                next(rank),
                "robots",
                host_state=state.to_json() if state else None,
            )
        )
    for url in urls:
        items.append(
            FetchItem(
                "r1",
                url_key(url),
                url,
                host_of(url),
                registered_domain(host_of(url)),
                0,
                next(rank),
                **given,
            )
        )
    return items


def slot_io(folder: Path, **kw: Any) -> SlotIO:
    return SlotIO(
        LocalObjects(folder / "state"), LocalObjects(folder / "warc"), folder / "spool", **kw
    )


def s3_io(place: str, s3: S3, folder: Path) -> SlotIO:
    """State and WARC files below s3://bucket/prefix."""
    return SlotIO(
        open_objects(f"{place}/state", s3), open_objects(f"{place}/warc", s3), folder / "spool"
    )


def kept(io: SlotIO, kind: type) -> list[Any]:
    return [
        r for part in read_slot(io.objects, "r1", 0) for r in part.records if isinstance(r, kind)
    ]


def outcomes(io: SlotIO) -> dict[str, Capture]:
    """URL -> its outcome; asserts that no row has two."""
    found: dict[tuple[str, str], Capture] = {}
    for c in kept(io, Capture):
        if c.is_outcome:
            assert (c.url_key, c.kind) not in found, f"two outcomes of {c.url}"
            found[c.url_key, c.kind] = c
    return {c.url: c for c in found.values()}


def told(io: SlotIO) -> dict[str, tuple[str, str | None]]:
    """URL -> (outcome, reason) of the pages."""
    return {u: (c.outcome, c.reason) for u, c in outcomes(io).items() if c.kind != "robots"}


def robots_copies(io: SlotIO) -> dict[str, RobotsCopy]:
    return {r.origin: r for r in kept(io, RobotsCopy)}


def last_states(io: SlotIO) -> dict[str, HostState]:
    return {s.host: s for s in kept(io, HostState)}
