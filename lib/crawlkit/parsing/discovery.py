"""URLs that a stored capture names -> links, found rows and rejects, each with its reason."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from crawlkit.config import Config
from crawlkit.outcomes import Reason
from crawlkit.rules.url.canonical import host_of, url_key
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.url.scope import Scope, scope_reason

Row = dict[str, Any]
CRAWLED_KINDS = frozenset(
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
        "redirect",
    }
)
MAX_CELL_CHARS = 2000
KNOWN_URLS = 20_000  # that a task remembers: the links of a site's pages are mostly the same


class NamedUrl(NamedTuple):
    """A URL as a page names it. refused: why it was refused before its scope was looked at."""

    kind: str
    url: str
    anchor: str = ""
    rel: str = ""
    refused: Reason | None = None


class ParseRules:
    """Scope, URL policy and settings of a crawl, compiled once for the items of a task."""

    def __init__(self, cfg: Config, now: float) -> None:
        """now: nominal time of the round, Unix s."""
        self.cfg = cfg
        self.now = now
        self.year = time.gmtime(now).tm_year
        self.policy = UrlPolicy.of(cfg.urls)
        scope = Scope.of(cfg.scope)
        year = self.year

        def refuse(url: str, depth: int, is_page: bool = True) -> Reason | None:
            return scope_reason(url, depth, scope, year, is_page)

        def locate(url: str) -> tuple[bytes, str]:
            return url_key(url), host_of(url)

        self.refuse = lru_cache(KNOWN_URLS)(refuse)  # (URL, depth, is it a page) -> why not
        self.locate = lru_cache(KNOWN_URLS)(locate)  # URL -> url_key, host


def new_result(capture_id: str) -> Row:
    """A row of PARSED_SCHEMA without anything yet."""
    return {"capture_id": capture_id, "page": None, "links": [], "found": [], "rejects": []}


def add_reject(out: Row, item: str, reason: Reason, detail: str) -> None:
    """Record what is refused, with its reason, in a row of PARSED_SCHEMA."""
    out["rejects"].append(
        {
            "item": item[:MAX_CELL_CHARS],
            "reason": str(reason),
            "detail": detail[:MAX_CELL_CHARS],
        }
    )


def add_found(
    out: Row,
    rules: ParseRules,
    url: str,
    depth: int,
    source: str,
    fetch_kind: str,
    parent_key: bytes | None,
    due_at: float | None = None,
    redirects: int = 0,
) -> None:
    """Record a URL for the frontier. due_at: Unix s from which its content is known to be newer."""
    key, host = rules.locate(url)
    domain = registered_domain(host)
    out["found"].append(
        {
            "url_key": key,
            "url": url,
            "host": host,
            "domain": domain,
            "host_bucket": host_bucket(domain, rules.cfg.frontier.buckets),
            "source": source,
            "fetch_kind": fetch_kind,
            "depth": depth,
            "redirects": redirects,
            "parent_key": parent_key,
            "due_at": due_at,
        }
    )


def add_links(out: Row, item: Row, links: Iterable[NamedUrl], rules: ParseRules) -> None:
    """Record links with their keys, and each distinct one that may be crawled for the frontier."""
    seen: set[str] = set()
    parse = rules.cfg.parse
    cap = parse.outlinks_low_quality if item["quality"] < parse.low_quality else parse.outlinks
    for n, link in enumerate(links):
        is_redirect = link.kind == "redirect"
        depth = item["depth"] + (not is_redirect)
        refused = link.refused
        key, host = None, None
        if refused is None or refused == Reason.NOFOLLOW:
            key, host = rules.locate(link.url)
        if refused is None:
            refused = _refuse_link(link.kind, link.url, depth, item, rules)
        if refused is None and len(seen) >= cap and link.url not in seen:
            refused = Reason.OUTLINK_CAP
        out["links"].append(
            {
                "n": n,
                "from_key": item["url_key"],
                "from_url": item["url"],
                "to_key": key,
                "to_url": link.url if refused is None else link.url[:MAX_CELL_CHARS],
                "to_host": host,
                "anchor": link.anchor[:MAX_CELL_CHARS],
                "rel": link.rel[:MAX_CELL_CHARS],
                "kind": link.kind,
                "refused": None if refused is None else str(refused),
            }
        )
        if refused is None and link.url not in seen:
            seen.add(link.url)
            source = link.kind if link.kind in ("redirect", "canonical") else "link"
            kinds = {"feed": "feed", "redirect": item["kind"]}
            fetch_kind = kinds.get(link.kind, "page")
            redirects = item["redirects"] + 1 if is_redirect else 0
            add_found(
                out,
                rules,
                link.url,
                depth,
                source,
                fetch_kind,
                item["url_key"],
                redirects=redirects,
            )


def _refuse_link(kind: str, url: str, depth: int, item: Row, rules: ParseRules) -> Reason | None:
    if kind not in CRAWLED_KINDS and not (kind == "feed" and rules.cfg.frontier.feeds):
        return Reason.MEDIA_NOT_CRAWLED
    if kind == "redirect" and (item["redirects"] or 0) >= rules.cfg.fetch.max_redirects:
        return Reason.REDIRECT_TOO_LONG
    return rules.refuse(url, depth, kind != "feed")
