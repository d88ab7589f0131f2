"""The walk over a lexbor tree in pure Python: where the part in C (`native/_tree.c`) is not built.

Both give the same values. What elements are, and what their inline styles say, is here for both.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import tinycss2
from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_ANCHORS = 50_000  # of one page that are looked at
MAX_ANCHOR_CHARS = 500
MAX_STYLE_CHARS = 10_000  # of a style attribute; a longer one says nothing
MAX_STYLE_BYTES = 1_000_000  # of a page's that are read

# flags of an element, inherited by what is inside it
SKIP, FOREIGN, NOSCRIPT, HEAD, NAV, HEADER, FOOTER, ASIDE = (1 << n for n in range(8))
FORM, ARTICLE, MAIN, HEADING, QUOTE, TABLE, FIGURE, INVISIBLE = (1 << n for n in range(8, 16))

_BLOCKS = frozenset(
    "address article aside blockquote body button caption center dd details dialog dir div dl dt"
    " fieldset figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html"
    " legend li listing main menu nav ol optgroup option p plaintext pre search section select"
    " summary table tbody td textarea tfoot th thead tr ul xmp".split()
)
_UNSEEN = frozenset(
    "script style iframe noframes noembed template title audio video object canvas datalist "
    "head rp".split()
)
_FLAGS = {
    "nav": NAV,
    "menu": NAV,
    "header": HEADER,
    "footer": FOOTER,
    "aside": ASIDE,
    "form": FORM,
    "article": ARTICLE,
    "main": MAIN,
    "blockquote": QUOTE,
    "table": TABLE,
    "figure": FIGURE,
    "svg": FOREIGN,
    "math": FOREIGN,
    "noscript": NOSCRIPT,
    "head": HEAD,
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), HEADING),
    **dict.fromkeys(_UNSEEN, SKIP),
}
_FLAGS["head"] = HEAD | SKIP
WANTED = frozenset(
    "a area base meta link title img source video audio track embed object iframe frame input html"
    " script".split()
)
# tag -> flags, is a block, its class and id are worth reading
KINDS = {
    tag: (
        _FLAGS.get(tag, 0),
        tag in _BLOCKS,
        tag in _BLOCKS
        and tag not in ("br", "dd", "dt", "hr", "html", "li", "option", "p", "td", "th", "tr"),
    )
    for tag in {*_FLAGS, *_BLOCKS, *WANTED, "br"}
}
ADDRESSES = frozenset("base link frame iframe meta".split())  # beside a and area
# of link elements that name a page or feed; of others nothing is kept
LINK_RELS = ("canonical", "alternate", "amphtml", "next", "prev", "hub", "self")


class InlineStyle(NamedTuple):
    """What a style attribute says of whether its element is shown.

    `display`: a value that shows the element, or none; `visibility`: visible, hidden or collapse.
    None: nothing, or a value that is not known here.
    """

    display: str | None = None
    visibility: str | None = None


class Block(NamedTuple):
    """A run of text without a block boundary in it.

    `link_chars`: characters of it that are inside links.
    """

    text: str
    element: int  # index in Document.elements: the block element that holds it
    flags: int
    link_chars: int


class Anchor(NamedTuple):
    """An `a` or `area` with an address; attribute values as written."""

    tag: str
    href: str
    rel: str
    text: str
    flags: int


class Image(NamedTuple):
    src: str
    srcset: str
    alt: str
    width: str
    height: str


def inline_style(style: str) -> InlineStyle:
    """Display and visibility of a style attribute's value (CSS Style Attributes).

    The last declaration of a name counts, `!important` ones before others (CSS Cascade 6.1).
    """
    return _declarations(style) if _may_hide(style) else InlineStyle()


def _may_hide(style: str) -> bool:
    return any(name in style.translate(_ASCII_LOWER) for name in _CSS_VALUES)


@lru_cache(1024)
def _declarations(style: str) -> InlineStyle:
    if len(style) > MAX_STYLE_CHARS:
        return InlineStyle()
    found: dict[str, str | None] = {}
    important: set[str] = set()
    for item in tinycss2.parse_blocks_contents(style, skip_comments=True, skip_whitespace=True):
        if item.type != "declaration" or item.lower_name not in _CSS_VALUES:
            continue
        name = item.lower_name
        if item.important or name not in important:
            value = [token for token in item.value if token.type not in ("whitespace", "comment")]
            word = value[0].lower_value if [v.type for v in value] == ["ident"] else None
            found[name] = word if word in _CSS_VALUES[name] else None
            if item.important:
                important.add(name)
    return InlineStyle(**found)


def style_code(style: str) -> int:
    """`inline_style` for the part in C: display (0 nothing, 1 none, 2 shown, 3 shown apart), and 4
    times visibility (0 nothing, 1 hidden, 2 visible).
    """
    display, visibility = inline_style(style)
    shown = 0 if display is None else 1 if display == "none" else 3 if display in _APART else 2
    return shown + 4 * (0 if visibility is None else 2 if visibility == "visible" else 1)


_APART = frozenset("block flex flow-root grid list-item table".split()) | frozenset(
    "table-caption table-cell table-row".split()
)
_CSS_VALUES = {
    "display": _APART
    | frozenset("none inline inline-block inline-flex inline-grid inline-table contents".split()),
    "visibility": frozenset("visible hidden collapse".split()),
}
_ASCII_LOWER = {n: n + 32 for n in range(ord("A"), ord("Z") + 1)}


def image_of(raw: dict[str, str]) -> Image:
    """An image from its element's attributes."""
    return Image(*(raw.get(name, "") for name in Image._fields))


