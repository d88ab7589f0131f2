"""HTML as one pass over a lexbor tree: what the markup says, before any address is resolved.

The pass is made in C (`native/_tree.c`); where that part is not built, `walk.Walk` makes it.

`read_html` gives the text blocks with their place in the tree, anchors, link and meta elements,
frames, images and media. Parsing follows the HTML Standard with scripting off, so `noscript` is
markup; `template` content is not part of the page, unless it is a declarative shadow root.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType

import selectolax.lexbor
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from crawlkit import native
from crawlkit.rules.page.nesting_guard import guard_nesting
from crawlkit.rules.page.walk import (
    ADDRESSES,
    FOREIGN,
    INVISIBLE,
    KINDS,
    MAX_ANCHOR_CHARS,
    MAX_ANCHORS,
    SKIP,
    WANTED,
    Anchor,
    Block,
    Image,
    Walk,
    image_of,
    is_image,
    style_code,
)

_OPTIONS = int(LexborDocumentOptions.WO_EVENTS)
_MEDIA = {
    "source": "src",
    "video": "src",
    "audio": "src",
    "track": "src",
    "embed": "src",
    "object": "data",
}


@dataclass
class Document:
    """What one page's markup says.

    Elements are (index of the parent block element, tag, class and id); the first is a root.
    """

    blocks: list[Block] = field(default_factory=list)
    elements: list[tuple[int, str, str]] = field(default_factory=list)
    anchors: list[Anchor] = field(default_factory=list)
    metas: list[tuple[dict[str, str], int]] = field(default_factory=list)  # attributes, flags
    links: list[tuple[dict[str, str], int]] = field(default_factory=list)  # those of LINK_RELS
    frames: list[tuple[str, str]] = field(default_factory=list)  # tag, src
    images: list[Image] = field(default_factory=list)
    media: list[str] = field(default_factory=list)
    json_ld: list[str] = field(default_factory=list)
    title: str | None = None
    lang: str | None = None
    base_href: str | None = None
    anchors_dropped: int = 0  # beyond MAX_ANCHORS
    flags: list[str] = field(default_factory=list)  # what the guard had to do
    tree: LexborHTMLParser | None = None

    @property
    def text(self) -> str:
        """Visible text: one line for each block, white space collapsed."""
        return "\n".join([b[0] for b in self.blocks])

    def clean_sha256(self) -> str:
        """SHA-256 (hex) of the page without scripts, styles, comments, attributes and white space:
        structure, text, links.
        """
        parts = [
            " ".join([e[1] for e in self.elements]),
            self.text,
            *[a.href for a in self.anchors],
        ]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def parse_tree(markup: str | bytes) -> tuple[LexborHTMLParser, list[str]]:
    """Tree of a page (bytes: in UTF-8), and what had to be cut for it to be built in linear time.

    Never raises.
    """
    safe, cut = guard_nesting(_shadow_roots(_raw(markup)))
    return LexborHTMLParser(safe, options=_OPTIONS), cut


# comments and scripts hold no tags
_TEMPLATE = re.compile(
    rb"<!--(?:-?>|.*?(?:--!?>|\Z))|<script(?=[\t\n\x0c\r"
    rb" />]).*?(?:</script|\Z)|<(/?)template(?=[\t\n\x0c\r />])(?:(?=[^<>]{0,500}?[\t\n\x0c\r"
    rb" /\"']shadowrootmode[\t\n\x0c\r ]*=[\t\n\x0c\r ]*[\"']?(?:open|closed)(?![a-z]))())?",
    re.IGNORECASE | re.DOTALL,
)


_OPENS_TEMPLATE = re.compile(rb"<template", re.IGNORECASE)


def _shadow_roots(raw: bytes) -> bytes:
    """The page with its declarative shadow roots (HTML Standard 13.2.6.4.4) as elements: a browser
    shows them, and lexbor takes them for templates.
    """
    if (
        _OPENS_TEMPLATE.search(raw) is None or b"shadowrootmode" not in raw.lower()
    ):  # few pages need the copy
        return raw
    shown: list[bool] = []  # of the open templates

    def renamed(match: re.Match[bytes]) -> bytes:
        if match[1] is None:
            return match[0]
        if match[1]:
            return b"</shadow-root" if shown and shown.pop() else match[0]
        shown.append(match[2] is not None and all(shown[-1:]))
        return b"<shadow-root" if shown[-1] else match[0]

    return _TEMPLATE.sub(renamed, raw)


def read_html(markup: str | bytes) -> Document:
    """Everything that the later steps need of a page's markup, in one pass. Never raises."""
    return _read(_raw(markup), True)


