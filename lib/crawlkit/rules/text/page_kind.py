"""What kind of page it is, by what it says of itself (schema.org types, Open Graph)."""

from __future__ import annotations

import re

from crawlkit.rules.page.markup import Document

ARTICLE, PRODUCT, FORUM, LISTING = "article", "product", "forum", "listing"
MAX_JSON_CHARS = 256 * 1024  # of a script that is looked at
_TYPE = r'"@type"\s{0,9}:\s{0,9}(?:\[\s{0,9})?"(?:https?://schema\.org/)?'
# the first that is found decides: a product page may carry an article about the product
_TYPES = (
    (PRODUCT, re.compile(_TYPE + r'Product(?:Group)?"')),
    (FORUM, re.compile(_TYPE + r'(?:DiscussionForumPosting|QAPage)"')),
    (ARTICLE, re.compile(_TYPE + r'[A-Za-z]{0,30}(?:Article|BlogPosting)"')),
    (LISTING, re.compile(_TYPE + r'(?:CollectionPage|ItemList|SearchResultsPage)"')),
)
_DATED = ("article:published_time", "article:author", "article:section", "datepublished")


def page_kind(doc: Document) -> str | None:
    """article, product, forum or listing; None: the page does not say."""
    open_graph, dated = "", False
    for attributes, _ in doc.metas:
        name = (attributes.get("property") or attributes.get("name") or "").lower()
        if name == "og:type":
            open_graph = (attributes.get("content") or "").lower()
        dated = dated or name in _DATED
    scripts = [text[:MAX_JSON_CHARS] for text in doc.json_ld]
    for kind, pattern in _TYPES:
        if kind == PRODUCT and open_graph == "article":
            continue
        if kind == ARTICLE and dated:
            return ARTICLE
        if any(map(pattern.search, scripts)):
            return kind
    return PRODUCT if open_graph.startswith("product") else None