def is_image(tag: str, raw: dict[str, str]) -> bool:
    """Whether an element shows an image."""
    if tag == "input":
        return raw.get("type", "").lower() == "image"
    return tag == "img" or (tag == "source" and "srcset" in raw)


def _hiding(tree: LexborHTMLParser, raw: bytes) -> dict[int, InlineStyle]:
    """What elements say of how they are shown by their own attributes; a page that hides its whole
    body waits for a script.
    """
    low = raw.lower()
    # a style's value may be spelt with character references
    if not any(word in low for word in (b"hidden", b"style", b"popover", b"<dialog")):
        return {}
    found: dict[int, InlineStyle] = {}
    room = MAX_STYLE_BYTES
    for n in tree.css("[hidden],[popover],[style],dialog"):
        if n.tag not in ("html", "body", "main", "article"):
            style = n.attributes.get("style") or ""
            room -= len(style.encode()) if _may_hide(style) else 0
            found[n.mem_id] = _shown(n.tag or "", n.attributes, style if room >= 0 else "")
    return found


def _shown(tag: str, attributes: dict[str, str | None], style: str) -> InlineStyle:
    closed = "open" not in attributes if tag == "dialog" else "popover" in attributes
    until = (attributes.get("hidden") or "").translate(_ASCII_LOWER)
    closed = closed or ("hidden" in attributes and until != "until-found")
    display, visibility = inline_style(style)
    # the standard's own style sheet comes before an author's
    return InlineStyle("none" if closed and display is None else display, visibility)


def _is_visible(flags: int, display: str | None, visibility: str | None) -> int:
    """The flags with SKIP and INVISIBLE as an element says; the latter ends where something inside
    is visible again.
    """
    if visibility:
        flags = flags & ~INVISIBLE if visibility == "visible" else flags | INVISIBLE
    return flags | SKIP if display == "none" else flags


State = tuple[int, int, int, int]
_OUTSIDE: State = (0, 0, -1, 0)
# tag, attributes, flags, text of a title or script
Wanted = tuple[str, dict[str, str], int, str] | Image
Found = tuple[
    list[Block],
    list[tuple[int, str, str]],
    list[Anchor],
    list[tuple[dict[str, str], int]],
    list[Wanted],
    int,
]


