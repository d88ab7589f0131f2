"""What a sitemap or feed names, collected: canonical, each once, and only what it may name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from crawlkit.outcomes import Refused
from crawlkit.rules.feeds.xml_scanner import EVENTS_AN_ADDRESS, Scanner, has_reference
from crawlkit.rules.url.canonical import UrlPolicy, as_found, canonicalize

MAX_ENTRIES = 50_000
MAX_HUBS = 10  # links of kind hub and self that are kept of a feed
# white space and characters that nobody sees, which editors leave round an address
_INVISIBLE = (
    "\t\n\x0b\x0c\r \x85\xa0\xad\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b"
    "\u202c\u202d\u202e\u2060\u3000\ufeff"
)
DEFAULT_PRIORITY = 0.5


@dataclass(slots=True)
class Entry:
    """One page of a sitemap or feed. `lastmod` is Unix seconds; addresses are canonical."""

    url: str
    lastmod: float | None = None
    priority: float = DEFAULT_PRIORITY
    images: list[str] = field(default_factory=list)
    alternates: list[tuple[str, str]] = field(default_factory=list)  # (hreflang, address)
    videos: int = 0
    news: bool = False
    mobile: bool = False


@dataclass(slots=True)
class Sitemap:
    """What a sitemap or feed says. kind: urlset, index, text, rss, atom, json, or none.

    `sitemaps` are the children of an index, with their lastmod. `refused` are addresses outside
    what this sitemap may name; `bad_entries` counts entries without a usable address. `partial`: a
    limit or a fault ended the reading. `spellings`: how an address is requested, where not as it
    stands here. `hubs`: (hub or self, address) of a feed (WebSub 4).
    """

    kind: str = "none"
    entries: list[Entry] = field(default_factory=list)
    sitemaps: dict[str, float | None] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    bad_entries: int = 0
    partial: bool = False
    decoded_bytes: int = 0
    spellings: dict[str, str] = field(default_factory=dict)
    hubs: list[tuple[str, str]] = field(default_factory=list)


class Full(Exception):
    """The limit of entries is reached."""


class Collector:
    """Takes addresses as a reader finds them: canonical, each once, and only those that this
    sitemap may name.
    """

    def __init__(
        self,
        url: str,
        out: Sitemap,
        scanner: Scanner,
        may_name: Callable[[str], bool],
        policy: UrlPolicy,
        max_entries: int,
    ) -> None:
        self.url = url
        self.out = out
        self._scanner = scanner
        self.may_name = may_name
        self._policy = policy
        self._max_entries = max_entries
        self._seen: dict[str, Entry] = {}
        self.declared = False  # the file declares entities, which are never expanded

    def canonical(self, text: str, base: str | None = None) -> str | None:
        """The canonical URL of an address as written; None if it is none."""
        text = text.strip(_INVISIBLE)
        if not text or (self.declared and has_reference(text)):
            return None
        try:
            url = canonicalize(text, base, self._policy)
        except Refused:
            return None
        sent_url = as_found(text, url, base, self._policy)
        if sent_url is not None:
            self.out.spellings.setdefault(url, sent_url)
        return url

    def page(self, text: str, base: str | None = None) -> Entry | None:
        """The entry of an address, new or known; None if it is bad or refused."""
        url = self.canonical(text, base)
        if url is None:
            self.out.bad_entries += 1
            return None
        known = self._seen.get(url)
        if known is not None:
            return known
        if not self.may_name(url):
            self.out.refused.append(url)
            return None
        if len(self._seen) >= self._max_entries:
            raise Full
        self._scanner.credit += EVENTS_AN_ADDRESS
        entry = self._seen[url] = Entry(url)
        self.out.entries.append(entry)
        return entry

    def hub(self, rel: str, text: str, base: str | None = None) -> None:
        """A link of a feed to itself, if `rel` has hub or self among its words."""
        words = rel[:1000].lower().split()
        for kind in ("hub", "self"):
            if kind in words and len(self.out.hubs) < MAX_HUBS:
                url = self.canonical(text, base)
                if url is not None:
                    self.out.hubs.append((kind, url))

    def child(self, text: str, lastmod: float | None) -> None:
        """A sitemap of an index."""
        url = self.canonical(text, self.url)
        if url is None:
            self.out.bad_entries += 1
        elif not self.may_name(url):
            self.out.refused.append(url)
        elif url not in self.out.sitemaps:
            if len(self.out.sitemaps) >= self._max_entries:
                raise Full
            self._scanner.credit += EVENTS_AN_ADDRESS
            self.out.sitemaps[url] = lastmod
