"""HTML as one pass over a lexbor tree: what the markup says, before any address is resolved.

The pass is made in C (`_tree.c`); where that module is not built (a package shipped as a zip),
`_Walk` makes it in Python.

`read_html` gives the text blocks with their place in the tree, anchors, link and meta elements,
frames, images and media. Parsing follows the HTML Standard with scripting off, so `noscript` is
markup; `template` content is not part of the page, unless it is a declarative shadow root.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import NamedTuple

import selectolax.lexbor
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from crawlkit.rules.page.nesting_guard import guarded

MAX_ANCHORS = 50_000  # of one page that are looked at
MAX_ANCHOR_CHARS = 500

# flags of an element, inherited by what is inside it
(
    SKIP,
    FOREIGN,
    NOSCRIPT,
    HEAD,
    NAV,
    HEADER,
    FOOTER,
    ASIDE,
    FORM,
    ARTICLE,
    MAIN,
    HEADING,
    QUOTE,
    TABLE,
    FIGURE,
    INVISIBLE,
) = (1 << n for n in range(16))

_OPTIONS = int(LexborDocumentOptions.WO_EVENTS)
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
    "h1": HEADING,
    "h2": HEADING,
    "h3": HEADING,
    "h4": HEADING,
    "h5": HEADING,
    "h6": HEADING,
    "table": TABLE,
    "figure": FIGURE,
    "svg": FOREIGN,
    "math": FOREIGN,
    "noscript": NOSCRIPT,
    "head": HEAD,
    **dict.fromkeys(_UNSEEN, SKIP),
}
_FLAGS["head"] = HEAD | SKIP
_WANTED = frozenset(
    "a area base meta link title img source video audio track embed object iframe frame input html"
    " script time".split()
)
# tag -> flags, is a block, its class and id are worth reading
_KINDS = {
    tag: (
        _FLAGS.get(tag, 0),
        tag in _BLOCKS,
        tag in _BLOCKS
        and tag not in ("br", "dd", "dt", "hr", "html", "li", "option", "p", "td", "th", "tr"),
    )
    for tag in {*_FLAGS, *_BLOCKS, *_WANTED, "br"}
}
_ADDRESSES = frozenset("base link frame iframe meta".split())  # beside a and area
LINK_RELS = (
    "canonical",
    "alternate",
    "amphtml",
    "next",
    "prev",
)  # of link elements that name a page or feed; of others nothing is kept
_MEDIA = {
    "source": "src",
    "video": "src",
    "audio": "src",
    "track": "src",
    "embed": "src",
    "object": "data",
}


Said = tuple[str | None, str | None]  # display and visibility of an inline style


class Block(NamedTuple):
    """A run of text without a block boundary in it.

    `link_chars`: characters of it that are inside links.
    """

    text: str
    element: int  # index in Document.elements: the block element it stands in
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


@dataclass
class Document:
    """What one page's markup says.

    Elements are (index of the parent block element, tag, class and id); the first is a root.
    """

    blocks: list[Block] = field(default_factory=list)
    elements: list[tuple[int, str, str]] = field(default_factory=list)
    anchors: list[Anchor] = field(default_factory=list)
    metas: list[tuple[dict[str, str], int]] = field(default_factory=list)  # attributes, flags
    links: list[tuple[dict[str, str], int]] = field(default_factory=list)  # those of LINK_RELS
    frames: list[tuple[str, str]] = field(default_factory=list)  # tag, src
    images: list[Image] = field(default_factory=list)
    media: list[str] = field(default_factory=list)
    times: list[str] = field(default_factory=list)  # datetime of time elements
    json_ld: list[str] = field(default_factory=list)
    title: str | None = None
    lang: str | None = None
    base_href: str | None = None
    anchors_dropped: int = 0  # beyond MAX_ANCHORS
    flags: list[str] = field(default_factory=list)  # what the guard had to do
    tree: LexborHTMLParser | None = None

    @property
    def text(self) -> str:
        """Visible text: one line for each block, white space collapsed."""
        return "\n".join([b[0] for b in self.blocks])

    def clean_sha256(self) -> str:
        """SHA-256 (hex) of the page without scripts, styles, comments, attributes and white space:
        structure, text, links.
        """
        parts = [
            " ".join([e[1] for e in self.elements]),
            self.text,
            *[a.href for a in self.anchors],
        ]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def parse_tree(markup: str | bytes) -> tuple[LexborHTMLParser, list[str]]:
    """Tree of a page (bytes: in UTF-8), and what had to be cut for it to be built in linear time.

    Never raises.
    """
    safe, cut = guarded(_shadow_roots(_raw(markup)))
    return LexborHTMLParser(safe, options=_OPTIONS), cut


# comments and scripts hold no tags
_TEMPLATE = re.compile(
    rb"<!--(?:-?>|.*?(?:--!?>|\Z))|<script(?=[\t\n\x0c\r"
    rb" />]).*?(?:</script|\Z)|<(/?)template(?=[\t\n\x0c\r />])(?:(?=[^<>]{0,500}?[\t\n\x0c\r"
    rb" /\"']shadowrootmode[\t\n\x0c\r ]*=[\t\n\x0c\r ]*[\"']?(?:open|closed)(?![a-z]))())?",
    re.IGNORECASE | re.DOTALL,
)


def _shadow_roots(raw: bytes) -> bytes:
    """The page with its declarative shadow roots (HTML Standard 13.2.6.4.4) as elements: a browser
    shows them, and lexbor takes them for templates.
    """
    if (
        not _opens(raw, b"template") or b"shadowrootmode" not in raw.lower()
    ):  # few pages need the copy
        return raw
    shown: list[bool] = []  # of the open templates

    def renamed(match: re.Match[bytes]) -> bytes:
        if match[1] is None:
            return match[0]
        if match[1]:
            return b"</shadow-root" if shown and shown.pop() else match[0]
        shown.append(match[2] is not None and all(shown[-1:]))
        return b"<shadow-root" if shown[-1] else match[0]

    return _TEMPLATE.sub(renamed, raw)


def read_html(markup: str | bytes) -> Document:
    """Everything that the later steps need of a page's markup, in one pass. Never raises."""
    return _read(_raw(markup), True)


