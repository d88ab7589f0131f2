"""One stored capture -> its page row, links, found rows and rejects.

Runs in a parser child; pure but for `read`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

from crawlkit.model import header_list
from crawlkit.outcomes import Reason, Refused
from crawlkit.parsing.discovery import (
    FoundRow,
    ParsedRow,
    ParseRules,
    Row,
    add_links,
    add_reject,
    new_result,
)
from crawlkit.parsing.plugins import parser_plugins
from crawlkit.parsing.sitemap import read_sitemap
from crawlkit.rules.feeds.gzip_text import MAX_BYTES
from crawlkit.rules.http.content_coding import MAX_DECODED_BYTES, decode_body
from crawlkit.rules.http.content_types import media_type
from crawlkit.rules.page.links import Link
from crawlkit.rules.page.page import Page, parse_page
from crawlkit.rules.render.cloaking import compare_rendered
from crawlkit.rules.requisites.page_requisites import sheet_requisites
from crawlkit.rules.requisites.style_sheets import decode_css
from crawlkit.rules.robots.meta import RobotsDirectives
from crawlkit.rules.robots.meta_dates import has_passed
from crawlkit.rules.robots.opt_outs import is_reserved, opts_out
from crawlkit.rules.url.pattern import url_shape
from crawlkit.version import __version__

Headers = list[tuple[str, str]]
ReadRecord = Callable[[str, int, int], tuple[Headers, bytes]]  # (file, offset, length)


def _redirect_link(item: Row) -> Link:
    kind = "requisite" if item["kind"] == "requisite" else "redirect"
    return Link(kind, item["redirect_to"], sent_url=item["redirect_sent_url"])


def parse_item(item: Row, read: ReadRecord, rules: ParseRules) -> ParsedRow:
    """The row of PARSED_SCHEMA for one item (ITEM_COLUMNS).

    Never raises for what is in the record. read: (file, offset, length) -> headers and payload of
    the stored response; raises Refused for a damaged record.
    """
    out = new_result(item["capture_id"])
    if item["outcome"] == "redirected":
        add_links(out, item, [_redirect_link(item)], rules)
        return out
    try:
        headers, payload = read(item["file"], item["offset"], item["length"])
        if item["kind"] == "render":
            _read_rendered(out, item, payload, read, rules)
            return out
    except Refused as e:
        add_reject(out, item["url"], e.reason, e.detail)
        return out
    limit = MAX_DECODED_BYTES if item["kind"] in ("page", "requisite") else MAX_BYTES
    decoded = decode_body(payload, headers, limit)
    if decoded.raw_kept:
        add_reject(out, item["url"], Reason.BODY_UNDECODABLE, decoded.error or "")
        return out
    if item["kind"] == "requisite":
        css = decode_css(decoded.body, item["content_type"])
        add_links(out, item, sheet_requisites(css, item["url"], rules.policy), rules)
        return out
    cut = bool(decoded.truncated or decoded.error)
    if item["kind"] != "page" and read_sitemap(out, item, decoded.body, cut, rules, headers):
        return out
    page = parse_page(
        decoded.body,
        item["url"],
        item["content_type"],
        headers,
        rules.cfg.agent.name,
        rules.policy,
        parser_plugins(),
        rules.requisites,
    )
    row = out["page"] = _page_row(page, len(decoded.body), item, cut, rules)
    add_links(out, item, page.links.links, rules)
    row["links"] = len(out["links"])
    if _many_of_one_shape(out["found"], rules.cfg.parse.same_shape):
        row["flags"] = sorted([*row["flags"], "many_same_shape"])
    add_links(out, item, page.requisites, rules)
    return out


def _read_rendered(
    out: ParsedRow, item: Row, html: bytes, read: ReadRecord, rules: ParseRules
) -> None:
    """Record a rendered page, its links, and what the stored one had. Raises Refused.

    The header fields are those of the stored answer.
    """
    if not item["doc_filename"]:
        raise Refused(Reason.WARC_DAMAGED, "the document that was rendered is not known")
    headers, payload = read(item["doc_filename"], item["doc_offset"], item["doc_length"])
    stored = decode_body(payload, headers, MAX_DECODED_BYTES)
    agent, policy = rules.cfg.agent.name, rules.policy
    kind = header_list(headers, "content-type")
    before = parse_page(stored.body, item["url"], kind, headers, agent, policy)
    page = parse_page(
        html,
        item["url"],
        item["content_type"],
        headers,
        agent,
        policy,
        requisites=rules.requisites,
    )
    row = out["page"] = _page_row(page, len(html), item, False, rules)
    add_links(out, item, page.links.links, rules)
    urls = ([link.url for link in read.links.links] for read in (before, page))
    compared = compare_rendered(before.text, page.text, *urls)
    row |= {
        "links": len(out["links"]),
        "needs_js": None,
        "rendered": True,
        "static_text_bytes": len(before.text.encode("utf-8", "replace")),
        "static_links": len(before.links.links),
        "static_similarity": compared.similarity,
        "cloaking": compared.cloaking,
        "flags": [flag for flag in row["flags"] if flag != "needs_js"],
    }
    add_links(out, item, page.requisites, rules)


def _many_of_one_shape(rows: list[FoundRow], limit: int) -> bool:
    """Whether more than `limit` outlinks have one shape (rules/url/pattern.py): the mark of
    pages that a program makes without end.
    """
    return len(rows) > limit and max(Counter(url_shape(r.url) for r in rows).values()) > limit


def _withheld(robots: RobotsDirectives, item: Row, rules: ParseRules) -> list[str]:
    """Why the text of a page is not kept, beside `noindex`: as flags."""
    after = robots.unavailable_after
    is_over = after is not None and has_passed(after, rules.iso_now)
    by_host = bool(item["reserves"]) and is_reserved(item["reserves"], item["url"])
    opted_out = rules.cfg.parse.enforce_opt_outs and (by_host or opts_out(robots))
    return ["unavailable"] * is_over + ["opted_out"] * opted_out


def _page_row(page: Page, decoded_bytes: int, item: Row, cut: bool, rules: ParseRules) -> Row:
    """The columns of `pages`. cut: the body is not whole."""
    robots, meta = page.robots, page.metadata
    withheld = _withheld(robots, item, rules)
    keep = not (robots.noindex or withheld)
    prints = page.prints
    return {
        "url_key": item["url_key"],
        "url": item["url"],
        "host": item["host"],
        "parser_version": __version__,
        "kind": page.kind,
        "media_type": media_type(item["content_type"]) or None,
        "charset": page.encoding.name if page.encoding else None,
        "title": meta.title,
        "headline": meta.headline or meta.title,
        "description": meta.description,
        "keywords": meta.keywords,
        "author": meta.author,
        "published": meta.published,
        "published_on": meta.published_on,
        "declared_language": meta.declared_language,
        "language": page.language,
        "robots_meta": list(robots.directives),
        "noindex": robots.noindex,
        "nofollow": robots.nofollow,
        "canonical": page.links.canonical,
        "signals": _signals(page),
        "metadata": _structured_json(page) if keep else None,
        "text": page.text if keep and page.text else None,
        "main_text": page.main_text if keep and page.main_text else None,
        "page_kind": page.page_kind,
        "text_bytes": len(page.text.encode("utf-8", "replace")),
        "decoded_bytes": decoded_bytes,
        "body_sha256": page.body_sha256,
        "clean_sha256": page.clean_sha256,
        "text_sha256": prints.text_sha256 if keep else None,
        "simhash": prints.simhash if keep else None,
        "minhash": prints.minhash if keep else None,
        "links": 0,
        "needs_js": page.needs_js,
        "rendered": False,
        "flags": sorted([*_flags(page, cut or bool(item["truncated"])), *withheld]),
    }


def _flags(page: Page, is_truncated: bool) -> list[str]:
    flags = {*page.flags}
    named = (
        (is_truncated, "truncated"),
        (page.robots.noindex, "noindex"),
        (page.robots.nofollow, "nofollow"),
        (page.needs_js is not None, "needs_js"),
        (page.robots.noarchive, "noarchive"),
        (page.error == Reason.CONTENT_TYPE_NOT_PARSED, "content_type_not_parsed"),
        (page.error and page.error != Reason.CONTENT_TYPE_NOT_PARSED, "text_partial"),
    )
    return sorted(flags | {name for holds, name in named if holds})


def _signals(page: Page) -> str | None:
    """The page's opt-out signals for AI and text and data mining, as JSON."""
    signals = {
        "ai": list(page.robots.ai_signals),
        "tdm_reservation": page.robots.tdm_reservation,
        "tdm_policy": page.robots.tdm_policy,
    }
    is_said = any(v not in (None, []) for v in signals.values())
    return json.dumps(signals, sort_keys=True) if is_said else None


def _structured_json(page: Page) -> str | None:
    """Open Graph and structured data, as JSON."""
    data = {"open_graph": page.metadata.og, **page.structured}
    kept = {name: v for name, v in data.items() if v}
    return json.dumps(kept, sort_keys=True, default=str) if kept else None
