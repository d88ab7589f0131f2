"""Text of a page that is no article: all of it without what stands round it on every page of a site
(navigation, header, footer, side bars, consent, sharing) and what is hidden.

A name counts where it is a whole word of a class or id, and where its element holds a minor part of
the text. Words that layouts use for other ends (`overflow-hidden`, `hidden-xs`) count as a whole
class alone.
"""

from __future__ import annotations

import re
from functools import lru_cache

from crawlkit.rules.page.markup import Document

# tag -> share of the text up to which it is no content
_TAGS = {
    **dict.fromkeys(("nav", "footer", "menu", "select", "dialog", "button"), 0.8),
    "aside": 0.6,
    "header": 0.3,
    "form": 0.3,
}
_CONTENT_TAGS = ("body", "html", "main", "article")
_WORD = r"(?:^|[\s_-])(?:%s)(?:$|[\s_-])"
_CONSENT = re.compile(
    _WORD % r"cookies?|cookie-?\w+|consent\w*|gdpr|onetrust\w*|didomi\w*|usercentrics\w*",
    re.IGNORECASE,
)
_OTHER = re.compile(
    _WORD
    % (
        r"newsletter\w*|foot(?:er\w*)?|breadcrumbs?|navbar|nav|navigation|subnav|menu|mega-?menu"
        r"|site-?header|masthead|skip\w*|modal|popup|popover|lightbox|off-?canvas|drawer|toast"
        r"|sidebar|side-?nav|toc|related\w*|recommend\w*|upsells?|cross-?sells?|recently-viewed"
        r"|shar(?:e\w*|ing)|social\w*|subscri\w*|signup|login|signin|pagination|pager|ads?"
        r"|advert\w*|sponsor\w*|disqus\w*|taboola\w*|outbrain\w*|back-?to-?top|announcement\w*"
        r"|promo-?bar|top-?bar|mini-?cart|cart-?drawer|search-?form|country-?\w*|filters?|facets?"
        r"|sort-?by|toolbar|reviews?|variants?|commentlist|bio|stars?|price\w*|pricing|cart"
        r"|buy-?box|options?|add-?to-?\w*|qty|quantity|wishlist|swatch\w*|sellers?|payment\w*"
    ),
    re.IGNORECASE,
)
_HIDDEN = re.compile(
    r"(?:^|\s)(?:hide|hidden|is-hidden|d-none|visually-?hidden|screen-reader-text|sr-only"
    r"|slick-cloned|swiper-slide-duplicate|no-?print)(?:$|\s)",
    re.IGNORECASE,
)
_MAIN = re.compile(
    r"(?:^|\s)(?:main|content|main-?content|page-?content|site-?content|primary|site-main"
    r"|content-area|main-wrapper|page-main)(?:$|\s)",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
MAX_NAMES = 1000  # characters of class and id that are looked at
_MINOR = 0.5  # share of the text up to which a name counts
_MOST = 0.9  # likewise, of what is hidden
_NEARLY_ALL = 0.7  # of the text, that a main element holds if it is all there is
_REPEATED_CHARS = 20  # a longer line that is there again is told once


def whole_text(doc: Document) -> str:
    """One line for each block. Where names leave nothing, tags alone decide, then nothing does."""
    for by_name, by_tag in ((True, True), (False, True), (False, False)):
        lines = _lines(doc, by_name, by_tag)
        if lines:
            break
    seen: set[str] = set()
    kept = []
    for line in lines:
        if len(line) > _REPEATED_CHARS:
            if line in seen:
                continue
            seen.add(line)
        kept.append(line)
    return "\n".join(kept)


def _lines(doc: Document, by_name: bool, by_tag: bool) -> list[str]:
    outside = _outside(doc, by_name, by_tag)
    root = _root(doc, outside)
    inside = [root == 0] * len(outside)
    inside[root] = True
    for i in range(root + 1, len(outside)):
        inside[i] = inside[i] or inside[doc.elements[i][0]]
    return [b.text for b in doc.blocks if inside[b.element] and not outside[b.element]]


def _outside(doc: Document, by_name: bool, by_tag: bool) -> list[bool]:
    """Which elements are no content."""
    elements = doc.elements
    outside = [False] * len(elements)
    if by_name:
        for i, (parent, tag, names) in enumerate(elements):
            named = names and tag not in _CONTENT_TAGS
            outside[i] = outside[parent] or bool(named and _is_consent(names[:MAX_NAMES]))
    chars = _chars(doc, outside)
    if not chars[0]:
        outside, chars = [False] * len(elements), _chars(doc, [False] * len(elements))
    in_main = [False] * len(elements)
    for i, (parent, tag, names) in enumerate(elements[1:], 1):
        in_main[i] = in_main[parent] or tag in ("main", "article")
        share = chars[i] / (chars[0] or 1)
        outside[i] = (
            outside[i]
            or outside[parent]
            or (by_tag and share < _TAGS.get(tag, 0) and not (tag == "header" and in_main[parent]))
            or bool(by_name and names and tag not in _CONTENT_TAGS and _is_other(names, share))
        )
    return outside


def _is_other(names: str, share: float) -> bool:
    if share >= _MOST:
        return False
    is_other, is_hidden = _read_names(names[:MAX_NAMES])
    return is_hidden or (is_other and share < _MINOR)


@lru_cache(10_000)
def _is_consent(names: str) -> bool:
    return _CONSENT.search(_words(names)) is not None


@lru_cache(10_000)
def _read_names(names: str) -> tuple[bool, bool]:
    """Whether a class or id says that something is no content, and whether one says hidden."""
    return _OTHER.search(_words(names)) is not None, _HIDDEN.search(names) is not None


def _words(names: str) -> str:
    return names if names.islower() else _CAMEL.sub("-", names)


def _chars(doc: Document, outside: list[bool]) -> list[int]:
    """Characters of each element's text that are not outside."""
    chars = [0] * len(outside)
    for block in doc.blocks:
        if not outside[block.element]:
            chars[block.element] += len(block.text)
    for i in range(len(chars) - 1, 0, -1):
        chars[doc.elements[i][0]] += chars[i]
    return chars


def _root(doc: Document, outside: list[bool]) -> int:
    """The main element, if nearly all of the text is in it; else the root."""
    chars = _chars(doc, outside)
    elements = list(enumerate(doc.elements))
    mains = [i for i, (_, tag, _) in elements if tag == "main" and not outside[i]] or [
        i
        for i, (_, tag, names) in elements
        if names and not outside[i] and tag not in _CONTENT_TAGS and _MAIN.search(names[:300])
    ]
    best = max(mains, key=lambda i: chars[i], default=0)
    return best if chars[best] >= _NEARLY_ALL * chars[0] else 0
