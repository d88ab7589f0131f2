"""Requisites of a page: what a browser loads to show it, beside the page and its frames.

Images and media are found with the links (rules/page/links.py); here are style sheets, scripts,
icons, fonts, manifests, backgrounds and images of SVG.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from selectolax.lexbor import LexborNode

from crawlkit.outcomes import Reason
from crawlkit.rules.page.links import MAX_LINKS, KnownReferences, Link, PageLinks
from crawlkit.rules.page.markup import Document, srcset_urls
from crawlkit.rules.requisites.style_sheets import css_urls
from crawlkit.rules.url.canonical import UrlPolicy

KINDS = ("image", "media", "requisite")  # of links
KINDS_SQL = ", ".join(f"'{kind}'" for kind in KINDS)
_SELECTOR = (
    "link[rel],script[src],style,[style],[background],image,feimage,use,"
    "script[href],script[xlink\\:href]"
)
# link types that load what they name (HTML Standard 4.6.7); apple-touch-icon of iOS, mask-icon of
# Safari
_RELS = frozenset(
    "stylesheet icon apple-touch-icon apple-touch-icon-precomposed mask-icon manifest preload"
    " modulepreload".split()
)
# of which the attribute background is an image (HTML Standard 15.3.2, 15.3.8)
_BACKGROUNDS = frozenset("body table thead tbody tfoot tr td th".split())
_SVG = frozenset("image feimage use script".split())  # load what their href names (SVG 2)
_NOT_LOADED = ("data:", "about:", "blob:", "javascript:", "#")


def take_requisites(
    links: PageLinks, doc: Document, encoding: str, policy: UrlPolicy
) -> list[Link]:
    """All requisites of a page; its images and media are taken out of `links`.

    encoding: of the page. Links of kind image, media or requisite, each URL once; refused (with
    why) are those that are no URL. Never raises.
    """
    known = KnownReferences(links.base, encoding, policy, spells=False)
    found = [
        link._replace(refused=None) if link.refused is Reason.MEDIA_NOT_CRAWLED else link
        for link in links.links
        if link.kind in KINDS
    ]
    links.links = [link for link in links.links if link.kind not in KINDS]
    seen = {link.url for link in found}
    named = chain.from_iterable(map(_references, _elements(doc)))
    return found + _link(named, known, seen, max(0, MAX_LINKS - len(found)))


def sheet_requisites(css: str, url: str, policy: UrlPolicy) -> list[Link]:
    """What a style sheet at the canonical address `url` loads. Never raises."""
    known = KnownReferences(url, "utf-8", policy, spells=False)
    return _link(css_urls(css), known, set(), MAX_LINKS)


def _link(
    references: Iterable[str], known: KnownReferences, seen: set[str], most: int
) -> list[Link]:
    """Links to references that are not seen yet; of a page at most `most` are looked at."""
    found = []
    for reference in islice(references, most):
        if reference.strip()[:11].lower().startswith(_NOT_LOADED) or not reference.strip():
            continue
        url, refused, _ = known[reference]
        if url not in seen:
            seen.add(url)
            found.append(Link("requisite", url, refused=refused))
    return found


def _elements(doc: Document) -> list[LexborNode]:
    return [] if doc.tree is None else doc.tree.css(_SELECTOR)


def _references(node: LexborNode) -> Iterator[str]:
    """Addresses that an element loads, as written."""
    tag, attributes = (node.tag or "").lower(), {k: v or "" for k, v in node.attributes.items()}
    if tag == "style":
        yield from css_urls(node.text())
    elif tag == "link":
        if _RELS & set(attributes.get("rel", "")[:1000].lower().split()):
            yield attributes.get("href", "")
            yield from srcset_urls(attributes.get("imagesrcset", ""))
    elif tag in _SVG and (tag != "script" or _is_script(attributes.get("type", ""))):
        yield attributes.get("src", "") if tag == "script" else ""
        yield attributes.get("href") or attributes.get("xlink:href", "")
    if tag in _BACKGROUNDS:
        yield attributes.get("background", "")
    if style := attributes.get("style"):
        yield from css_urls(style)


def _is_script(kind: str) -> bool:
    """Whether a script of this type runs (HTML Standard 4.12.1); others are data, not loaded."""
    kind = kind.strip().lower()
    return kind in ("", "module") or kind.endswith(("javascript", "ecmascript", "jscript"))
