"""HTML as one pass over a lexbor tree: what the markup says, before any address is resolved.

`read_html` gives the text blocks with their place in the tree, anchors, link and meta elements, frames, images and media.
Parsing follows the HTML Standard with scripting off, so `noscript` is markup; `template` content is not part of the page.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from crawlkit.rules.htmlguard import guarded

MAX_ANCHOR_CHARS = 500

# flags of an element, inherited by what is inside it
SKIP, FOREIGN, NOSCRIPT, HEAD, NAV, HEADER, FOOTER, ASIDE, FORM, ARTICLE, MAIN, HEADING, QUOTE, TABLE, FIGURE = (1 << n for n in range(15))

_BLOCKS = frozenset(
    "address article aside blockquote body button caption center dd details dialog dir div dl dt fieldset figcaption figure footer form frameset "
    "h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li listing main menu nav noframes ol optgroup option p plaintext pre search section select summary "
    "table tbody td textarea tfoot th thead tr ul xmp".split()
)
_UNSEEN = frozenset("script style iframe noframes noembed template title audio video object canvas datalist head".split())
_FLAGS = {
    "nav": NAV, "menu": NAV, "header": HEADER, "footer": FOOTER, "aside": ASIDE, "form": FORM, "article": ARTICLE, "main": MAIN, "blockquote": QUOTE,
    "h1": HEADING, "h2": HEADING, "h3": HEADING, "h4": HEADING, "h5": HEADING, "h6": HEADING, "table": TABLE, "figure": FIGURE, "svg": FOREIGN,
    "math": FOREIGN, "noscript": NOSCRIPT, "head": HEAD,
    **dict.fromkeys(_UNSEEN, SKIP),
}  # fmt: skip
_FLAGS["head"] = HEAD | SKIP
_WANTED = frozenset("a area base meta link title img source video audio track embed object iframe frame input html script time".split())
_MEDIA = {"source": "src", "video": "src", "audio": "src", "track": "src", "embed": "src", "object": "data"}


class Block(NamedTuple):
    """A run of text without a block boundary in it. `link_chars`: characters of it that are inside links."""

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
    """What one page's markup says. Elements are (index of the parent block element, tag, class and id); the first is a root."""

    blocks: list[Block] = field(default_factory=list)
    elements: list[tuple[int, str, str]] = field(default_factory=list)
    anchors: list[Anchor] = field(default_factory=list)
    metas: list[tuple[dict[str, str], int]] = field(default_factory=list)  # attributes, flags
    links: list[tuple[dict[str, str], int]] = field(default_factory=list)
    frames: list[tuple[str, str]] = field(default_factory=list)  # tag, src
    images: list[Image] = field(default_factory=list)
    media: list[str] = field(default_factory=list)
    times: list[str] = field(default_factory=list)  # datetime of time elements
    json_ld: list[str] = field(default_factory=list)
    title: str | None = None
    lang: str | None = None
    base_href: str | None = None
    flags: list[str] = field(default_factory=list)  # what the guard had to do
    tree: LexborHTMLParser | None = None

    @property
    def text(self) -> str:
        """Visible text: one line for each block, white space collapsed."""
        return "\n".join([b.text for b in self.blocks])


def parse_tree(markup: str) -> tuple[LexborHTMLParser, list[str]]:
    """Tree of a page, and what had to be cut for it to be built in linear time. Never raises."""
    markup, cut = guarded(markup)
    return LexborHTMLParser(markup.encode("utf-8", "replace"), options=LexborDocumentOptions.WO_EVENTS), cut


def read_html(markup: str) -> Document:
    """Everything that the later steps need of a page's markup, in one pass. Never raises."""
    tree, cut = parse_tree(markup)
    doc = Document(flags=cut, tree=tree)
    if tree.root is not None:
        _Walk(doc, _hidden(tree, markup), _WANTED if "ld+json" in markup else _WANTED - {"script"}).run(tree.root)
    return doc


def _hidden(tree: LexborHTMLParser, markup: str) -> frozenset[int]:
    """Elements that are not rendered by their own attributes; a page that hides its whole body waits for a script."""
    if "hidden" not in markup and "display" not in markup:
        return frozenset()
    found = tree.css('[hidden],[style*="display:none"],[style*="display: none"]')
    return frozenset(n.mem_id for n in found if n.tag not in ("html", "body", "main", "article") and n.attributes.get("hidden") != "until-found")


