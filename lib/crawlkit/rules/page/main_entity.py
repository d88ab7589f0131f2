"""Date and author of what a page is about: of its main entity, never of a review, a comment or a
list of other pages that stands on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawlkit.rules.text.byline import MARKED, visible_author

MAX_NODES = 1000  # elements that are looked at
MAX_PARAGRAPHS = 2000
MAX_AUTHORS = 50
MAX_CLIMB = 600  # levels from an element up
MAX_VALUE_CHARS = 5000
LONG_CHARS = 250  # of a paragraph that counts with its full length

# schema.org types of what stands beside a page's main entity or under it
_BESIDE = re.compile(
    r"(?:Review|Comment|Answer|Rating|Person|Organization|Corporation|WebSite|BreadcrumbList"
    r"|ListItem|ItemList|ImageObject|Offer|Place|PostalAddress|Audience|SearchAction"
    r"|SiteNavigationElement|WPHeader|WPFooter|WPSideBar|WPAdBlock)$"
)
_ARTICLE = re.compile(r"(?:Article|Posting|Report|Recipe|HowTo|Episode)$")
_ADDRESS = re.compile(r"^(?:https?:)?//(?:www\.)?", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d")
_ASIDE = frozenset("nav aside footer".split())


def entity_items(json_ld: Iterable[Any], addresses: Iterable[str]) -> list[dict[str, Any]]:
    """JSON-LD items that may be the page's main entity, the likeliest first.

    An article that names the page (`mainEntityOfPage`, `@id` or `url`; addresses: the page's)
    comes first, then one that names none, then other things, then what names another page. What
    stands beside (reviews, comments, persons ...) only counts if it names the page, last.
    """
    own = {_bare(a) for a in addresses if a}
    ranked = [(_rank(item, own), n, item) for n, item in enumerate(_items(json_ld))]
    return [item for rank, _, item in sorted(ranked, key=lambda r: r[:2]) if rank < _NEVER]


_NEVER = 9


def _rank(item: dict[str, Any], own: set[str]) -> int:
    types = [str(t) for t in _listed(item.get("@type"))]
    named = _names_page(item, own)
    if any(_BESIDE.search(t) for t in types):
        return 6 if named else _NEVER
    is_article = any(_ARTICLE.search(t) for t in types)
    if named is False:
        return 4 if is_article else 5
    return (0 if named else 1) if is_article else (2 if named else 3)


def _names_page(item: dict[str, Any], own: set[str]) -> bool | None:
    """Whether an item says that it is the page's; None: it names no page."""
    of_page = item.get("mainEntityOfPage")
    values = [*_listed(of_page), item.get("url"), item.get("@id")]
    texts = [v.get("@id") or v.get("url") if isinstance(v, dict) else v for v in values]
    named = {_bare(t) for t in texts if isinstance(t, str) and _ADDRESS.match(t)}
    if of_page is True or of_page == "true" or named & own:
        return True
    return False if named else None


def _bare(address: str) -> str:
    """An address without what differs between names of one page."""
    return _ADDRESS.sub("", address.strip()).partition("#")[0].rstrip("/").lower()


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _items(json_ld: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Objects at the top of JSON-LD blocks: alone, in a list, in a @graph, or the main entity of
    one of them.
    """
    for block in json_ld:
        for item in _listed(block):
            if isinstance(item, dict):
                graph = item.get("@graph")
                for found in (item, *(graph if isinstance(graph, list) else ())):
                    if isinstance(found, dict):
                        yield found
                        yield from (e for e in _listed(found.get("mainEntity")) if _is_item(e))


def _is_item(value: Any) -> bool:
    return isinstance(value, dict) and "@type" in value


def json_ld_date(items: Iterable[dict[str, Any]]) -> str | None:
    """The first date of publication (else of creation) of `entity_items`."""
    for item in items:
        for name in ("datePublished", "dateCreated"):
            if isinstance(value := item.get(name), str) and value.strip():
                return value.strip()[:MAX_VALUE_CHARS]
    return None


def json_ld_author(items: Iterable[dict[str, Any]], json_ld: Iterable[Any]) -> str | None:
    """The authors' names of the first of `entity_items` that has any; one named by `@id` is looked
    up in `json_ld`.
    """
    named = {i.get("@id"): i for i in _items(json_ld) if isinstance(i.get("@id"), str)}
    for item in items:
        names: dict[str, None] = {}
        for author in _listed(item.get("author"))[:MAX_AUTHORS]:
            if isinstance(author, dict):
                key = author.get("@id")
                other = named.get(key, {}) if isinstance(key, str) else {}
                name = author.get("name") or other.get("name")
            else:
                name = author
            if isinstance(name, str) and name.strip():
                names[name.strip()] = None
        if names:
            return ", ".join(names)[:MAX_VALUE_CHARS]
    return None


class MarkedNodes:
    """Elements of a tree that tell its author or day: found once, in the page's order."""

    def __init__(self, tree: LexborHTMLParser) -> None:
        self._tree = tree

    @cached_property
    def _all(self) -> list[LexborNode]:
        return self._tree.css(f"time, meta[itemprop], {MARKED}")[:MAX_NODES]

    def author(self) -> str | None:
        """The author's name as readers see it."""
        return visible_author(self._all)

    def property_value(self, name: str) -> str | None:
        """The content of the meta element with this itemprop that is the main entity's."""
        nodes = [n for n in self._all if n.tag == "meta" and name in _properties(n)]
        return _nearest(self._tree, [n for n in nodes if not _is_beside(n)])

    def time_of_text(self) -> str | None:
        """The date of the time element that belongs to the main text: one that says that it is
        the date of publication, else the nearest; never one of a review or comment, and of those
        in navigation and footers only if there is no other.
        """
        times = [n for n in self._all if n.tag == "time" and _value(n) and not _is_beside(n)]
        said = [n for n in times if {"datepublished", "datecreated"} & {*_properties(n)}]
        said += [n for n in times if "pubdate" in n.attributes]
        inside = [n for n in times if not any(a.tag in _ASIDE for a in _ancestors(n))]
        return _nearest(self._tree, said or inside or times)


def _properties(node: LexborNode) -> list[str]:
    return (node.attributes.get("itemprop") or "").lower().split()[:10]


def _value(node: LexborNode) -> str:
    """The content of a meta element; the date of a time element (HTML Standard 4.5.14)."""
    given = node.attributes.get("content" if node.tag == "meta" else "datetime")
    if given is None and node.tag == "time":
        text = node.text(deep=True).strip()
        given = text if _DATE.match(text) else None
    return " ".join((given or "")[:MAX_VALUE_CHARS].split())


def _ancestors(node: LexborNode) -> Iterator[LexborNode]:
    parent, left = node.parent, MAX_CLIMB
    while parent is not None and left:
        yield parent
        parent, left = parent.parent, left - 1


def _is_beside(node: LexborNode) -> bool:
    """Whether it is a property of a review, a comment or the like (the innermost item's type)."""
    for a in _ancestors(node):
        attributes = a.attributes
        if "itemscope" in attributes:
            types = (attributes.get("itemtype") or "").split()[:10]
            return any(_BESIDE.search(t) for t in types)
    return False


def _nearest(tree: LexborHTMLParser, nodes: list[LexborNode]) -> str | None:
    """The value of the node that has the closest ancestor in common with the main text; of several
    the first.
    """
    values = [(n, v) for n in nodes if (v := _value(n))]
    if len({v for _, v in values}) < 2:
        return values[0][1] if values else None
    level = _levels(tree)
    far = len(level)

    def distance(node: LexborNode) -> int:
        return next((level[a.mem_id] for a in _ancestors(node) if a.mem_id in level), far)

    return min(values, key=lambda pair: distance(pair[0]))[1]


def _levels(tree: LexborHTMLParser) -> dict[int, int]:
    """The element that holds the most running text, and its ancestors: how many levels up."""
    votes: dict[int, int] = {}
    parents: dict[int, LexborNode] = {}
    for p in tree.css("p")[:MAX_PARAGRAPHS]:
        if p.parent is not None:
            key = p.parent.mem_id
            parents[key] = p.parent
            votes[key] = votes.get(key, 0) + min(len(p.text(deep=True)), LONG_CHARS)
    node = parents[max(votes, key=lambda k: votes[k])] if votes else None
    if node is None:
        node = tree.css_first("article") or tree.css_first("main") or tree.body
    if node is None:
        return {}
    return {n.mem_id: level for level, n in enumerate((node, *_ancestors(node)))}
