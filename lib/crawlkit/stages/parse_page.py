"""One stored capture -> its page row, links, found rows and rejects.

Runs in a parser child; pure but for `read`.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from crawlkit import __version__
from crawlkit.config import Config
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.feeds.sitemaps import MAX_BYTES
from crawlkit.rules.http.content_coding import MAX_DECODED_BYTES, decode_body
from crawlkit.rules.http.content_types import media_type
from crawlkit.rules.page.page import Page, parse_page
from crawlkit.rules.url.canonical import UrlPolicy, host_of, url_key
from crawlkit.rules.url.pattern import url_shape
from crawlkit.rules.url.scope import Scope, scope_reason
from crawlkit.stages.parse_sitemap import found, read_sitemap, reject
from crawlkit.tables import TABLES

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

ITEM_SCHEMA = (
    "capture_id string",
    "kind string",
    "vouched array<string>",
    "url_key binary",
    "url string",
    "host string",
    "domain string",
    "depth int",
    "redirects int",
    "outcome string",
    "content_type string",
    "truncated string",
    "redirect_to string",
    "quality double",
    "file string",
    "offset bigint",
    "length bigint",
)
_PAGE = ", ".join(
    f"{c.name}: {c.type}"
    for c in TABLES["pages"].columns
    if c.name not in ("capture_id", "round_id")
)
_LINK = ", ".join(
    f"{c.name}: {c.type}"
    for c in TABLES["links"].columns
    if c.name not in ("capture_id", "round_id")
)
FOUND = (
    "url_key: binary, url: string, host: string, domain: string, host_bucket: int, source: string,"
    " fetch_kind: string, depth: int, redirects: int, parent_key: binary, due_at: double"
)
PARSED_SCHEMA = (
    f"capture_id string, page struct<{_PAGE}>, links array<struct<{_LINK}>>, found"
    f" array<struct<{FOUND}>>, rejects array<struct<item: string, reason: string, detail: string>>"
)


# of which a process remembers what it found: the links of a site's pages are mostly the same
KNOWN_URLS = 20_000


class _Compiled:
    """Scope and URL policy of a configuration, made once a process."""

    def __init__(self, cfg: Config) -> None:
        self.cfg, self.scope, self.policy = cfg, Scope.of(cfg.scope), UrlPolicy.of(cfg.urls)
        self.refusal = lru_cache(KNOWN_URLS)(self._refusal)  # of (url, depth, year, page)
        self.place = lru_cache(KNOWN_URLS)(lambda url: (url_key(url), host_of(url)))

    def _refusal(self, url: str, depth: int, year: int, page: bool) -> Reason | None:
        return scope_reason(url, depth, self.scope, year, page)


_COMPILED: dict[int, _Compiled] = {}


def _compiled(cfg: Config) -> _Compiled:
    if id(cfg) not in _COMPILED:
        _COMPILED.clear()
        _COMPILED[id(cfg)] = _Compiled(cfg)
    return _COMPILED[id(cfg)]


def parse_item(
    row: dict[str, Any],
    read: Callable[[str, int, int], tuple[list[tuple[str, str]], bytes]],
    cfg: Config,
    now: float,
) -> dict[str, Any]:
    """The row of PARSED_SCHEMA for one item. Never raises for what is in the record."""
    out: dict[str, Any] = {
        "capture_id": row["capture_id"],
        "page": None,
        "links": [],
        "found": [],
        "rejects": [],
    }
    year = time.gmtime(now).tm_year
    if row["outcome"] == "redirected":
        _add_links(out, row, [("redirect", row["redirect_to"], "", "", None)], cfg, year)
        return out
    try:
        headers, payload = read(row["file"], row["offset"], row["length"])
    except Refused as e:
        reject(out, row["url"], e.reason, e.detail)
        return out
    decoded = decode_body(
        payload, headers, MAX_DECODED_BYTES if row["kind"] == "page" else MAX_BYTES
    )
    if decoded.raw_kept:
        reject(out, row["url"], Reason.BODY_UNDECODABLE, decoded.error or "")
        return out
    made = _compiled(cfg)
    cut = bool(decoded.truncated or decoded.error)
    if row["kind"] != "page" and read_sitemap(
        out, row, decoded.body, cut, cfg, made.scope, made.policy, now
    ):
        return out
    page = parse_page(
        decoded.body, row["url"], row["content_type"], headers, cfg.agent.name, made.policy
    )
    out["page"] = _page_row(page, len(decoded.body), row, cut)
    _add_links(
        out,
        row,
        [(link.kind, link.url, link.anchor, link.rel, link.refused) for link in page.links.links],
        cfg,
        year,
    )
    out["page"]["links"] = len(out["links"])
    if _many_of_one_shape(out["found"], cfg.parse.same_shape):
        out["page"]["flags"] = sorted([*out["page"]["flags"], "many_same_shape"])
    return out


def _many_of_one_shape(rows: list[dict[str, Any]], limit: int) -> bool:
    """Whether more than `limit` outlinks have one shape (rules/url/pattern.py): the mark of pages that a
    program makes without end.
    """
    return len(rows) > limit and max(Counter(url_shape(r["url"]) for r in rows).values()) > limit


def _page_row(page: Page, decoded_bytes: int, row: dict[str, Any], cut: bool) -> dict[str, Any]:
    robots, meta, keep = page.robots, page.metadata, not page.robots.noindex
    flags = sorted(
        {
            *page.flags,
            *(["truncated"] if cut or row["truncated"] else ()),
            *(["noindex"] if robots.noindex else ()),
            *(["nofollow"] if robots.nofollow else ()),
            *(
                ["content_type_not_parsed"]
                if page.error == Reason.CONTENT_TYPE_NOT_PARSED
                else ["text_partial"]
                if page.error
                else ()
            ),
        }
    )
    signals = {
        "ai": list(robots.ai_signals),
        "tdm_reservation": robots.tdm_reservation,
        "tdm_policy": robots.tdm_policy,
    }
    structured = {k: v for k, v in {"open_graph": meta.og, **page.structured}.items() if v}
    return {
        "url_key": row["url_key"],
        "url": row["url"],
        "host": row["host"],
        "parser_version": __version__,
        "kind": page.kind,
        "media_type": media_type(row["content_type"]) or None,
        "charset": page.encoding.name if page.encoding else None,
        "title": meta.title,
        "description": meta.description,
        "keywords": meta.keywords,
        "author": meta.author,
        "published": meta.published,
        "declared_language": meta.declared_language,
        "language": page.language,
        "robots_meta": list(robots.directives),
        "noindex": robots.noindex,
        "nofollow": robots.nofollow,
        "canonical": page.links.canonical,
        "signals": (
            json.dumps(signals, sort_keys=True)
            if any(v not in (None, []) for v in signals.values())
            else None
        ),
        "metadata": (
            json.dumps(structured, sort_keys=True, default=str) if structured and keep else None
        ),
        "text": page.text if keep and page.text else None,
        "main_text": page.main_text if keep and page.main_text else None,
        "text_bytes": len(page.text.encode("utf-8", "replace")),
        "decoded_bytes": decoded_bytes,
        "body_sha256": page.body_sha256,
        "clean_sha256": page.clean_sha256,
        "text_sha256": page.prints.text_sha256 if keep else None,
        "simhash": page.prints.simhash if keep else None,
        "minhash": page.prints.minhash if keep else None,
        "links": 0,
        "flags": flags,
    }


def _add_links(
    out: dict[str, Any],
    row: dict[str, Any],
    links: list[tuple[str, str, str, str, Reason | None]],
    cfg: Config,
    year: int,
) -> None:
    """Links with their keys, and a found row for each distinct one that may be crawled."""
    made = _compiled(cfg)
    seen: set[str] = set()
    cap = (
        cfg.parse.outlinks_low_quality
        if row["quality"] < cfg.parse.low_quality
        else cfg.parse.outlinks
    )
    for n, (kind, url, anchor, rel, refused) in enumerate(links):
        depth = row["depth"] + (kind != "redirect")
        key = None
        host = None
        if refused is None or refused == Reason.NOFOLLOW:
            key, host = made.place(url)
        if refused is None:
            refused = _refusal(kind, url, depth, row, made, year)
        if refused is None and len(seen) >= cap and url not in seen:
            refused = Reason.OUTLINK_CAP
        out["links"].append(
            {
                "n": n,
                "from_key": row["url_key"],
                "from_url": row["url"],
                "to_key": key,
                "to_url": url if refused is None else url[:MAX_CELL_CHARS],
                "to_host": host,
                "anchor": anchor[:MAX_CELL_CHARS],
                "rel": rel[:MAX_CELL_CHARS],
                "kind": kind,
                "refused": None if refused is None else str(refused),
            }
        )
        if refused is None and url not in seen:
            seen.add(url)
            fetch_kind = "feed" if kind == "feed" else row["kind"] if kind == "redirect" else "page"
            out["found"].append(
                found(
                    url,
                    key,
                    host,
                    depth,
                    kind if kind in ("redirect", "canonical") else "link",
                    fetch_kind,
                    row["url_key"],
                    cfg,
                    redirects=row["redirects"] + 1 if kind == "redirect" else 0,
                )
            )


def _refusal(
    kind: str, url: str, depth: int, row: dict[str, Any], made: _Compiled, year: int
) -> Reason | None:
    if kind not in CRAWLED_KINDS and not (kind == "feed" and made.cfg.frontier.feeds):
        return Reason.MEDIA_NOT_CRAWLED
    if kind == "redirect" and (row["redirects"] or 0) >= made.cfg.fetch.max_redirects:
        return Reason.REDIRECT_TOO_LONG
    return made.refusal(url, depth, year, kind != "feed")
