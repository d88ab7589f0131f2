"""Text of an article: what is left without navigation, lists of links, forms, comments and
footers.

Blocks of running text vote for the elements that hold them. The answer is the smallest element that
holds nearly all of the votes, without the parts of it that their tag, class or links mark as
something else. A mark counts only where the marked element holds a minor part of the votes: pages
wrap their whole text in forms and "rails" too.
"""

from __future__ import annotations

import re
from functools import lru_cache

from crawlkit.rules.page.markup import Document
from crawlkit.rules.page.walk import HEADING, QUOTE, Block

_OTHER_TAGS = frozenset(
    "nav menu footer aside form figure figcaption header button select textarea fieldset dialog"
    " option".split()
)
_OTHER = re.compile(
    r"(?:^|[\s_-])(?:ads?|ad-?(?:slot|box|unit|container|wrapper)|adsbygoogle|addthis\w*"
    r"|addtoany\w*|advert\w*|banner\w*|breadcrumbs?|byline|captions?|carousel|"
    r"copyright|credits?|dateline|disclaimer|donat\w+|dfp\w*|factbox|feedback|follow|gallery"
    r"|google-?ads?|hidden|image|jump-?nav|keywords|lightbox|login|masthead|menu|"
    r"meta|metadata|modal|more-?(?:from|news|on|stories)|most-?(?:popular|read|viewed)|nav"
    r"|navbar|navigation|next-prev|overlay|pag(?:er|ination)|paywall|photo|"
    r"playlist|poll|popular|popup|post-?nav|print|promo\w*|rail|rating\w*|read-?(?:also|more"
    r"|next)|recent|recirc\w*|recommend\w*|reply|respond|screen-reader-text|"
    r"share\w*|sharing|signin|signup|skip\w*|slideshow|social\w*|sponsor\w*|sr-only|subnav"
    r"|tags?|teaser\w*|timestamp|toolbar|tooltip|topics|trending|up-?next|"
    r"viral|visually-?hidden|widget\w*|author|bio)(?:$|[\s_-])",
    re.IGNORECASE,
)
# parts that may well be longer than the text itself
_NEVER = re.compile(
    r"(?:^|[\s_-])(?:comments?|comment-?(?:list|section|area|thread)|commentlist|cookies?"
    r"|consent|gdpr|privacy|disqus\w*|dsq\w*|foot(?:er)?|newsletter\w*|outbrain\w*"
    r"|related\w*|"
    r"replies|sidebar\w*|subscri\w*|taboola\w*)(?:$|[\s_-])",
    re.IGNORECASE,
)
_CONTENT = re.compile(
    r"article-?body|story-?body|entry-content|post-content|article-content|article__body|post-body",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?…:;,][\"'”’»)]*(?:\s|$)|[。！？、]")
_PARAGRAPHS = frozenset(
    "p li dd dt blockquote pre h1 h2 h3 h4 h5 h6".split()
)  # an answer is never one of them alone
MAX_NAMES = 1000  # characters of class and id that are looked at
LONG_CHARS = 250  # of a paragraph that votes with its full length
_SHARE = 0.85  # of the votes, that a smaller element must hold
_MARKUP = re.compile(r"<[a-z]+[\s/>]")  # of a noscript that holds escaped markup
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NEARLY_ALL = 0.9
_ALWAYS = 1.1  # more than all votes: a footer is no article, even where it has most of the prose
_MAJOR = 0.4  # of the votes: an element with more is no side matter, whatever it is called


def prose_chars(block: Block) -> int:
    """Characters of running text outside of links, short ones counting less; none for short lines
    and lists of links.
    """
    plain = len(block.text)
    if plain < 40:
        return 0
    plain -= block.link_chars
    if plain < 40 or 2 * block.link_chars > len(block.text) or block.flags & HEADING:
        return 0
    plain = plain * min(plain, LONG_CHARS) // LONG_CHARS
    return plain if _SENTENCE.search(block.text) else plain // 4


def _sum_up(doc: Document, votes: list[tuple[int, int]]) -> list[int]:
    """Votes of each element: those of the blocks in it (`votes`: element, votes of its block).

    Blocks whose neighbours are text count for more than single ones.
    """
    elements = doc.elements
    near = [0] * len(elements)
    for element, n in votes:
        parent = elements[element][0]
        near[parent] += n
        near[elements[parent][0]] += n
    most = max(near) or 1
    total = [0] * len(elements)
    for element, n in votes:
        parent = elements[element][0]
        weight = max(near[parent], near[elements[parent][0]]) / most
        total[element] += int(n * weight * weight)
    for i in range(len(total) - 1, 0, -1):
        total[elements[i][0]] += total[i]
    return total


def _side_matter(tag: str, names: str) -> float:
    """Share of the votes up to which an element is side matter by its tag, class and id; 0: it is
    not.
    """
    if tag in _OTHER_TAGS:
        return _ALWAYS if tag == "footer" else _MAJOR
    if len(names) < 2 or tag in ("body", "article", "main"):
        return 0
    return _names_of(names) if len(names) <= 200 else _names_of.__wrapped__(names[:MAX_NAMES])


@lru_cache(10_000)
def _names_of(names: str) -> float:
    if _CONTENT.search(names):
        return 0
    if not names.islower():
        names = _CAMEL.sub("-", names)
    return _NEARLY_ALL if _NEVER.search(names) else _MAJOR if _OTHER.search(names) else 0


def article_text(doc: Document) -> str:
    """One line for each block of the article.

    Where nothing reads like running text, all that is no side matter.
    """
    elements = doc.elements
    outside = [False] * len(elements)
    block_votes = [(b.element, n) for b in doc.blocks if (n := prose_chars(b))]
    votes = _sum_up(doc, block_votes)
    for i, (parent, tag, names) in enumerate(elements):
        outside[i] = (
            outside[parent]
            or (names != "" or tag in _OTHER_TAGS)
            and votes[i] < _side_matter(tag, names) * (votes[0] + 1)
        )
    votes = _sum_up(doc, [(element, n) for element, n in block_votes if not outside[element]])
    best = 0
    for i, (parent, _, _) in enumerate(elements):
        if (
            parent == best
            and i
            and votes[i] >= max(1, _SHARE * votes[0])
            and elements[i][1] not in _PARAGRAPHS
        ):
            best = i
    inside = [False] * len(elements)
    inside[best] = True
    for i in range(best + 1, len(elements)):
        inside[i] = inside[elements[i][0]] and not outside[i]
    return "\n".join(
        b.text
        for b in doc.blocks
        if inside[b.element] and _keep(b) and elements[b.element][1] != "h1"
    )


def _keep(block: Block) -> bool:
    return (
        bool(block.flags & QUOTE) or 2 * block.link_chars <= len(block.text)
    ) and not _MARKUP.match(block.text)
