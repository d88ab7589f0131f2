"""Structured data of a page: JSON-LD, microdata (HTML Standard 5) and RDFa Lite 1.1, within bounds.

Each kind costs a substring search where it is absent. Values are text as written; addresses are not
resolved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_BLOCKS = 50  # JSON-LD scripts
MAX_BLOCK_CHARS = 256 * 1024
MAX_ITEMS = 200  # of microdata or RDFa
MAX_PROPERTIES = 2000
MAX_VALUE_CHARS = 2000
MAX_CLIMB = 600  # levels looked up for the item that a property belongs to

_COMMENT = re.compile(r"\A\s*(?:<!--|//\s*<!\[CDATA\[|<!\[CDATA\[)|(?:-->|//\s*\]\]>|\]\]>)\s*\Z")
_URL_VALUED = {
    "a": "href",
    "area": "href",
    "link": "href",
    "object": "data",
    **dict.fromkeys("audio embed iframe img source track video".split(), "src"),
}


def json_ld(blocks: Iterable[str]) -> tuple[list[Any], int]:
    """Parsed blocks, and the number of those that are not JSON or are too large."""
    out, bad = [], 0
    for n, text in enumerate(blocks):
        if n >= MAX_BLOCKS or len(text) > MAX_BLOCK_CHARS:
            bad += 1
            continue
        try:
            out.append(
                json.loads(_COMMENT.sub("", text), strict=False, parse_constant=lambda _: None)
            )
        except (ValueError, RecursionError):
            bad += 1
    return out, bad


def microdata(tree: LexborHTMLParser, raw: bytes) -> list[dict[str, Any]]:
    """Top-level items: {"type": [...], "id": ..., "properties": {name: [value or item, ...]}};
    itemref is not followed.
    """
    if b"itemscope" not in raw and b"ITEMSCOPE" not in raw:
        return []
    return _items(tree, "[itemscope]", "[itemprop]", "itemscope", "itemprop", "itemtype", "itemid")


def rdfa(tree: LexborHTMLParser, raw: bytes) -> list[dict[str, Any]]:
    """Top-level typed resources in the form of `microdata`; prefixes are kept as written."""
    if b"typeof" not in raw and b"TYPEOF" not in raw:
        return []
    return _items(tree, "[typeof]", "[property]", "typeof", "property", "typeof", "resource")


def _items(
    tree: LexborHTMLParser,
    scopes: str,
    properties: str,
    scope: str,
    prop: str,
    type_: str,
    id_: str,
) -> list[dict[str, Any]]:
    items: dict[int, dict[str, Any]] = {}
    top = []
    for node in tree.css(scopes)[:MAX_ITEMS]:
        attributes = node.attributes
        item: dict[str, Any] = {
            "type": (attributes.get(type_) or "")[:MAX_VALUE_CHARS].split(),
            "properties": {},
        }
        if attributes.get(id_):
            item["id"] = (attributes[id_] or "")[:MAX_VALUE_CHARS]
        items[node.mem_id] = item
        if prop not in attributes:
            top.append(item)
    for node in tree.css(properties)[:MAX_PROPERTIES]:
        attributes = node.attributes
        owner = _owner(node, items)
        if owner is None:
            continue
        value = (
            items[node.mem_id]
            if node.mem_id in items
            else _value(node, attributes, prop == "property")
        )
        for name in (attributes.get(prop) or "")[:MAX_VALUE_CHARS].split()[:20]:
            owner["properties"].setdefault(name, []).append(value)
    return top


def _owner(node: LexborNode, items: dict[int, dict[str, Any]]) -> dict[str, Any] | None:
    parent = node.parent
    for _ in range(MAX_CLIMB):
        if parent is None:
            return None
        if parent.mem_id in items:
            return items[parent.mem_id]
        parent = parent.parent
    return None


def _value(node: LexborNode, attributes: dict[str, str | None], content_anywhere: bool) -> str:
    tag = node.tag or ""
    if "content" in attributes and (content_anywhere or tag == "meta"):
        value = attributes["content"]
    elif tag in _URL_VALUED and _URL_VALUED[tag] in attributes:
        value = attributes[_URL_VALUED[tag]]
    elif tag == "time" and "datetime" in attributes:
        value = attributes["datetime"]
    elif tag in ("data", "meter"):
        value = attributes.get("value")
    else:
        value = node.text()
    return " ".join((value or "").split())[:MAX_VALUE_CHARS]
