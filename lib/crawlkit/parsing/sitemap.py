"""Sitemaps and feeds as fetched, and the sitemaps that a robots.txt names -> found rows
(REQUIREMENTS A2, A3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from crawlkit.outcomes import Reason
from crawlkit.parsing.discovery import (
    ParsedRow,
    ParseRules,
    Row,
    add_found,
    add_links,
    add_reject,
    new_result,
)
from crawlkit.rules.feeds.collect import Sitemap
from crawlkit.rules.feeds.sitemaps import FEEDS, parse
from crawlkit.rules.http.content_types import media_type
from crawlkit.rules.page.encoding import header_charset
from crawlkit.rules.page.links import HUB_KINDS, Link, hub_links
from crawlkit.version import __version__


def read_sitemap(
    out: ParsedRow,
    item: Row,
    body: bytes,
    cut: bool,
    rules: ParseRules,
    headers: Iterable[tuple[str, str]],
) -> bool:
    """Record what a sitemap or feed names in `out`; False: it is neither, so read it as a page.

    An entry dated after our copy makes its URL due (fold); a date in the future is no evidence.
    item: ITEM_COLUMNS, whose `vouched` are the origins whose robots.txt names this sitemap.
    headers: of the answer. Hubs are links of a feed, by its Link fields if they tell all of it.
    """
    sitemap = parse(
        body,
        item["url"],
        charset=header_charset(item["content_type"]),
        vouched=frozenset(item["vouched"] or ()),
        policy=rules.policy,
    )
    if sitemap.kind == "none":
        return False
    kind = "feed" if sitemap.kind in FEEDS else "sitemap"
    depth = item["depth"] + 1
    for url, lastmod, fetch_kind in _list_urls(sitemap):
        reason = rules.refuse(url, depth, fetch_kind == "page")
        if reason is None:
            due_at = lastmod if lastmod is not None and lastmod <= rules.now else None
            sent_url = sitemap.spellings.get(url)
            key = item["url_key"]
            add_found(out, rules, url, depth, kind, fetch_kind, key, due_at, sent_url=sent_url)
        else:
            add_reject(out, url, reason, f"named by {item['url']}")
    for url in sitemap.refused:
        detail = f"{item['url']} may not name it: no robots.txt there names this sitemap"
        add_reject(out, url, Reason.SITEMAP_FOREIGN, detail)
    if kind == "feed":
        add_links(out, item, _hubs(sitemap, headers, item["url"], rules), rules)
    if sitemap.bad_entries:
        detail = f"{sitemap.bad_entries} entries without a usable address"
        add_reject(out, item["url"], Reason.URL_INVALID, detail)
    out["page"] = _page_row(item, sitemap, kind, body, cut) | {"links": len(out["found"])}
    return True


def _page_row(item: Row, sitemap: Sitemap, kind: str, body: bytes, cut: bool) -> Row:
    """The columns of `pages`. cut: the body is not whole."""
    return {
        "url_key": item["url_key"],
        "url": item["url"],
        "host": item["host"],
        "parser_version": __version__,
        "kind": kind,
        "media_type": media_type(item["content_type"]) or None,
        "robots_meta": [],
        "noindex": False,
        "nofollow": False,
        "text_bytes": 0,
        "decoded_bytes": sitemap.decoded_bytes,
        "body_sha256": hashlib.sha256(body).hexdigest(),
        "named_sha256": _named_sha256(sitemap),
        "flags": ["truncated"] if sitemap.partial or cut or item["truncated"] else [],
    }


def _hubs(
    sitemap: Sitemap, headers: Iterable[tuple[str, str]], url: str, rules: ParseRules
) -> list[Link]:
    named = hub_links(headers, url, rules.policy)
    if {link.kind for link in named} >= HUB_KINDS:
        return named
    spellings = sitemap.spellings
    return [
        Link(kind, hub, rel=kind, refused=Reason.HUB_LINK, sent_url=spellings.get(hub))
        for kind, hub in sitemap.hubs
    ]


def _named_sha256(sitemap: Sitemap) -> str:
    """Of what it names: a sitemap that only changes its dates or their order has not changed."""
    named = sorted(f"{kind} {url}" for url, _, kind in _list_urls(sitemap))
    return hashlib.sha256("\n".join(named).encode("utf-8", "replace")).hexdigest()


def _list_urls(sitemap: Sitemap) -> Iterator[tuple[str, float | None, str]]:
    for url, lastmod in sitemap.sitemaps.items():
        yield url, lastmod, "sitemap"
    for entry in sitemap.entries:
        yield entry.url, entry.lastmod, "page"


def read_robots_sitemaps(row: Row, rules: ParseRules) -> ParsedRow:
    """The row of PARSED_SCHEMA for one robots.txt: its sitemaps, or a try of /sitemap.xml.

    row: origin, capture_id, sitemaps, depth (of the origin's shallowest page of the round).
    """
    out = new_result(row["capture_id"])
    guess = [f"{row['origin']}/sitemap.xml"] if rules.cfg.frontier.guess_sitemap else []
    for url in row["sitemaps"] or guess:
        reason = rules.refuse(url, row["depth"], False)
        if reason is None:
            add_found(out, rules, url, row["depth"], "sitemap", "sitemap", None)
        else:
            add_reject(out, url, reason, f"named by {row['origin']}/robots.txt")
    return out