def read_addresses(markup: str | bytes) -> Document:
    """Only what names an address (anchors without their text, link, meta, base and frame elements):
    for callers that want links.
    """
    return _read(_raw(markup), False)


def _read(raw: bytes, text: bool) -> Document:
    tree, cut = parse_tree(raw)
    doc = Document(flags=cut, tree=tree)
    if tree.root is None:
        return doc
    if _tree is None:
        found = Walk(tree, raw, text).run(tree.root)
    else:
        found = _tree.walk(tree.root.mem_id, text, MAX_ANCHORS, MAX_ANCHOR_CHARS)
    doc.blocks, doc.elements, doc.anchors, doc.metas, wanted, doc.anchors_dropped = found
    for element in wanted:
        if type(element) is Image:
            doc.images.append(element)
        else:
            _note(doc, *element)
    return doc


def _raw(markup: str | bytes) -> bytes:
    return markup if isinstance(markup, bytes) else markup.encode("utf-8", "replace")


def _note(doc: Document, tag: str, raw: dict[str, str], flags: int, text: str) -> None:
    """What an element says beside the text around it.

    `raw`: its attributes; `text`: what is inside a title or script.
    """
    if tag == "link":
        doc.links.append((raw, flags))
    elif is_image(tag, raw):
        doc.images.append(image_of(raw))
    elif tag == "base":
        if doc.base_href is None and "href" in raw:
            doc.base_href = raw["href"]
    elif tag == "title":
        doc.title = doc.title or " ".join(text.split()) or None
    elif tag in _MEDIA:
        if address := raw.get(_MEDIA[tag]):
            doc.media.append(address)
        if poster := raw.get("poster"):
            doc.images.append(Image(poster, "", "", "", ""))
    elif tag == "iframe" or tag == "frame":
        if src := raw.get("src"):
            doc.frames.append((tag, src))
    elif tag == "html":
        doc.lang = raw.get("lang") or raw.get("xml:lang") or None
    elif tag == "script" and "ld+json" in raw.get("type", "").lower():
        doc.json_ld.append(text)


_SRCSET_URL = re.compile(r"[\t\n\x0c\r ,]*+([^\t\n\x0c\r ]++)")
_SRCSET_DESCRIPTORS = re.compile(r"(?>[^,(]++|\([^)]*+\)?)*+")


def srcset_urls(srcset: str) -> Iterator[str]:
    """Addresses of a srcset attribute (HTML Standard, parsing a srcset attribute)."""
    pos = 0
    while m := _SRCSET_URL.match(srcset, pos):
        url, pos = m[1], m.end()
        if url.endswith(","):
            url = url.rstrip(",")
        else:
            pos = _SRCSET_DESCRIPTORS.match(srcset, pos).end()  # type: ignore[union-attr]
        yield url


def _load_tree() -> ModuleType | None:
    """The part in C, ready; None where it is not built, or selectolax is laid out otherwise."""
    part = native.load("_tree")
    kinds = {
        tag: (
            *kind,
            0 if tag not in WANTED else 2 if tag in ADDRESSES or tag in ("a", "area") else 1,
        )
        for tag, kind in KINDS.items()
    }
    try:
        if part is not None:
            types, flags = (Block, Anchor, Image), (SKIP, FOREIGN, INVISIBLE)
            part.prepare(selectolax.lexbor.__file__, kinds, types, *flags, style_code)
    except ImportError:
        return None
    return part


_tree = _load_tree()
