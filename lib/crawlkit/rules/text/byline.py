"""Author and day of a page as its readers see them, where its metadata tell none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from urllib.parse import urlsplit

from selectolax.lexbor import LexborNode

from crawlkit.rules.page.markup import Document
from crawlkit.rules.text.written_dates import read_day

MAX_NODES = 200  # elements that are looked at
MAX_INSIDE = 100  # nodes inside one of them
MAX_CHARS = 1 << 20  # of all texts that are read for it
MAX_CLIMB = 200
MAX_NAME_CHARS = 80
NEAR_BLOCKS = 12  # after the first heading, in which a byline stands
BEFORE_BLOCKS = 4
FIRST_BLOCKS = 100  # of a page without a first-level heading
MAX_LINE_CHARS = 160
# elements that are marked as the author's: by rel, microdata or the usual names of classes
MARKED = "[rel~=author], [itemprop~=author], [class*=author], [class*=byline], [class*=username]"
_OF_ARTICLE = re.compile(
    r"(?:[\w-]*[-_])?(?:author|byline)(?:[-_]{1,2}(?:name|link))?|(?:post|entry|article)author"
)
_OF_FORUM = re.compile(r"(?:big)?username")
_BESIDE = re.compile(
    r"(?:^|[\s_-])(?:comments?|commentlist|related|sidebar|footer|widget|reviews?)(?:$|[\s_-])"
)
_ASIDE = frozenset("nav aside footer".split())
_BEFORE_NAME = re.compile(
    r"^\W*(?:(?:written|posted|published|authored|created|started|reviewed|words|story)\s+)?"
    r"(?:by|author|von|par|por|di|door|av|af|autor|auteur|автор)\b[\s:]*",
    re.IGNORECASE,
)
_AFTER_NAME = re.compile(
    r"\s*(?:[|•·—–\n\t(]|\s-\s|\bon\s|\bupdated\b|\bpublished\b|\bposted\b"
    r"|\b(?:is|was)\s(?:an?|the)\b|(?<!\w)\d{1,2}[\s./-]|"
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s\d).*$",
    re.IGNORECASE | re.DOTALL,
)
_NO_NAME = re.compile(
    r"https?:|@|[<>{}]|^\W*$|^(?:admin|administrator|editor|staff|guest|user|unknown|author|share"
    r"|follow|more|posts?|view|about|all|see|read)\b",
    re.IGNORECASE,
)
# of a member, an event or an edit
_OTHER_DAY = re.compile(
    r"\b(?:joined|registered|founded|member|since|edited|expires?|starts?|ends?|until|born"
    r"|copyright|doors|delivery|ships|deadline|valid)\b|©",
    re.IGNORECASE,
)
_RANGE = re.compile(r"(?:19|20)\d\d\)?\s*(?:[–—]|\s-|\bto)\s+(\w*\.?\s?\d.{1,20})")
_INNER_BREAK = re.compile(r"(?<=\S)[ \t\r]*\n\s*(?=\S)")
_IN_PATH = re.compile(r"/((?:19|20)\d\d)/(\d\d?)/(\d\d?)(?:/|$)")


def read_name(text: str | None) -> str | None:
    """The name in a byline ("By Ann Author | 3 min"), or None: it is none, or an address."""
    name = _AFTER_NAME.sub("", _BEFORE_NAME.sub("", (text or "").strip()[: 2 * MAX_LINE_CHARS]))
    name = " ".join(name.split()).strip(" ,;:")
    return name if 1 < len(name) <= MAX_NAME_CHARS and not _NO_NAME.search(name) else None


def visible_author(marked: Iterable[LexborNode]) -> str | None:
    """The name in the likeliest of the elements of `MARKED`, in the page's order: never in one of a
    comment, a list of other pages or a footer.
    """
    ranked = [(rank, n) for n in marked if (rank := _rank(n)) is not None]
    left = MAX_CHARS
    for _, node in sorted(ranked, key=lambda pair: pair[0])[:MAX_NODES]:
        named = node.css_first("[itemprop~=name]") if "itemprop" in node.attributes else None
        texts = _texts(named or node)
        left -= sum(map(len, texts))
        name = read_name("".join(texts))
        if name and not _is_beside(node):
            return name
        if left < 0:
            break
    return None


def _texts(node: LexborNode) -> list[str]:
    """The first texts in an element. An end of line within one is a blank, between two it stays:
    there it mostly parts the name from what else is told, as do two words with nothing between.
    """
    found: list[str] = []
    chars = 0
    for inner in islice(node.traverse(include_text=True), MAX_INSIDE):
        if inner.tag == "-text" and chars < 2 * MAX_LINE_CHARS:
            text = _INNER_BREAK.sub(" ", inner.text_content or "")
            is_glued = found and found[-1][-1:].isalnum() and text[:1].isalnum()
            found.append(f"\n{text}" if is_glued else text)
            chars += len(text)
    return found


def _rank(node: LexborNode) -> int | None:
    attributes = node.attributes
    for name in ("rel", "itemprop"):
        if "author" in (attributes.get(name) or "").lower().split():
            return 0
    classes = (attributes.get("class") or "")[:1000].lower().split()
    if any(map(_OF_ARTICLE.fullmatch, classes)):
        return 1
    return 2 if any(map(_OF_FORUM.fullmatch, classes)) else None


def _is_beside(node: LexborNode) -> bool:
    parent: LexborNode | None = node
    left = MAX_CLIMB
    while parent is not None and left:
        names = f"{parent.attributes.get('class') or ''} {parent.attributes.get('id') or ''}"
        if parent.tag in _ASIDE or _BESIDE.search(names[:1000].lower()):
            return parent.tag not in ("body", "html")
        parent, left = parent.parent, left - 1
    return False


def visible_day(doc: Document, url: str) -> tuple[str, str] | None:
    """The day beside the first heading, or of the first post where there is no heading: the text
    that names it, and YYYY-MM-DD; else that of the address (`/2025/12/31/`). None: neither.
    """
    blocks = doc.blocks
    first = next((n for n, b in enumerate(blocks) if doc.elements[b.element][1] == "h1"), None)
    if first is None:
        near = blocks[:FIRST_BLOCKS]
    else:
        before = reversed(blocks[max(0, first - BEFORE_BLOCKS) : first])
        near = [*blocks[first + 1 : first + 1 + NEAR_BLOCKS], *before]
    for block in near:
        text = block.text
        day = read_day(text, doc.lang) if len(text) <= MAX_LINE_CHARS else None
        if day is not None and not _OTHER_DAY.search(text) and not _is_range(text):
            return text, day
    if match := _IN_PATH.search(urlsplit(url).path):
        text = "-".join(part.zfill(2) for part in match.groups())
        return (text, day) if (day := read_day(text)) else None
    return None


def _is_range(text: str) -> bool:
    """Whether a text names two days from one to the other: of an event, of a life."""
    match = _RANGE.search(text)
    return match is not None and read_day(match[1]) is not None
