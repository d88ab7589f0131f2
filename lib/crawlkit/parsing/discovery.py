"""URLs that a stored capture names -> links, found rows and rejects, each with its reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypedDict

from crawlkit.config import Config
from crawlkit.outcomes import Reason
from crawlkit.rules.page.links import Link
from crawlkit.rules.requisites.page_requisites import KINDS as REQUISITE_KINDS
from crawlkit.rules.url.canonical import host_of, url_key
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.url.scope import Scope, scope_reason

Row = dict[str, Any]
_PLAIN_KINDS = frozenset(
    {
        "a",
        "area",
        "frame",
        "iframe",
        "canonical",
        "alternate",
        "mobile",
        "amphtml",
        "next",
        "prev",
        "refresh",
        "state",
    }
)
MAX_CELL_CHARS = 2000
KNOWN_URLS = 20_000  # that a task remembers: the links of a site's pages are mostly the same
# the columns of `links`, but for capture_id and round_id
LinkRow = tuple[
    int,
    bytes,
    str,
    bytes | None,
    str,
    str | None,
    str,
    str,
    str,
    str,
    Reason | None,
    str | None,
]
# item, reason, detail
RejectRow = tuple[str, str, str]


class FoundRow(NamedTuple):
    """A URL for the frontier. due_at: Unix s from which its content is known to be newer;
    sent_url: how it is requested, where not as `url`.
    """

    url_key: bytes
    url: str
    host: str
    domain: str
    host_bucket: int
    source: str
    fetch_kind: str
    depth: int
    redirects: int
    parent_key: bytes | None
    due_at: float | None
    sent_url: str | None


class ParsedRow(TypedDict):
    """A row of PARSED_SCHEMA, its lists as tuples in the order of their columns."""

    capture_id: str
    page: Row | None
    links: list[LinkRow]
    found: list[FoundRow]
    rejects: list[RejectRow]


class _Located(dict[str, tuple[bytes, str]]):
    """URL -> url_key, host; forgotten all at once when they are too many."""

    def __missing__(self, url: str) -> tuple[bytes, str]:
        if len(self) >= KNOWN_URLS:
            self.clear()
        place = self[url] = url_key(url), host_of(url)
        return place


class _Judged(dict[str, Reason | None]):
    """URL -> why it is not wanted; forgotten as `_Located`."""

    def __init__(self, judge: Callable[[str], Reason | None]) -> None:
        self._judge = judge

    def __missing__(self, url: str) -> Reason | None:
        if len(self) >= KNOWN_URLS:
            self.clear()
        reason = self[url] = self._judge(url)
        return reason


class ParseRules:
    """Scope, URL policy and settings of a crawl, compiled once for the items of a task."""

    def __init__(self, cfg: Config, now: float) -> None:
        """now: nominal time of the round, Unix s."""
        self.cfg = cfg
        self.now = now
        self.year = time.gmtime(now).tm_year
        self.iso_now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
        self.policy = UrlPolicy.of(cfg.urls)
        self.located = _Located()
        scope = Scope.of(cfg.scope, UrlPolicy.of(cfg.urls))
        self.scope_at = lru_cache(8)(partial(_judged, scope, self.year))
        self.requisites = cfg.scope.requisites != "none"
        self._requisites_at = lru_cache(8)(partial(_judged, scope.for_requisites(), self.year))
        self.place_of = lru_cache(KNOWN_URLS)(partial(_place_of, cfg.frontier.buckets))

    def refuse(self, url: str, depth: int, is_page: bool = True) -> Reason | None:
        """Why a URL is not wanted at this depth."""
        return self.scope_at(depth, is_page)[url]

    def refuse_requisite(self, url: str, depth: int) -> Reason | None:
        """Why a requisite of a page is not wanted at this depth."""
        return self._requisites_at(depth, False)[url]


def _judged(scope: Scope, year: int, depth: int, is_page: bool) -> _Judged:
    return _Judged(lambda url: scope_reason(url, depth, scope, year, is_page))


def _place_of(buckets: int, host: str) -> tuple[str, int]:
    """Registered domain and bucket of a host."""
    domain = registered_domain(host)
    return domain, host_bucket(domain, buckets)


def new_result(capture_id: str) -> ParsedRow:
    """A row of PARSED_SCHEMA without anything yet."""
    return {"capture_id": capture_id, "page": None, "links": [], "found": [], "rejects": []}


def add_reject(out: ParsedRow, item: str, reason: Reason, detail: str) -> None:
    """Record what is refused, with its reason, in a row of PARSED_SCHEMA."""
    out["rejects"].append((item[:MAX_CELL_CHARS], reason, detail[:MAX_CELL_CHARS]))


def add_found(  # noqa: PLR0913 - the columns of a found row
    out: ParsedRow,
    rules: ParseRules,
    url: str,
    depth: int,
    source: str,
    fetch_kind: str,
    parent_key: bytes | None,
    due_at: float | None = None,
    redirects: int = 0,
    sent_url: str | None = None,
) -> None:
    """Record a URL for the frontier (FoundRow)."""
    key, host = rules.located[url]
    place = (*rules.place_of(host), source, fetch_kind, depth, redirects, parent_key, due_at)
    out["found"].append(FoundRow(key, url, host, *place, sent_url))


def add_links(out: ParsedRow, item: Row, links: Iterable[Link], rules: ParseRules) -> None:
    """Record links with their keys, and each distinct one that may be crawled for the frontier."""
    seen: set[str] = set()
    parse, located, rows = rules.cfg.parse, rules.located, out["links"]
    cap = parse.outlinks_low_quality if item["quality"] < parse.low_quality else parse.outlinks
    from_key, from_url = item["url_key"], item["url"]
    reasons = rules.scope_at(item["depth"] + 1, True)
    for n, (kind, url, anchor, rel, hreflang, refused, _, sent_url) in enumerate(links, len(rows)):
        key, host = None, None
        if refused is None or refused == Reason.NOFOLLOW:
            key, host = located[url]
        if refused is None:
            plain = kind in _PLAIN_KINDS
            refused = reasons[url] if plain else _refuse_link(kind, url, item, rules)
            if refused is None and url not in seen:
                if len(seen) >= cap:
                    refused = Reason.OUTLINK_CAP
                else:
                    seen.add(url)
                    _add_target(out, kind, url, sent_url, item, rules)
        if refused is not None:
            url = url[:MAX_CELL_CHARS]
        cells = anchor[:MAX_CELL_CHARS], rel[:MAX_CELL_CHARS], hreflang, kind, refused
        rows.append((n, from_key, from_url, key, url, host, *cells, sent_url))


def _add_target(
    out: ParsedRow, kind: str, url: str, sent_url: str | None, item: Row, rules: ParseRules
) -> None:
    """Record the target of a link for the frontier."""
    is_redirect, is_requisite = kind == "redirect", kind in REQUISITE_KINDS
    depth = item["depth"] + (not is_redirect and not is_requisite)
    source = "requisite" if is_requisite else kind if kind in ("redirect", "canonical") else "link"
    own = "requisite" if is_requisite else "feed" if kind == "feed" else "page"
    fetch_kind = item["kind"] if is_redirect else own
    is_hop = is_redirect or (is_requisite and item["kind"] == "requisite")
    redirects = item["redirects"] + 1 if is_hop else 0
    key = item["url_key"]
    add_found(
        out,
        rules,
        url,
        depth,
        source,
        fetch_kind,
        key,
        redirects=redirects,
        sent_url=sent_url,
    )


def _refuse_link(kind: str, url: str, item: Row, rules: ParseRules) -> Reason | None:
    """Why a link of no plain kind is not followed."""
    is_feed, depth = kind == "feed", item["depth"]
    if kind in REQUISITE_KINDS and rules.requisites:
        return _refuse_requisite(url, item, rules)
    if kind != "redirect":
        crawled = is_feed and rules.cfg.frontier.feeds
        return rules.refuse(url, depth + 1, False) if crawled else Reason.MEDIA_NOT_CRAWLED
    if (item["redirects"] or 0) >= rules.cfg.fetch.max_redirects:
        return Reason.REDIRECT_TOO_LONG
    return rules.refuse(url, depth)


def _refuse_requisite(url: str, item: Row, rules: ParseRules) -> Reason | None:
    """Why what a page or style sheet loads is not fetched. It is as deep as the page; sheets that
    import each other without end come to one by their hops, as redirects do.
    """
    is_nested = item["kind"] == "requisite"
    if is_nested and (item["redirects"] or 0) >= rules.cfg.fetch.max_redirects:
        return Reason.SCOPE_DEPTH
    return rules.refuse_requisite(url, item["depth"])