def read_addresses(markup: str | bytes) -> Document:
    """Only what names an address (anchors without their text, link, meta, base and frame elements):
    for callers that want links.
    """
    return _read(_raw(markup), False)


def _read(raw: bytes, text: bool) -> Document:
    tree, cut = parse_tree(raw)
    doc = Document(flags=cut, tree=tree)
    if tree.root is None:
        return doc
    if _tree is None:
        found = _Walk(_hiding(tree, raw) if text else {}, b"ld+json" in raw.lower(), text).run(
            tree.root
        )
    else:
        found = _tree.walk(tree.root.mem_id, text, MAX_ANCHORS, MAX_ANCHOR_CHARS)
    doc.blocks, doc.elements, doc.anchors, doc.metas, wanted, doc.anchors_dropped = found
    for element in wanted:
        if type(element) is Image:
            doc.images.append(element)
        else:
            _note(doc, *element)
    return doc


def _raw(markup: str | bytes) -> bytes:
    return markup if isinstance(markup, bytes) else markup.encode("utf-8", "replace")


def _note(doc: Document, tag: str, raw: dict[str, str], flags: int, text: str) -> None:
    """What an element says beside the text around it.

    `raw`: its attributes; `text`: what is inside a title or script.
    """
    if tag == "link":
        doc.links.append((raw, flags))
    elif _is_image(tag, raw):
        doc.images.append(_image(raw))
    elif tag == "base":
        if doc.base_href is None and "href" in raw:
            doc.base_href = raw["href"]
    elif tag == "title":
        doc.title = doc.title or " ".join(text.split()) or None
    elif tag in _MEDIA:
        if address := raw.get(_MEDIA[tag]):
            doc.media.append(address)
        if poster := raw.get("poster"):
            doc.images.append(Image(poster, "", "", "", ""))
    elif tag == "iframe" or tag == "frame":
        if src := raw.get("src"):
            doc.frames.append((tag, src))
    elif tag == "html":
        doc.lang = raw.get("lang") or raw.get("xml:lang") or None
    elif tag == "time":
        if when := raw.get("datetime"):
            doc.times.append(when)
    elif tag == "script" and "ld+json" in raw.get("type", "").lower():
        doc.json_ld.append(text)


def _image(raw: dict[str, str]) -> Image:
    return Image(
        raw.get("src", ""),
        raw.get("srcset", ""),
        raw.get("alt", ""),
        raw.get("width", ""),
        raw.get("height", ""),
    )


def _is_image(tag: str, raw: dict[str, str]) -> bool:
    return (
        tag == "img"
        or (tag == "source" and "srcset" in raw)
        or (tag == "input" and raw.get("type", "").lower() == "image")
    )


def _hiding(tree: LexborHTMLParser, raw: bytes) -> dict[int, Said]:
    """What elements say of how they are shown by their own attributes; a page that hides its whole
    body waits for a script.
    """
    low = raw.lower()
    if not any(
        word in low for word in (b"hidden", b"style", b"popover", b"<dialog")
    ):  # a style's value may be spelt with character references
        return {}
    return {
        n.mem_id: said
        for n in tree.css("[hidden],[popover],[style],dialog")
        if (said := _says(n.tag or "", n.attributes)) != (None, None)
    }


