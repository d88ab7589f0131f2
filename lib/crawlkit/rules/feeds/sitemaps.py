"""Sitemaps (sitemaps.org protocol): XML, index, text, RSS and Atom forms.

Bounded: 50 MiB unpacked, 50,000 entries, a million tags; what was read before a limit or a fault
stays, and `partial` says so. Which entries a sitemap may name follows the protocol's rules on
location and cross submits (docs/rules/sitemaps.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from crawlkit.rules.feeds import syndication
from crawlkit.rules.feeds.collect import (
    DEFAULT_PRIORITY,
    MAX_ENTRIES,
    Collector,
    Full,
    Sitemap,
)
from crawlkit.rules.feeds.gzip_text import MAX_BYTES, Source
from crawlkit.rules.feeds.json_feed import MAX_JSON_CHARS, read_json_feed
from crawlkit.rules.feeds.timestamps import w3c_date
from crawlkit.rules.feeds.xml_scanner import (
    Event,
    Scanner,
    attributes_of,
)
from crawlkit.rules.url.canonical import DEFAULT_POLICY, UrlPolicy, host_of, origin_of
from crawlkit.rules.url.domains import registered_domain


def parse(
    body: bytes,
    url: str,
    *,
    charset: str | None = None,
    strict_location: bool = False,
    vouched: frozenset[str] = frozenset(),
    policy: UrlPolicy = DEFAULT_POLICY,
    max_bytes: int = MAX_BYTES,
    max_entries: int = MAX_ENTRIES,
) -> Sitemap:
    """Reads a sitemap or feed fetched from `url` (canonical); never raises.

    `body` may be gzip; `charset` is that of Content-Type. It may name addresses of its own
    registered domain; with `strict_location` only those of its own scheme, host and folder.
    `vouched` are origins whose robots.txt names this sitemap: their addresses are always in
    (protocol, "Sitemap file location", "cross submits").
    """
    out = Sitemap()
    source = Source(body, charset, max_bytes)
    scanner = Scanner(source)
    may_name = _may_name(url, strict_location, vouched)
    collector = Collector(url, out, scanner, may_name, policy, max_entries)
    try:
        root = scanner.root()
        collector.declared = scanner.declares
        reader = _READERS.get(root.name) if root else None
        if reader is not None and reader[0] in FEEDS:
            collector.may_name = _anything  # the rule on locations is one of sitemaps
        if root is None:
            json = scanner.rest(MAX_JSON_CHARS) if scanner.starts_with("{") else ""
            collector.may_name = _anything if json else may_name
            if not json or read_json_feed(json, collector) is None:
                collector.may_name = may_name
                out.partial = not _read_text(scanner, collector)
        elif reader is not None and not root.closing:
            out.kind, read = reader
            out.partial = not root.empty and not read(root, scanner, collector)
    except Full:
        out.partial = True
    if out.kind == "none":
        out.bad_entries = 0
    out.decoded_bytes = source.decoded_bytes
    out.partial = out.kind != "none" and (out.partial or source.cut or scanner.limited)
    return out


FEEDS = ("rss", "atom", "json")


def _anything(_: str) -> bool:
    return True


def _may_name(url: str, strict: bool, vouched: frozenset[str]) -> Callable[[str], bool]:
    """Which pages the sitemap at `url` may name: `parse`."""
    folder = url.partition("?")[0]
    folder = folder[: folder.rindex("/") + 1]
    origin = origin_of(url) + "/"
    domain = registered_domain(host_of(url))

    def may_name(page: str) -> bool:
        own = (
            page.startswith(folder)
            if strict
            else page.startswith(origin) or registered_domain(host_of(page)) == domain
        )
        return own or (bool(vouched) and origin_of(page) in vouched)

    return may_name


def _read_text(scanner: Scanner, out: Collector) -> bool:
    """One address a line. Text of which the first hundred lines hold none is no sitemap."""
    for n, line in enumerate(filter(None, scanner.lines())):
        scanner.credit -= 2
        if scanner.credit < 0 or (n >= 100 and out.out.kind == "none"):
            return False
        if line[:4].lower() == "http":
            out.page(line)
            if out.out.entries or out.out.refused:
                out.out.kind = "text"
        else:
            out.out.bad_entries += 1
    return True


class _UrlElement:
    """One `url` element of a urlset, as its tags come."""

    def __init__(self, opened: bool) -> None:
        self.opened = opened
        self.loc: str | None = None
        self.further: list[str] = []  # where an element has several addresses
        self.lastmod: float | None = None
        self.priority = DEFAULT_PRIORITY
        self.images: list[str] = []
        self.alternates: list[tuple[str, str]] = []
        self.videos = 0
        self.news = self.mobile = False
        self._inside = ""  # image or video

    def take(self, event: Event, out: Collector) -> None:
        """A tag inside it."""
        name = event.name
        if name in ("image", "video"):
            self.videos += name == "video" and not event.closing
            self._inside = "" if event.closing or event.empty else name
        elif name == "loc":
            self._take_loc(event, out)
        elif name == "lastmod":
            self.lastmod = w3c_date(event.text) if event.whole else None
        elif name == "priority":
            self.priority = _priority(event.text)
        elif name == "news":
            self.news = True
        elif name == "mobile":
            self.mobile = True
        elif name == "link":
            link = attributes_of(event)
            href = out.canonical(link.get("href", ""), out.url)
            alternate = link.get("rel", "").lower() == "alternate"
            if href is not None and alternate and ("hreflang" in link or "media" in link):
                self.alternates.append((link.get("hreflang", ""), href))

    def _take_loc(self, event: Event, out: Collector) -> None:
        if self._inside == "image":
            image = out.canonical(event.text, out.url)
            if image is not None and event.whole:
                self.images.append(image)
        elif not self._inside and event.whole:
            if self.loc is None:
                self.loc = event.text
            else:
                self.further.append(event.text)

    def finish(self, out: Collector) -> None:
        """Gives the entry to the collector, if there is one."""
        if self.loc is None:
            out.out.bad_entries += self.opened
            return
        for address in (self.loc, *self.further):
            self._give(address, out)

    def _give(self, address: str, out: Collector) -> None:
        found = out.page(address, out.url if address.lstrip().startswith("/") else None)
        if found is not None:
            found.lastmod = self.lastmod if found.lastmod is None else found.lastmod
            found.priority = self.priority
            found.news = found.news or self.news
            found.mobile = found.mobile or self.mobile
            found.images += self.images
            found.alternates += self.alternates
            found.videos += self.videos


_URLSET_OPENERS = frozenset("url loc lastmod priority image video news mobile link".split())
_URLSET_CLOSERS = frozenset("urlset url image video".split())
_URLSET_TEXTS = frozenset("url loc lastmod priority".split())


def _read_urlset(root: Event, scanner: Scanner, out: Collector) -> bool:
    element = _UrlElement(False)
    for event in scanner.events(_URLSET_OPENERS, _URLSET_CLOSERS, _URLSET_TEXTS):
        if event.name in ("url", "urlset"):
            element.finish(out)
            if event.name == "urlset":
                return True
            element = _UrlElement(not event.closing and not event.empty)
            out.out.bad_entries += event.empty
            if element.opened and event.whole and event.text.strip():
                element.loc = event.text  # without a loc element, or inside of one
        else:
            element.take(event, out)
    if element.loc is not None:
        element.finish(out)
    return False


def _read_index(root: Event, scanner: Scanner, out: Collector) -> bool:
    loc, lastmod, opened = None, None, False
    for event in scanner.events(
        frozenset({"sitemap", "loc", "lastmod"}),
        frozenset({"sitemapindex", "sitemap"}),
        frozenset({"sitemap", "loc", "lastmod"}),
    ):
        if event.name in ("sitemap", "sitemapindex"):
            if opened:
                out.child(loc or "", lastmod)
            loc, lastmod = None, None
            opened = event.name == "sitemap" and not event.closing and not event.empty
            if event.name == "sitemapindex":
                return True
            out.out.bad_entries += event.empty
            if opened and event.whole and event.text.strip():
                loc = event.text  # some write the address without a loc element
        elif not opened or not event.whole:
            continue
        elif event.name == "loc" and loc is None:
            loc = event.text
        elif event.name == "lastmod":
            lastmod = w3c_date(event.text)
    if loc is not None:
        out.child(loc, lastmod)
    return False


def _priority(text: str) -> float:
    try:
        value = float(text.strip()[:32])
    except ValueError:
        return DEFAULT_PRIORITY
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else DEFAULT_PRIORITY


Reader = Callable[[Event, Scanner, Collector], bool]
_READERS: dict[str, tuple[str, Reader]] = {
    "urlset": ("urlset", _read_urlset),
    "sitemapindex": ("index", _read_index),
    "rss": ("rss", syndication.read_rss),
    "rdf": ("rss", syndication.read_rss),
    "channel": ("rss", syndication.read_rss),
    "feed": ("atom", syndication.read_atom),
}
