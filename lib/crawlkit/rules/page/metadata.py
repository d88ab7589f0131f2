"""Metadata of a page from its meta elements, time elements and JSON-LD: description, author, date,
Open Graph, languages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from crawlkit.rules.page.markup import Document

MAX_VALUE_CHARS = 5000
MAX_PROPERTIES = 200

# in the order of preference
_PUBLISHED = (
    "article:published_time",
    "datepublished",
    "og:published_time",
    "parsely-pub-date",
    "sailthru.date",
    "pubdate",
    "publishdate",
    "dc.date.issued",
    "dcterms.created",
    "dcterms.date",
    "dc.date",
    "date",
)
_AUTHOR = (
    "author",
    "article:author",
    "parsely-author",
    "sailthru.author",
    "dc.creator",
    "dcterms.creator",
    "byl",
)
_KEPT_PREFIXES = (
    "article:",
    "book:",
    "profile:",
    "video:",
    "music:",
    "product:",
    "twitter:",
    "al:",
    "fb:",
    "dc.",
    "dcterms.",
)


@dataclass
class Metadata:
    title: str | None = None
    description: str | None = None
    keywords: str | None = None
    author: str | None = None
    published: str | None = None  # as written
    declared_language: str | None = None
    generator: str | None = None
    og: dict[str, str] = field(default_factory=dict)  # og:* properties; the first of each counts
    other: dict[str, str] = field(
        default_factory=dict
    )  # further vocabularies (article:*, twitter:*, dc.*)


def read_metadata(
    doc: Document, json_ld: Iterable[Any] = (), content_language: str | None = None
) -> Metadata:
    """Metadata of a document; `json_ld`: its parsed JSON-LD, `content_language`: the field of that
    name. Never raises.
    """
    out = Metadata(title=doc.title)
    named: dict[str, str] = {}
    pragma_language = ""
    for attributes, _ in doc.metas:
        content = " ".join(attributes.get("content", "")[:MAX_VALUE_CHARS].split())
        if (
            attributes.get("http-equiv", "").lower() == "content-language"
            and content
            and "," not in content
        ):
            pragma_language = content.partition(" ")[0]  # HTML Standard 4.2.5.3
        # property (RDFa) and itemprop (HTML Standard 5.2.3) are lists
        for name in (
            *attributes.get("property", "").lower().split()[:10],
            attributes.get("name", "").strip().lower(),
            *attributes.get("itemprop", "").lower().split()[:10],
        ):
            if not name or not content or len(named) >= MAX_PROPERTIES:
                continue
            if name not in named:
                named[name] = content
                if name.startswith("og:"):
                    out.og[name] = content
                elif name.startswith(_KEPT_PREFIXES):
                    out.other[name] = content
    items = list(_items(json_ld))
    out.description = named.get("description")
    out.keywords = named.get("keywords")
    out.generator = named.get("generator")
    out.author = _first(named, _AUTHOR) or _json_ld_author(items)
    out.published = (
        _first(named, _PUBLISHED)
        or _json_ld_text(items, "datePublished")
        or next(iter(doc.times), None)
    )
    out.declared_language = (
        language_tag(doc.lang)
        or language_tag(pragma_language)
        or language_tag(content_language if "," not in (content_language or "") else None)
    )  # several: unknown (3.2.6.2)
    return out


def language_tag(value: str | None) -> str | None:
    """First language tag of an attribute or Content-Language field, if it has the shape of one (BCP
    47); case kept.
    """
    tag = (value or "").partition(",")[0].strip().replace("_", "-")[:40]
    parts = tag.split("-")
    return (
        tag
        if parts[0].isalpha()
        and 2 <= len(parts[0]) <= 8
        and all(p.isalnum() and p.isascii() and len(p) <= 8 for p in parts)
        else None
    )


def _first(named: dict[str, str], names: Iterable[str]) -> str | None:
    return next((named[n] for n in names if n in named), None)


def _items(json_ld: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Objects at the top of JSON-LD blocks: alone, in a list, or in a @graph."""
    for block in json_ld:
        for item in block if isinstance(block, list) else [block]:
            if isinstance(item, dict):
                yield item
                graph = item.get("@graph")
                yield from (
                    (g for g in graph if isinstance(g, dict)) if isinstance(graph, list) else ()
                )


def _json_ld_text(items: list[dict[str, Any]], key: str) -> str | None:
    return next(
        (
            v.strip()[:MAX_VALUE_CHARS]
            for i in items
            if isinstance(v := i.get(key), str) and v.strip()
        ),
        None,
    )


def _json_ld_author(items: list[dict[str, Any]]) -> str | None:
    for item in items:
        found = item.get("author")
        for author in found if isinstance(found, list) else [found]:
            name = author.get("name") if isinstance(author, dict) else author
            if isinstance(name, str) and name.strip():
                return name.strip()[:MAX_VALUE_CHARS]
    return None
