"""What exists in the synthetic web: hosts, pages, links, robots rules, and the truth about each of
them.

Everything here is data. `build` (in `roles`) makes it from a seed; `render` turns a page into
bytes; `expect` walks it to the right answer. No rule of the crawler is used: that a URL is allowed,
that two addresses are one page, that two texts are alike is known because the plan made it so.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

import yaml

from tests.fakeweb.words import words

EPOCH = datetime(2026, 9, 1, tzinfo=UTC).timestamp()  # day 0 begins; give `--now` from here on
DAY_S = 86_400.0
MAX_BODY_BYTES = 262_144  # fetch.max_body_bytes of `FakeWeb.config`
TOKEN = "crawlkit"  # the product token that the robots files and X-Robots-Tag lines name


@dataclass(slots=True)
class Link:
    """A link as written. `to` is the canonical target; `why` is set if it must not be followed.

    how: a, area, frame, next, refresh, header (found by a crawler); comment, script (not links at
        all).
    why: nofollow, unusable, extension, date_range, repeated, ghost (text that only looks like a
        link).
    """

    href: str
    to: str | None
    how: str = "a"
    text: str = ""
    why: str | None = None


@dataclass(slots=True)
class Page:
    """One URL (scheme http). `words` are the body text of version 0, without title and anchors."""

    host: str
    path: str  # canonical path and query
    title: str
    words: list[str] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    feature: str = "plain"
    # the answer
    status: int = 200
    location: str | None = None  # as written in the header
    to: str | None = None  # canonical redirect target
    retry_after_s: int | None = None
    recovers_after: int | None = None  # so many requests get `status`, later ones 200
    fault: str | None = None  # reset (in mid-header), cut (in the body), garbage, stall
    content_type: str = "text/html"
    charset: str = "utf-8"
    declared: str = "header"  # header, meta, bom, none, wrong
    coding: str | None = None  # gzip
    framing: str = "length"
    pad_bytes: int = 0
    base: str | None = None
    meta: str | None = None
    x_robots: tuple[str, ...] = ()
    skin: int = 0  # 1, 2: other markup, same text
    malformed: int = 0
    # change
    every_days: int = 0  # the text changes every so many days; 0: never
    validators: str = ""  # "", etag, modified, both
    churn: bool = False  # bytes change daily, the text does not
    # the truth
    allowed: bool = True  # by robots.txt
    denied_from_day: int | None = None
    noindex: bool = False
    nofollow: bool = False
    marker: str | None = None  # a word that is in the text only if it was decoded rightly

    @property
    def url(self) -> str:
        return f"http://{self.host}{self.path}"

    def version(self, day: int) -> int:
        return day // self.every_days if self.every_days else 0

    def text(self, day: int = 0) -> list[str]:
        """Words of the visible text: title as heading, paragraphs, anchors."""
        return [
            *self.title.lower().split(),
            *self.body(day),
            *(w for a in self.links if a.how == "a" for w in a.text.lower().split()),
        ]

    def body(self, day: int) -> list[str]:
        version = self.version(day)
        return (
            words(random.Random(f"{self.url} {version}"), len(self.words))
            if version
            else self.words
        )

    def etag(self, day: int) -> str | None:
        if self.validators not in ("etag", "both"):
            return None
        return f'"v{self.version(day)}-{day if self.churn else 0}"'

    def modified(self, day: int) -> float | None:
        if self.validators not in ("modified", "both"):
            return None
        return EPOCH - 30 * DAY_S + self.version(day) * self.every_days * DAY_S


@dataclass(slots=True)
class Robots:
    """robots.txt of a host. `delay_s`: its Crawl-delay for us.

    `later`: another body from a day on.
    """

    name: str = "none"
    status: int = 404
    body: bytes = b""
    location: str | None = None
    delay_s: float = 0.0
    retry_after_s: int | None = None
    later: tuple[int, bytes] | None = None

    @property
    def readable(self) -> bool:
        """False: nothing of the host may be fetched (5xx), or not now (429)."""
        return self.status < 500 and self.status != 429

    def text(self, day: int) -> bytes:
        return self.later[1] if self.later and day >= self.later[0] else self.body


@dataclass(slots=True)
class Host:
    """A host. `listening` False: nothing is bound to its address, so connections are refused."""

    name: str
    domain: str
    address: str
    robots: Robots = field(default_factory=Robots)
    listening: bool = True
    delay_s: float = 0.0
    mirror_of: str | None = None
    traps: bool = False
    extra: dict[str, bytes] = field(default_factory=dict)  # further text files, robots hops


_EVENTS = re.compile(r"/events/(\d{4})/(\d\d)\Z")
_MAZE = re.compile(r"/maze/((?:more/)*)\Z")
CALENDAR_START = "/events/2028/09"  # two years ahead of EPOCH is the end of the default range


@dataclass(repr=False)
class FakeWeb:
    """The web. `pages` are all planned URLs; the traps have endlessly more, made by `page`."""

    seed: int
    hosts: dict[str, Host]
    pages: dict[str, Page]
    seeds: list[str]
    near: list[tuple[str, str, float]]  # pairs above 0.85, with their Jaccard over 3-word shingles
    far: list[tuple[str, str, float]]  # pairs below 0.5

    def page(self, url: str) -> Page | None:
        """The page at a canonical URL, or None (404)."""
        if found := self.pages.get(url):
            return found
        name, _, path = url.removeprefix("http://").partition("/")
        host = self.hosts.get(name)
        return _trap_page(host, "/" + path) if host and host.traps else None

    def allowed(self, url: str, day: int = 0) -> bool | None:
        """Whether robots.txt as served on `day` lets us fetch a page; None: the URL is not
        planned.
        """
        page = self.page(url)
        if page is None:
            return None
        return page.allowed and not (
            page.denied_from_day is not None and day >= page.denied_from_day
        )

    @cached_property
    def shared_addresses(self) -> dict[str, list[str]]:
        """Addresses with more than one host name."""
        by: dict[str, list[str]] = {}
        for h in self.hosts.values():
            by.setdefault(h.address, []).append(h.name)
        return {a: names for a, names in by.items() if len(names) > 1}

    def connect_to(self, port: int) -> dict[str, str]:
        """Value of `fetch.connect_to`: host name -> address:port."""
        return {h.name: f"{h.address}:{port}" for h in self.hosts.values()}

    def config(self, port: int, delay_s: float = 0.05, timeout_s: float = 2.0) -> dict[str, dict]:
        """The configuration under which `expect` holds, as a tree of plain values.

        Breakers are wide open and the starting interval is the same for every priority class, so
        that what is fetched when depends on the plan alone.
        """
        return {
            "agent": {"name": TOKEN, "info_url": "http://bot.example/"},
            "scope": {"max_depth": 15, "max_years_ahead": 2, "max_repeated_segments": 3},
            "frontier": {"explore": 0.0, "guess_sitemap": False},
            "round": {"urls_per_host": 100_000, "max_urls": 1_000_000},
            "fetch": {
                "connect_to": self.connect_to(port),
                "allow_private": ["127.0.0.0/8"],
                "ports": [80, 443, port],
                "timeout_s": timeout_s,
                "connect_timeout_s": timeout_s,
                "max_body_bytes": MAX_BODY_BYTES,
                "max_redirects": 10,
            },
            "politeness": {
                "delay_s": delay_s,
                "domain_delay_s": delay_s / 2,
                "ip_delay_s": delay_s / 2,
                "max_delay_s": max(0.5, delay_s),
                "max_backoff_s": max(0.5, delay_s),
            },
            "breaker": {
                "slow_min_requests": 1_000_000,
                "server_errors": 1_000_000,
                "blocked_run": 1_000_000,
            },
            "schedule": {"initial_s": [DAY_S, DAY_S, DAY_S, DAY_S]},
        }

    def config_yaml(self, port: int, **kw: float) -> str:
        return yaml.safe_dump(self.config(port, **kw))

    def config_sets(self, port: int, **kw: float) -> list[str]:
        """The same as `--set` values, `section.key=value`."""
        return [
            f"{s}.{k}={json.dumps(v)}"
            for s, keys in self.config(port, **kw).items()
            for k, v in keys.items()
        ]


def _trap_page(host: Host, path: str) -> Page | None:
    rng = random.Random(f"{host.name}{path}")
    page = Page(host.name, path, " ".join(words(rng, 3)), words(rng, 60), feature="trap")
    home = f"http://{host.name}"
    if m := _EVENTS.match(path):
        year, month = int(m[1]), int(m[2])
        if not 1 <= month <= 12:
            return None
        for step, name in ((1, "next month"), (-1, "previous month")):
            y, mo = divmod(year * 12 + month - 1 + step, 12)
            target = f"/events/{y:04d}/{mo + 1:02d}"
            why = None if 1990 <= y <= 2028 else "date_range"
            page.links.append(Link(target, home + target, text=name, why=why))
        return page
    if m := _MAZE.match(path):
        deeper = path + "more/"
        page.links.append(
            Link(
                "more/",
                home + deeper,
                text="go on",
                why="repeated" if deeper.count("more/") > 3 else None,
            )
        )
        return page
    return None