class _Walk:
    """One pass in document order. Each element's state (block element, flags, anchor) is what its children inherit."""

    def __init__(self, doc: Document, hidden: frozenset[int], wanted: frozenset[str]) -> None:
        self.doc = doc
        self.hidden = hidden
        self.wanted = wanted
        self.pieces: list[str] = []  # of the open block
        self.linked = 0
        self.place = (0, 0, -1)
        self.anchors: list[tuple[str, str, str, list[str], int]] = []

    def run(self, root: LexborNode) -> None:
        states: dict[int, tuple[int, int, int]] = {}
        outside = self.place
        elements, pieces, hidden, wanted = self.doc.elements, self.pieces, self.hidden, self.wanted
        elements.append((0, "#document", ""))
        for node in root.traverse(include_text=True):
            tag = node.tag
            parent = node.parent
            state = states.get(parent.mem_id, outside) if parent is not None else outside
            if tag == "-text":
                if state[1] & SKIP:
                    continue
                if state[0] != self.place[0]:
                    self.flush(state)
                text = node.text_content or ""
                pieces.append(text)
                if state[2] >= 0:
                    self.linked += len(text)
                    self.anchors[state[2]][3].append(text)
                continue
            if tag is None or tag[0] == "-":
                continue
            index, flags, anchor = state
            if flags & FOREIGN:
                if tag in ("foreignObject", "foreignobject"):
                    flags &= ~FOREIGN
                elif tag in ("title", "desc", "metadata", "style", "script"):
                    flags |= SKIP
                elif tag == "a":
                    anchor = self.want(node, tag, flags, anchor)
            else:
                flags |= _FLAGS.get(tag, 0)
                if tag in _BLOCKS:
                    self.flush(outside)
                    attributes = node.attributes
                    elements.append((index, tag, f"{attributes.get('class') or ''} {attributes.get('id') or ''}" if attributes else ""))
                    index = len(elements) - 1
                    self.place = (index, flags, anchor)
                elif tag == "br":
                    pieces.append("\n")
                    continue
                if tag in wanted:
                    anchor = self.want(node, tag, flags, anchor)
            key = node.mem_id
            if key in hidden:
                flags |= SKIP
            states[key] = (index, flags, anchor)
        self.flush(outside)
        self.doc.anchors = [
            Anchor(tag, href, rel, " ".join("".join(text[:100]).split())[:MAX_ANCHOR_CHARS], flags) for tag, href, rel, text, flags in self.anchors
        ]

    def flush(self, place: tuple[int, int, int]) -> None:
        """Closes the open block; the next text belongs to `place`."""
        if self.pieces:
            text = " ".join("".join(self.pieces).split())
            if text:
                self.doc.blocks.append(Block(text, self.place[0], self.place[1], min(self.linked, len(text))))
            self.pieces.clear()
        self.linked = 0
        self.place = place

    def want(self, node: LexborNode, tag: str, flags: int, anchor: int) -> int:
        """Notes an element that says more than its text; returns the anchor that its content belongs to."""
        doc = self.doc
        values = {k: v or "" for k, v in node.attributes.items()}
        get = values.get
        if tag == "a" or tag == "area":
            href = get("href", get("xlink:href"))
            if href is None:
                return anchor
            self.anchors.append((tag, href, get("rel", ""), [get("alt", "")] if tag == "area" else [], flags))
            return len(self.anchors) - 1 if tag == "a" else anchor
        if tag == "img" or (tag == "source" and "srcset" in values) or (tag == "input" and get("type", "").lower() == "image"):
            doc.images.append(Image(get("src", ""), get("srcset", ""), get("alt", ""), get("width", ""), get("height", "")))
            if anchor >= 0 and get("alt"):
                self.anchors[anchor][3].append(f" {values['alt']} ")
        elif tag == "meta":
            doc.metas.append((values, flags))
        elif tag == "link":
            doc.links.append((values, flags))
        elif tag == "base":
            if doc.base_href is None and "href" in values:
                doc.base_href = values["href"]
        elif tag == "title":
            doc.title = doc.title or " ".join(node.text().split()) or None
        elif tag in _MEDIA:
            if get(_MEDIA[tag]):
                doc.media.append(values[_MEDIA[tag]])
            if get("poster"):
                doc.images.append(Image(values["poster"], "", "", "", ""))
        elif tag == "iframe" or tag == "frame":
            if get("src"):
                doc.frames.append((tag, values["src"]))
        elif tag == "html":
            doc.lang = get("lang") or get("xml:lang") or None
        elif tag == "time":
            if get("datetime"):
                doc.times.append(values["datetime"])
        elif tag == "script" and "ld+json" in get("type", "").lower():
            doc.json_ld.append(node.text())
        return anchor