def _says(tag: str, attributes: dict[str, str | None]) -> Said:
    if tag in ("html", "body", "main", "article"):
        return None, None
    closed = "open" not in attributes if tag == "dialog" else "popover" in attributes
    closed = closed or (
        "hidden" in attributes
        and (attributes["hidden"] or "").translate(_ASCII_LOWER) != "until-found"
    )
    display, visibility = style_says(attributes.get("style") or "")
    return (
        "none" if closed and display is None else display,
        visibility,
    )  # the standard's own style sheet comes before an author's


def _seen(flags: int, display: str | None, visibility: str | None) -> int:
    """The flags with SKIP and INVISIBLE as an element says; the latter ends where something inside
    is visible again.
    """
    if visibility:
        flags = flags & ~INVISIBLE if visibility == "visible" else flags | INVISIBLE
    return flags | SKIP if display == "none" else flags


def style_says(style: str) -> Said:
    """Of a style attribute's value, display if it is none or shows the element, and visibility if
    it is visible, hidden or collapse; else None.

    The last declaration of a name counts, `!important` ones before others (CSS Cascade 6.1).
    """
    css = style.translate(_ASCII_LOWER)
    end, at = len(css), 0
    said: dict[str, str | None] = {"display": None, "visibility": None}
    if not any(name in css for name in said):
        return None, None
    important: set[str] = set()
    while True:
        at = _css_space(css, at)
        if at >= end:
            return said["display"], said["visibility"]
        name, at = _css_name(css, at)
        if name in said and css[at : at + 1] == ":":
            value, at = _css_name(css, _css_space(css, at + 1))
            strong, whole = False, True
            if css[at : at + 1] == "!":
                word, at = _css_name(css, _css_space(css, at + 1))
                whole = strong = word == "important"
            if strong or name not in important:
                said[name] = (
                    value
                    if whole and css[at : at + 1] in ("", ";") and value in _CSS_VALUES[name]
                    else None
                )
                if strong:
                    important.add(name)
        depth = 0
        while at < end and (depth or css[at] != ";"):
            char = css[at]
            if char in "\"'":
                at = _CSS_STRING.match(css, at).end()  # type: ignore[union-attr]
            elif css.startswith("/*", at):
                at = _css_space(css, at)
            elif char == "(" and (url := _CSS_URL.match(css, at)):
                at = url.end()
            else:
                depth = max(0, depth + (char in "([{") - (char in ")]}"))
                at += 2 if char == "\\" else 1
        at += 1


_APART = (
    "block",
    "flex",
    "flow-root",
    "grid",
    "list-item",
    "table",
    "table-caption",
    "table-cell",
    "table-row",
)
_CSS_VALUES = {
    "display": (
        "none",
        "inline",
        "inline-block",
        "inline-flex",
        "inline-grid",
        "inline-table",
        "contents",
        *_APART,
    ),
    "visibility": ("visible", "hidden", "collapse"),
}
_ASCII_LOWER = {n: n + 32 for n in range(ord("A"), ord("Z") + 1)}
_CSS_SPACE = re.compile(r"(?:[\t\n\x0c\r ]|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z))*+")
_CSS_NAME = re.compile(r"[a-z0-9_\x80-\U0010ffff-]*+")
_CSS_STRING = re.compile(
    r"\"(?:[^\"\\\n\r\x0c]|\\.)*+.?|'(?:[^'\\\n\r\x0c]|\\.)*+.?", re.S
)  # CSS Syntax 4.3.5: a line's end ends it too
_CSS_URL = re.compile(
    r"(?<=url)(?<![a-z0-9_\x80-\U0010ffff-]url)\((?![\t\n\x0c\r ]*+[\"'])(?:[^)\\]|\\.)*+.?", re.S
)  # 4.3.6: quotes in it are none


def _css_space(css: str, at: int) -> int:
    return _CSS_SPACE.match(css, at).end()  # type: ignore[union-attr]


def _css_name(css: str, at: int) -> tuple[str, int]:
    """A name, and where the next token begins."""
    end = _CSS_NAME.match(css, at).end()  # type: ignore[union-attr]
    return css[at:end], _css_space(css, end)


_Wanted = (
    tuple[str, dict[str, str], int, str] | Image
)  # tag, attributes, flags, text of a title or script