class Walk:
    """One pass in document order.

    Each element's state is what its children inherit: index of the block element, flags, anchor,
    and the innermost element that an inline style sets apart.
    """

    def __init__(self, tree: LexborHTMLParser, raw: bytes, text: bool) -> None:
        self.text = text
        self.hiding = _hiding(tree, raw) if text else {}
        scripts = b"ld+json" in raw.lower()
        self.tags = (
            (WANTED if scripts else WANTED - {"script"}) if text else ADDRESSES | {"a", "area"}
        )
        self.blocks: list[Block] = []
        self.elements: list[tuple[int, str, str]] = [(0, "#document", "")]
        self.anchors: list[tuple[str, str, str, list[str], int]] = []
        self.metas: list[tuple[dict[str, str], int]] = []
        self.wanted: list[Wanted] = []
        self.dropped = 0
        self.states: dict[int, State] = {}  # by element
        # the open block: its text, its place, characters of links in it
        self.pieces: list[str] = []
        self.place: State = _OUTSIDE
        self.linked = 0

    def run(self, root: LexborNode) -> Found:
        """Blocks, elements, anchors, meta elements, other wanted elements, anchors dropped."""
        for node in root.traverse(include_text=self.text):
            tag = node.tag
            if tag == "-text":
                self.text_node(node)
            elif tag in KINDS or (tag is not None and tag[0] != "-"):
                self.element(node, tag)
        self.close()
        named = [
            Anchor(tag, href, rel, " ".join("".join(text[:100]).split())[:MAX_ANCHOR_CHARS], flags)
            for tag, href, rel, text, flags in self.anchors
        ]
        return self.blocks, self.elements, named, self.metas, self.wanted, self.dropped

    def text_node(self, node: LexborNode) -> None:
        """Adds a text to the open block, and to the anchor that it is in."""
        text = node.text_content
        if not text or text.isspace():  # most are: no need to know their place
            if self.pieces:
                self.pieces.append(" ")
                if self.anchors:
                    self.anchors[-1][3].append(" ")
            return
        state = self.states.get(node.parent.mem_id, _OUTSIDE)  # type: ignore[union-attr]
        if state[1] & (SKIP | INVISIBLE):
            return
        if state[0] != self.place[0]:
            self.close()
            self.place, self.linked = state, 0
        elif state[3] != self.place[3]:
            self.pieces.append(" ")
            self.place = (*self.place[:3], state[3])
        self.pieces.append(text)
        if state[2] >= 0:
            self.linked += len(text)
            self.anchors[state[2]][3].append(text)

    def element(self, node: LexborNode, tag: str) -> None:
        """Notes an element, and the state of what is inside it."""
        state = self.states.get(node.parent.mem_id, _OUTSIDE)  # type: ignore[union-attr]
        if state[1] & FOREIGN:
            state = self.foreign(node, tag, *state)
        elif tag in KINDS:
            known = self.known(node, tag, *state)
            if known is None:
                return
            state = known
        key = node.mem_id
        if key in self.hiding:
            display, visibility = self.hiding[key]
            apart = key if display in _APART else state[3]
            state = state[0], _is_visible(state[1], display, visibility), state[2], apart
        self.states[key] = state

    def known(
        self, node: LexborNode, tag: str, index: int, flags: int, anchor: int, apart: int
    ) -> State | None:
        """The state of an element of KINDS; None: nothing can be inside it."""
        own, is_block, named = KINDS[tag]
        flags |= own
        if is_block and self.text:
            names = ""
            if named and (attributes := node.attributes):
                names = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"
            self.elements.append((index, tag, names))
            index = len(self.elements) - 1
            self.close()
            self.place, self.linked = (index, flags, anchor, apart), 0
        elif tag == "br":
            self.pieces.append("\n")
            return None
        if tag in self.tags:
            anchor = self.want(node, tag, flags, anchor)
        return index, flags, anchor, apart

    def foreign(
        self, node: LexborNode, tag: str, index: int, flags: int, anchor: int, apart: int
    ) -> tuple[int, int, int, int]:
        """The state of an element inside svg or math."""
        if tag in (
            "foreignObject",
            "foreignobject",
            "mi",
            "mo",
            "mn",
            "ms",
            "mtext",
        ):  # HTML and MathML text integration points (HTML Standard 13.2.6)
            flags &= ~FOREIGN
        elif tag in (
            "title",
            "desc",
            "metadata",
            "style",
            "script",
            "annotation",
            "annotation-xml",
        ):
            flags |= SKIP
        elif tag == "a":
            anchor = self.want(node, tag, flags, anchor)
        return index, flags, anchor, apart

    def close(self) -> None:
        """Makes the open block's pieces a block, if there is text in them."""
        text = " ".join("".join(self.pieces).split())
        self.pieces.clear()
        if text:
            place = self.place
            self.blocks.append(Block(text, place[0], place[1], min(self.linked, len(text))))

    def want(self, node: LexborNode, tag: str, flags: int, anchor: int) -> int:
        """Notes an element that says more than its text; returns the anchor that its content
        belongs to.
        """
        raw = {k: v or "" for k, v in node.attributes.items()}
        if tag == "a" or tag == "area":
            href = raw.get("href", raw.get("xlink:href") if flags & FOREIGN else None)
            if href is None:
                return anchor
            if len(self.anchors) == MAX_ANCHORS:
                self.dropped += 1
                return anchor
            self.anchors.append(
                (
                    tag,
                    href,
                    raw.get("rel", ""),
                    [raw.get("alt", "")] if tag == "area" and self.text else [],
                    flags if self.text else 0,
                )
            )
            return len(self.anchors) - 1 if tag == "a" else anchor
        if tag == "meta":
            if self.text or "http-equiv" in raw:
                self.metas.append((raw, flags))
            return anchor
        if tag == "link" and not any(word in raw.get("rel", "").lower() for word in LINK_RELS):
            return anchor
        self.wanted.append(
            image_of(raw)
            if tag == "img"
            else (tag, raw, flags, node.text() if tag in ("title", "script") else "")
        )
        if anchor >= 0 and self.text and is_image(tag, raw) and raw.get("alt"):
            self.anchors[anchor][3].append(f" {raw['alt']} ")
        return anchor
