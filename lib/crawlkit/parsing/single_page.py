"""One page by itself, read as the parse stage reads it."""

from __future__ import annotations

import json
from typing import Any

from crawlkit.config import Config
from crawlkit.rules.http.content_coding import decode_body
from crawlkit.rules.page.links import Link
from crawlkit.rules.page.page import parse_page
from crawlkit.rules.url.canonical import canonicalize
from crawlkit.rules.url.policy import UrlPolicy


def parse_one(
    body: bytes,
    url: str,
    cfg: Config,
    content_type: str | None = None,
    headers: list[tuple[str, str]] | None = None,
) -> dict[str, Any]:
    """What the parse stage reads from a body: title, texts, links, robots directives, digests.

    body: with its content coding. Raises Refused (no such URL).
    """
    policy = UrlPolicy.of(cfg.urls)
    decoded = decode_body(body, headers or ())
    page = parse_page(
        decoded.body,
        canonicalize(url, policy=policy),
        content_type,
        headers or (),
        cfg.agent.name,
        policy,
    )
    robots, meta = page.robots, page.metadata
    return {
        "url": page.url,
        "kind": page.kind,
        "charset": page.encoding.name if page.encoding else None,
        "title": page.title,
        "headline": meta.headline or page.title,
        "author": meta.author,
        "published": meta.published,
        "published_on": meta.published_on,
        "description": meta.description,
        "language": page.language,
        "canonical": page.links.canonical,
        "robots": list(robots.directives),
        "noindex": robots.noindex,
        "nofollow": robots.nofollow,
        "text": page.text,
        "main_text": page.main_text,
        "page_kind": page.page_kind,
        "links": [_link_row(link) for link in page.links.links],
        "needs_js": page.needs_js,
        "structured": json.loads(json.dumps(page.structured, default=str)),
        "body_sha256": page.body_sha256,
        "text_sha256": page.prints.text_sha256,
        "simhash": page.prints.simhash,
        "flags": list(page.flags),
        "error": None if page.error is None else str(page.error),
    }


def _link_row(link: Link) -> dict[str, Any]:
    return {
        "kind": link.kind,
        "url": link.url,
        "anchor": link.anchor,
        "rel": link.rel,
        "refused": None if link.refused is None else str(link.refused),
    }
