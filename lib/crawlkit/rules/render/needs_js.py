"""Which pages need a browser (REQUIREMENTS L1): what their stored HTML lacks, and why."""

from __future__ import annotations

import re
from enum import StrEnum

from crawlkit.rules.page.markup import Document

MIN_TEXT_CHARS = 200
MIN_HTML_BYTES = 5000
MAX_NOSCRIPTS = 20  # that are read
_ROOT = re.compile(
    rb"__NEXT_DATA__|__nuxt|__NUXT__|\bng-app\b|<app-root\b|ng-version=|data-reactroot|data-v-app"
    rb"|___gatsby|<[A-Za-z-]{2,30}\s[^<>]{0,300}?id\s*=\s*[\"']?(?:root|app|svelte|__next|q-app)"
    rb"[\"'\s>]",
    re.IGNORECASE,
)
_SCRIPT = re.compile(rb"<script[\s>]", re.IGNORECASE)
_ASKS_FOR_SCRIPTS = re.compile(rb"java\s?script|enable scripts?\b", re.IGNORECASE)
_NOSCRIPT = re.compile(rb"<noscript[^<>]{0,200}>", re.IGNORECASE)
_END = re.compile(rb"</noscript", re.IGNORECASE)
_TAG = re.compile(rb"<[^<>]{0,2000}>")


class NeedsJs(StrEnum):
    """Why a page needs a browser: `pages.needs_js`."""

    FRAMEWORK_ROOT = "framework_root"  # the empty root of a known framework
    NOSCRIPT = "noscript"  # its noscript text asks for JavaScript
    LITTLE_TEXT = "little_text"  # under MIN_TEXT_CHARS in HTML over MIN_HTML_BYTES
    NO_LINKS = "no_links"  # not one link in HTML over MIN_HTML_BYTES


def needs_js(
    markup: bytes, doc: Document, state_chars: int = 0, state_links: int = 0
) -> NeedsJs | None:
    """Why the page needs a browser; None: it has its text and links, or no script to bring them.

    markup: UTF-8. state_chars, state_links: what its inlined JSON holds (inlined_state.py).
    """
    said = _noscript(markup)
    chars = state_chars + sum(len(b.text) for b in doc.blocks) - len(b" ".join(said.split()))
    links = len(doc.anchors) + state_links
    is_large = len(markup) > MIN_HTML_BYTES
    has_text = chars >= MIN_TEXT_CHARS
    if (has_text and (links or not is_large)) or _SCRIPT.search(markup) is None:
        return None
    if not has_text:
        if _ROOT.search(markup) is not None:
            return NeedsJs.FRAMEWORK_ROOT
        if _ASKS_FOR_SCRIPTS.search(said):
            return NeedsJs.NOSCRIPT
        return NeedsJs.LITTLE_TEXT if is_large else None
    return NeedsJs.NO_LINKS


def _noscript(markup: bytes) -> bytes:
    """What the first noscript elements say: no text of the page in a browser."""
    said, at = b"", 0
    for _ in range(MAX_NOSCRIPTS):
        start = _NOSCRIPT.search(markup, at)
        end = start and _END.search(markup, start.end())
        if start is None or end is None:
            break
        at = end.end()
        said += _TAG.sub(b" ", markup[start.end() : end.start()]) + b" "
    return said
