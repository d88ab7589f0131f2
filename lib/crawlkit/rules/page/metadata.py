"""Metadata of a page from its meta elements, time elements and JSON-LD: description, author, date,
Open Graph, languages. Author and date are those of its main entity (main_entity.py); where nothing
says them, those that its readers see (rules/text/byline.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from crawlkit.rules.page.main_entity import (
    MarkedNodes,
    entity_items,
    json_ld_author,
    json_ld_date,
)
from crawlkit.rules.page.markup import Document
from crawlkit.rules.text.byline import read_name, visible_day
from crawlkit.rules.text.headline import headline
from crawlkit.rules.text.written_dates import read_day

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
_OF_ITEMS = ("author", "datepublished")
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
    headline: str | None = None  # the title as readers see it, without the site's name
    description: str | None = None
    keywords: str | None = None
    author: str | None = None
    published: str | None = None  # as written
    published_on: str | None = None  # YYYY-MM-DD
    declared_language: str | None = None
    generator: str | None = None
    og: dict[str, str] = field(default_factory=dict)  # og:* properties; the first of each counts
    other: dict[str, str] = field(
        default_factory=dict
    )  # further vocabularies (article:*, twitter:*, dc.*)


def read_metadata(
    doc: Document,
    json_ld: Sequence[Any] = (),
    content_language: str | None = None,
    addresses: Sequence[str | None] = (),
) -> Metadata:
    """Metadata of a document. Never raises.

    Args:
        doc: the document.
        json_ld: its parsed JSON-LD.
        content_language: the header field of that name.
        addresses: of the page: its URL, its canonical link.
    """
    out = Metadata(title=doc.title)
    marked = MarkedNodes(doc.tree) if doc.tree is not None else None
    named, pragma_language = _read_metas(doc, out, marked)
    own = [*addresses, named.get("og:url")]
    items = entity_items(json_ld, [a for a in own if a])
    out.description = named.get("description")
    out.keywords = named.get("keywords")
    out.generator = named.get("generator")
    url = next((a for a in own if a), "")
    out.headline = headline(doc, url, named.get("og:title"), named.get("og:site_name"))
    out.author = _author(marked, named, json_ld_author(items, json_ld))
    out.published = _first(named, _PUBLISHED) or json_ld_date(items)
    if out.published is None and marked is not None:
        out.published = marked.time_of_text()
    if out.published is not None:
        out.published_on = read_day(out.published, doc.lang)
    elif seen := visible_day(doc, url):
        out.published, out.published_on = seen
    out.declared_language = (
        language_tag(doc.lang)
        or language_tag(pragma_language)
        or language_tag(content_language if "," not in (content_language or "") else None)
    )  # several: unknown (3.2.6.2)
    return out


def _author(marked: MarkedNodes | None, named: dict[str, str], of_entity: str | None) -> str | None:
    """Who wrote the page: an address or the name of the site is no author where a name is told."""
    site = (named.get("og:site_name") or "").casefold()
    told = [v for v in (*(named.get(n) for n in _AUTHOR), of_entity) if v]
    names = [t for t in told if read_name(t)]
    persons = [n for n in names if n.casefold() != site]
    if persons:
        return persons[0]
    seen = marked.author() if marked is not None else None
    return seen or next(iter(names or told), None)


def _read_metas(
    doc: Document, out: Metadata, marked: MarkedNodes | None
) -> tuple[dict[str, str], str]:
    """The first content of each name, and the language of a pragma. Open Graph and further
    vocabularies go into `out`.
    """
    named: dict[str, str] = {}
    of_items: set[str] = set()  # they may be those of a review on the page
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
            if name in _OF_ITEMS and name in attributes.get("itemprop", "").lower():
                of_items.add(name)
                continue
            if name not in named:
                named[name] = content
                if name.startswith("og:"):
                    out.og[name] = content
                elif name.startswith(_KEPT_PREFIXES):
                    out.other[name] = content
    for name in sorted(of_items - named.keys()):
        if marked is not None and (value := marked.property_value(name)):
            named[name] = value
    return named, pragma_language


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
