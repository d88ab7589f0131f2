"""Links of a page: every address that its markup and header name, resolved against the base and
made canonical.

A link that is not to be followed stays on the list with its reason (`Link.refused`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple

from ada_url import URL

from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.http.link_fields import link_fields
from crawlkit.rules.page.markup import Document, srcset_urls
from crawlkit.rules.page.query_encoding import document_query
from crawlkit.rules.page.walk import HEAD, MAX_ANCHORS, NOSCRIPT
from crawlkit.rules.url.canonical import (
    DEFAULT_POLICY,
    MAX_URL_CHARS,
    UrlPolicy,
    as_found,
    canonicalize,
    host_of,
)
from crawlkit.rules.url.domains import registered_domain

MAX_LINKS = MAX_ANCHORS  # of one page, all kinds
MAX_WRITTEN_CHARS = 2048  # kept of an address that is refused
MAX_CONTENT_CHARS = 8192  # read of a refresh

# WebSub: whom to subscribe with, and by which name. They name no page to be crawled.
HUB_KINDS = frozenset({"hub", "self"})
_FEEDS = frozenset(
    {"application/rss+xml", "application/atom+xml", "application/feed+json", "application/rdf+xml"}
)
_SPACES = "\t\n\x0c\r "  # at the ends of an attribute's value (HTML Standard 2.4.1)
MAX_SECONDS = 10**9

_DELAY = re.compile(
    rf"[{_SPACES}]*(?:([0-9]{{1,1000}}+)[0-9.]*+|\.[0-9.]*+)"
    rf"(?:[{_SPACES}]*[;,][{_SPACES}]*"
    rf"|[{_SPACES}]+|\Z)"
)
_URL_EQUALS = re.compile(rf"[uU][rR][lL][{_SPACES}]*=[{_SPACES}]*")
_PLAIN = re.compile(r"[A-Za-z0-9/._-]*")
_NOT_JOINED = re.compile(
    r"\.|//|.*/\.|\Z"
)  # plain, but more is to do than to put it behind its base
_REL = re.compile(r"[^\s,]+")


class Link(NamedTuple):
    """One address named by a page.

    `kind`: a, area, frame, iframe, canonical, alternate, feed, mobile, amphtml, next, prev,
    refresh, image, media, state (of inlined JSON), hub or self. `url`: canonical; as written where
    `refused`, but for hub links. `rel`: its tokens in lower case. `where`: element or header.
    `sent_url`: how it is requested, where not as `url`.
    """

    kind: str
    url: str
    anchor: str = ""
    rel: str = ""
    hreflang: str = ""
    refused: Reason | None = None
    where: str = "element"
    sent_url: str | None = None


class Refresh(NamedTuple):
    url: str
    seconds: int


@dataclass
class PageLinks:
    """All links of one page, and what they say about the page itself."""

    base: str
    links: list[Link] = field(default_factory=list)
    canonical: str | None = None
    canonical_conflict: bool = False  # several that differ: none of them is used
    canonical_cross_site: bool = False  # on another registered domain: a hint only
    refresh: Refresh | None = None
    alternates: list[tuple[str, str]] = field(default_factory=list)  # hreflang, url
    images: list[tuple[str, str]] = field(default_factory=list)  # url, alt
    dropped: int = 0  # links beyond MAX_LINKS

    def first(self, kind: str) -> str | None:
        """URL of the first link of a kind that may be followed or is nofollow; None: none."""
        return next(
            (
                link.url
                for link in self.links
                if link.kind == kind and link.refused in (None, Reason.NOFOLLOW)
            ),
            None,
        )


def same_site(a: str, b: str) -> bool:
    """Whether two canonical URLs lie below one registered domain."""
    return registered_domain(host_of(a)) == registered_domain(host_of(b))


def read_links(
    doc: Document,
    url: str,
    headers: Iterable[tuple[str, str]] = (),
    encoding: str = "utf-8",
    policy: UrlPolicy = DEFAULT_POLICY,
) -> PageLinks:
    """Links of a document at the canonical address `url`. Never raises."""
    base = base_url(doc.base_href, url, policy)
    out = PageLinks(base)
    resolver = _Resolver(base, encoding, policy)
    canonicals: list[tuple[bool, str]] = []  # in the head or header; url
    for link in _header_links(headers, _Resolver(url, "utf-8", policy)):
        out.links.append(link)
        if link.kind == "canonical" and link.refused in (None, Reason.NOFOLLOW):
            canonicals.append((True, link.url))
    has_hub = {link.kind for link in out.links} >= HUB_KINDS
    for attributes, flags in doc.links:
        for kind in _link_kinds(attributes):
            if kind in HUB_KINDS and (has_hub or not flags & HEAD):  # WebSub 4: fields first
                continue
            link = resolver.link(
                kind,
                attributes["href"],
                "",
                attributes.get("rel", ""),
                attributes.get("hreflang", ""),
            )
            out.links.append(link)
            if (
                kind == "canonical"
                and attributes["href"].strip()
                and link.refused in (None, Reason.NOFOLLOW)
            ):
                canonicals.append((bool(flags & HEAD), link.url))
    _canonical(out, canonicals, url)
    _refreshes(out, doc, headers, resolver, url)
    out.links += [
        resolver.link(tag, href, text, rel)
        if rel
        else Link(tag, (f := resolver.resolve(href))[0], text, "", "", f[1], "element", f[2])
        for tag, href, rel, text, _ in doc.anchors
    ]
    out.links += [resolver.link(tag, src) for tag, src in doc.frames[:MAX_LINKS]]
    _images(out, doc, KnownReferences(base, encoding, policy, spells=False))
    named = (link for link in out.links if link.kind == "alternate" and not link.refused)
    out.alternates = [(link.hreflang, link.url) for link in named if link.hreflang]
    out.dropped = max(0, len(out.links) - MAX_LINKS) + doc.anchors_dropped
    del out.links[MAX_LINKS:]
    return out


def anchor_urls(
    doc: Document, url: str, encoding: str = "utf-8", policy: UrlPolicy = DEFAULT_POLICY
) -> list[str]:
    """Canonical URLs of the `a` and `area` elements of a document at the canonical address `url`,
    in order, with repeats.
    """
    known = KnownReferences(base_url(doc.base_href, url, policy), encoding, policy, spells=False)
    found = [known[anchor.href] for anchor in doc.anchors]
    return [url for url, refused, _ in found if refused is None]


def base_url(href: str | None, url: str, policy: UrlPolicy = DEFAULT_POLICY) -> str:
    """Document base URL (HTML Standard 4.2.3): the first base element's href against the page's
    address, else that address.
    """
    if href is None:
        return url
    try:
        return canonicalize(href, url, policy)
    except Refused:
        pass
    try:
        parsed = URL(href, url)
    except (ValueError, UnicodeEncodeError):
        return url
    # a base of another scheme makes relative links of that scheme: nothing to crawl, but not the
    # page's own either
    return url if parsed.protocol in ("http:", "https:", "data:", "javascript:") else parsed.href


_Resolved = tuple[str, Reason | None, str | None]


class KnownReferences(dict[str, _Resolved]):
    """References of one document -> canonical URL, or as written and why it is refused; and, if it
    spells, how it is requested where that is not the canonical URL.

    Most of a page's links come more than once.
    """

    def __init__(self, base: str, encoding: str, policy: UrlPolicy, *, spells: bool = True) -> None:
        self.base, self.encoding, self.policy, self.spells = base, encoding, policy, spells
        self.root, self.folder = _prefixes(base, policy)

    def __missing__(self, reference: str) -> _Resolved:
        head, mark, _ = reference.partition("#")
        is_plain = _PLAIN.fullmatch(head) and not self.policy.route_fragment_hosts
        found: _Resolved
        if is_plain and mark and len(reference) <= MAX_URL_CHARS:
            found = self[head]
            if not found[1]:  # only its fragment is new
                self[reference] = found
                return found
        if is_plain and not mark and self.folder and not _NOT_JOINED.match(head):
            url = (self.root if head[0] == "/" else self.folder) + head
            if len(url) <= MAX_URL_CHARS:
                found = self[reference] = url, None, None
                return found
        text = reference if reference.isascii() else document_query(reference, self.encoding)
        text = text.strip(_SPACES)
        try:
            canonical = canonicalize(text, self.base, self.policy)
            found = canonical, None, None
            if self.spells:
                found = canonical, None, as_found(text, canonical, self.base, self.policy)
        except Refused as e:
            found = reference[:MAX_WRITTEN_CHARS], e.reason, None
        self[reference] = found
        return found


def _prefixes(base: str, policy: UrlPolicy) -> tuple[str, str]:
    """What plain references are joined to: those from the root, and the others. Empty where that is
    not all that there is to do.
    """
    if policy.fold_index or policy.fold_slash:
        return "", ""
    try:
        return canonicalize("/x", base, policy)[:-2], canonicalize("x", base, policy)[:-1]
    except Refused:
        return "", ""


class _Resolver:
    def __init__(self, base: str, encoding: str, policy: UrlPolicy) -> None:
        self.resolve = KnownReferences(base, encoding, policy).__getitem__

    def link(
        self,
        kind: str,
        reference: str,
        anchor: str = "",
        rel: str = "",
        hreflang: str = "",
        where: str = "element",
    ) -> Link:
        """A link as the page names it, resolved, with why it is refused."""
        url, refused, sent_url = self.resolve(reference)
        if rel:
            rel, is_nofollow = _read_rel(rel[:1000])
            refused = refused or (Reason.NOFOLLOW if is_nofollow else None)
        if kind in HUB_KINDS:
            refused = refused or Reason.HUB_LINK
        return Link(kind, url, anchor, rel, hreflang.strip()[:50], refused, where, sent_url)


@lru_cache(1000)
def _read_rel(rel: str) -> tuple[str, bool]:
    """Its tokens in lower case, and whether nofollow is one of them."""
    tokens = _REL.findall(rel.lower())
    return " ".join(tokens), "nofollow" in tokens


def _link_kinds(attributes: dict[str, str]) -> Iterator[str]:
    """Kinds of a link element or field by its rel tokens (a list, without case)."""
    if not attributes.get("href"):
        return
    tokens = set(_REL.findall(attributes.get("rel", "")[:1000].lower()))
    if "canonical" in tokens and not any(attributes.get(name) for name in _NOT_CANONICAL):
        yield "canonical"
    if "alternate" in tokens and "stylesheet" not in tokens:
        media = attributes.get("media", "").lower()
        if attributes.get("type", "").partition(";")[0].strip().lower() in _FEEDS:
            yield "feed"
        elif "max-width" in media or "max-device-width" in media or "handheld" in media:
            yield "mobile"
        else:
            yield "alternate"
    yield from (kind for kind in ("amphtml", "next", "hub", "self") if kind in tokens)
    if tokens & {"prev", "previous"}:
        yield "prev"


# of links to another form of the page (Google Search Central, "Consolidate duplicate URLs")
_NOT_CANONICAL = ("hreflang", "lang", "media", "type")


def _canonical(out: PageLinks, found: list[tuple[bool, str]], url: str) -> None:
    # one in the body counts only where the head has none: heads that close early put theirs there
    urls = list(dict.fromkeys(u for in_head, u in found if in_head)) or list(
        dict.fromkeys(u for _, u in found)
    )
    out.canonical_conflict = len(urls) > 1
    if len(urls) == 1:
        out.canonical = urls[0]
        out.canonical_cross_site = not same_site(urls[0], url)


def parse_refresh(content: str) -> tuple[int, str] | None:
    """(seconds, reference as written) of a refresh; the reference is empty for a reload; None if it
    is no refresh (HTML Standard, shared declarative refresh steps).
    """
    m = _DELAY.match(content)
    if not m:
        return None
    seconds = min(int(m.group(1) or 0), MAX_SECONDS)
    rest = content[m.end() :]
    if rest[:1] in ("u", "U"):
        prefix = _URL_EQUALS.match(rest)
        if not prefix:
            return seconds, rest.strip(_SPACES)
        rest = rest[prefix.end() :]
    if rest[:1] in ("'", '"'):
        rest = rest[1:].partition(rest[0])[0]
    return seconds, rest.strip(_SPACES)


def _refreshes(
    out: PageLinks, doc: Document, headers: Iterable[tuple[str, str]], resolver: _Resolver, url: str
) -> None:
    """The first refresh that leads elsewhere counts; one inside noscript is a link only, since
    scripts would prevent it.
    """
    found = [(value, True) for name, value in headers if name.lower() == "refresh"]
    found += [
        (m.get("content", ""), not flags & NOSCRIPT)
        for m, flags in doc.metas
        if m.get("http-equiv", "").lower() == "refresh"
    ]
    for content, counts in found[:100]:
        parsed = parse_refresh(content[:MAX_CONTENT_CHARS])
        if not parsed or not parsed[1]:
            continue
        link = resolver.link("refresh", parsed[1])
        out.links.append(link)
        if counts and out.refresh is None and not link.refused and link.url != url:
            out.refresh = Refresh(link.url, parsed[0])


def _images(out: PageLinks, doc: Document, known: KnownReferences) -> None:
    seen: dict[str, str] = {}
    left = MAX_LINKS  # references looked at: a srcset may hold millions
    for image in doc.images[:MAX_LINKS]:
        for reference in islice(
            chain([image.src] if image.src.strip() else [], srcset_urls(image.srcset)), left
        ):
            left -= 1
            url, refused, _ = known[reference]
            if not refused:
                seen.setdefault(url, " ".join(image.alt.split())[:500])
    out.images = list(seen.items())
    out.links += [
        Link("image", url, alt, refused=Reason.MEDIA_NOT_CRAWLED) for url, alt in out.images
    ]
    for reference in doc.media[:MAX_LINKS]:
        url, refused, _ = known[reference]
        out.links.append(Link("media", url, refused=refused or Reason.MEDIA_NOT_CRAWLED))


def hub_links(
    headers: Iterable[tuple[str, str]], url: str, policy: UrlPolicy = DEFAULT_POLICY
) -> list[Link]:
    """Links of kind hub and self that the header fields of an answer from `url` name."""
    found = _header_links(headers, _Resolver(url, "utf-8", policy))
    return [link for link in found if link.kind in HUB_KINDS]


def _header_links(headers: Iterable[tuple[str, str]], resolver: _Resolver) -> Iterator[Link]:
    for fields in link_fields(headers):
        rel, hreflang = fields.get("rel", ""), fields.get("hreflang", "")
        for kind in _link_kinds(fields):
            yield resolver.link(kind, fields["href"], "", rel, hreflang, "header")