class _Walk:
    """One pass in document order.

    Each element's state (block element, flags, anchor) is what its children inherit.
    """

    def __init__(self, hiding: dict[int, Said], scripts: bool, text: bool) -> None:
        self.hiding = hiding
        self.text = text
        self.tags = (
            (_WANTED if scripts else _WANTED - {"script"}) if text else _ADDRESSES | {"a", "area"}
        )
        self.blocks: list[Block] = []
        self.elements: list[tuple[int, str, str]] = [(0, "#document", "")]
        self.anchors: list[tuple[str, str, str, list[str], int]] = []
        self.metas: list[tuple[dict[str, str], int]] = []
        self.wanted: list[_Wanted] = []
        self.dropped = 0

    def run(
        self, root: LexborNode
    ) -> tuple[
        list[Block],
        list[tuple[int, str, str]],
        list[Anchor],
        list[tuple[dict[str, str], int]],
        list[_Wanted],
        int,
    ]:
        """Blocks, elements, anchors, meta elements, other wanted elements, anchors dropped."""
        place = outside = (0, 0, -1, 0)
        states: dict[
            int,
            tuple[int, int, int, int],
            # by element: what its children inherit; last: the innermost element that an inline
            # style
            # sets apart
        ] = {}
        pieces: list[
            str
            # the open block: its text; `place` where it stands, `linked` characters of links in it
        ] = []
        linked = 0
        elements, hiding, wanted, anchors = self.elements, self.hiding, self.tags, self.anchors
        for node in root.traverse(include_text=self.text):
            tag = node.tag
            if tag == "-text":
                text = node.text_content
                if not text or text.isspace():  # most are: no need to know where they stand
                    if pieces:
                        pieces.append(" ")
                        if anchors:
                            anchors[-1][3].append(" ")
                    continue
                state = states.get(node.parent.mem_id, outside)
                if not state[1] & (SKIP | INVISIBLE):
                    if state[0] != place[0]:
                        if pieces:
                            self.close(pieces, place, linked)
                        place, linked = state, 0
                    elif state[3] != place[3]:
                        pieces.append(" ")
                        place = (*place[:3], state[3])
                    pieces.append(text)
                    if state[2] >= 0:
                        linked += len(text)
                        anchors[state[2]][3].append(text)
                continue
            kind = _KINDS.get(tag)
            if kind is None and (tag is None or tag[0] == "-"):
                continue
            state = states.get(node.parent.mem_id, outside)
            if state[1] & FOREIGN:
                state = self.foreign(node, tag, *state)
            elif kind is not None:
                own, is_block, named = kind
                index, flags, anchor, apart = state
                flags |= own
                if is_block and self.text:
                    names = ""
                    if named and (attributes := node.attributes):
                        names = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"
                    elements.append((index, tag, names))
                    index = len(elements) - 1
                    if pieces:
                        self.close(pieces, place, linked)
                    place, linked = (index, flags, anchor, apart), 0
                elif tag == "br":
                    pieces.append("\n")
                    continue
                if tag in wanted:
                    anchor = self.want(node, tag, flags, anchor)
                state = index, flags, anchor, apart
            key = node.mem_id
            if key in hiding:
                display, visibility = hiding[key]
                state = (
                    state[0],
                    _seen(state[1], display, visibility),
                    state[2],
                    key if display in _APART else state[3],
                )
            states[key] = state
        if pieces:
            self.close(pieces, place, linked)
        named = [
            Anchor(tag, href, rel, " ".join("".join(text[:100]).split())[:MAX_ANCHOR_CHARS], flags)
            for tag, href, rel, text, flags in anchors
        ]
        return self.blocks, elements, named, self.metas, self.wanted, self.dropped

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

    def close(self, pieces: list[str], place: tuple[int, int, int, int], linked: int) -> None:
        """Makes the open block's pieces a block, if there is text in them."""
        text = " ".join("".join(pieces).split())
        pieces.clear()
        if text:
            self.blocks.append(Block(text, place[0], place[1], min(linked, len(text))))

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
            _image(raw)
            if tag == "img"
            else (tag, raw, flags, node.text() if tag in ("title", "script") else "")
        )
        if anchor >= 0 and self.text and _is_image(tag, raw) and raw.get("alt"):
            self.anchors[anchor][3].append(f" {raw['alt']} ")
        return anchor


def opens(raw: bytes, name: bytes) -> bool:
    """Twin of `_scan.opens`: whether bytes hold "<" and this name (in lower case), in whatever
    case.
    """
    return re.search(b"<" + name, raw, re.IGNORECASE) is not None


try:
    from crawlkit.native._scan import opens as _opens
except ImportError:
    _opens = opens

try:
    from crawlkit.native import _tree

    _tree.prepare(
        selectolax.lexbor.__file__,
        {
            tag: (
                *kind,
                0 if tag not in _WANTED else 2 if tag in _ADDRESSES or tag in ("a", "area") else 1,
            )
            for tag, kind in _KINDS.items()
        },
        (Block, Anchor, Image),
        SKIP,
        FOREIGN,
        INVISIBLE,
    )
except (
    ImportError,
    TypeError,
):  # TypeError: built by an earlier version, which took other arguments
    _tree = None
