"""Main text of a page: of an article its text, of any other page the whole without what stands
round it.

Where a page says that it is an article, its text counts if it is most of the page's prose, or a
fair part of the page; where it does not say, if it is most of the page.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

from crawlkit.rules.page.markup import Document
from crawlkit.rules.page.structured_data import json_ld
from crawlkit.rules.text.article_text import article_text, prose_chars
from crawlkit.rules.text.page_kind import ARTICLE, PRODUCT, page_kind
from crawlkit.rules.text.whole_text import whole_text

MOST_PROSE = 0.8  # of the page's prose in an article's text
PARAGRAPH_CHARS = 80  # of prose, from which a block is a paragraph
FEWEST_PARAGRAPHS = 2  # of an article that is a small part of its page: else that is a list
FAIR_PART = 0.3  # of the whole text, of a page that says that it is an article
MOST_TEXT = 0.6  # likewise, of a page that does not say
_DESCRIBED = 0.5  # of a product's description that its page shows, else it is added
_TAG = re.compile(r"<[^<>]{0,1000}>")
_WORDS = re.compile(r"\w+")


def main_text(doc: Document, kind: str | None = None) -> str:
    """One line for each block. kind: `page_kind`; None: it is asked for here."""
    kind = kind or page_kind(doc)
    article = article_text(doc)
    if article and kind in (ARTICLE, None):
        # the whole text is no longer than all text, so often it need not be looked for
        least = FAIR_PART if kind else MOST_TEXT
        if len(article) >= least * sum(len(b.text) + 1 for b in doc.blocks):
            return article
    whole = whole_text(doc)
    if article and kind in (ARTICLE, None) and _is_article(doc, article, whole, kind):
        return article
    if kind == PRODUCT:
        return _with_description(doc, whole)
    return whole


def _is_article(doc: Document, article: str, whole: str, kind: str | None) -> bool:
    part = len(article) / max(len(whole), 1)
    if kind is None:
        return part >= MOST_TEXT
    if part >= FAIR_PART:
        return True
    own, all_ = _prose(doc, article), _prose(doc, whole)
    paragraphs = sum(chars >= PARAGRAPH_CHARS for chars in own)
    return paragraphs >= FEWEST_PARAGRAPHS and sum(own) >= MOST_PROSE * sum(all_)


def _prose(doc: Document, text: str) -> list[int]:
    lines = set(text.split("\n"))
    return [prose_chars(b) for b in doc.blocks if b.text in lines]


def _with_description(doc: Document, text: str) -> str:
    """The text of a product's page, with its description where scripts alone show it."""
    found = max(_descriptions(json_ld(doc.json_ld)[0]), key=len, default="")
    described = " ".join(_TAG.sub(" ", html.unescape(found)).split())
    words = _WORDS.findall(described.lower())
    shown = set(_WORDS.findall(text.lower()))
    if len(words) <= 20 or sum(word in shown for word in words) >= _DESCRIBED * len(words):
        return text
    return f"{described}\n{text}".rstrip()


def _descriptions(items: list[Any]) -> Iterator[str]:
    stack, left = list(items), 1000
    while stack and left:
        item, left = stack.pop(), left - 1
        if isinstance(item, list):
            stack += item[:left]
        elif isinstance(item, dict):
            types = item.get("@type")
            is_product = any(t in ("Product", "ProductGroup") for t in (types, *_listed(types)))
            if is_product and isinstance(item.get("description"), str):
                yield item["description"]
            stack += [item[key] for key in ("@graph", "mainEntity") if key in item]


def _listed(value: Any) -> list[Any]:
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []
