"""A page: everything that is read out of one stored body.

One call, one value; never an exception.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.duplicates.fingerprint import Fingerprint, fingerprint
from crawlkit.rules.http.content_types import kind_of
from crawlkit.rules.page.encoding import Encoding, decode_utf8
from crawlkit.rules.page.language import detect_language
from crawlkit.rules.page.links import Link, PageLinks, read_links
from crawlkit.rules.page.markup import Document, read_html
from crawlkit.rules.page.metadata import Metadata, read_metadata
from crawlkit.rules.page.other_formats import Extract, image_size, plain_text
from crawlkit.rules.page.structured_data import json_ld, microdata, rdfa
from crawlkit.rules.render.inlined_state import InlinedState, read_state
from crawlkit.rules.render.needs_js import MIN_TEXT_CHARS, needs_js
from crawlkit.rules.requisites.page_requisites import take_requisites
from crawlkit.rules.robots.meta import RobotsDirectives, robots_directives
from crawlkit.rules.text.main_text import main_text
from crawlkit.rules.text.page_kind import page_kind
from crawlkit.rules.url.canonical import DEFAULT_POLICY, UrlPolicy, canonicalize

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Page:
    """What one body says.

    `kind`: html, text, json, xml, pdf, docx, image or other; hashes are hex; texts are null without
    any.
    """

    url: str
    kind: str
    encoding: Encoding | None
    body_sha256: str
    clean_sha256: str | None = None  # of structure, text and links (HTML only)
    metadata: Metadata = field(default_factory=Metadata)
    language: str | None = None  # detected, ISO 639-1
    links: PageLinks = field(default_factory=lambda: PageLinks(""))
    robots: RobotsDirectives = field(default_factory=RobotsDirectives)
    structured: dict[str, Any] = field(
        default_factory=dict
    )  # json_ld, microdata, rdfa: those that are there
    text: str = ""
    main_text: str = ""
    prints: Fingerprint = Fingerprint(None, None, None)
    flags: tuple[str, ...] = ()
    error: str | None = None  # why the text is missing or only a part
    page_kind: str | None = None  # rules/text/page_kind.py
    needs_js: str | None = None  # why it needs a browser (rules/render/needs_js.py)
    requisites: Sequence[Link] = ()  # what it loads, where that is asked for

    @property
    def title(self) -> str | None:
        """The title, if the page has one."""
        return self.metadata.title

    @property
    def outlinks(self) -> list[Link]:
        """Links that may enter the frontier, without repeats, in order."""
        return list(
            {link.url: link for link in reversed(self.links.links) if link.refused is None}.values()
        )[::-1]


def parse_page(
    body: bytes,
    url: str,
    content_type: str | None = None,
    headers: Headers = (),
    agent: str = "crawlkit",
    policy: UrlPolicy = DEFAULT_POLICY,
    plugins: Mapping[str, Extract] = MappingProxyType({}),
    requisites: bool = False,
) -> Page:
    """Reads a body (content codings undone) that was fetched at the canonical address `url`.

    `headers`: fields of the answer, for Link, Refresh, X-Robots-Tag and Content-Language. `agent`:
    our robots token. `plugins`: extractors of text by media type. `requisites`: what the page loads
    is wanted too (then no image is among the links). Native readers of PDF are reached
    through here: a caller that meets hostile PDFs isolates the call.
    """
    kind = kind_of(body, content_type)
    digest = hashlib.sha256(body).hexdigest()
    if kind == "html":
        return _html_page(body, digest, url, content_type, headers, agent, policy, requisites)
    robots = robots_directives((), headers, agent)
    links = _without_nofollow(read_links(Document(), url, headers, policy=policy), robots)
    plain = plain_text(body, kind, content_type, plugins)
    if plain is None:
        return Page(
            url,
            kind,
            None,
            digest,
            links=links,
            robots=robots,
            error=Reason.CONTENT_TYPE_NOT_PARSED,
        )
    text = "\n".join(filter(None, (" ".join(line.split()) for line in plain.text.splitlines())))
    return Page(
        url,
        kind,
        Encoding(plain.encoding, "detected") if plain.encoding else None,
        digest,
        metadata=Metadata(title=plain.title),
        language=detect_language(text),
        links=links,
        robots=robots,
        structured=_image_data(body) if kind == "image" else {},
        text=text,
        main_text=text,
        prints=fingerprint(text),
        error=plain.error,
    )


def _image_data(body: bytes) -> dict[str, Any]:
    size = image_size(body)
    return {"image": {"width": size[0], "height": size[1]}} if size else {}


def _html_page(
    body: bytes,
    digest: str,
    url: str,
    content_type: str | None,
    headers: Headers,
    agent: str,
    policy: UrlPolicy,
    requisites: bool,
) -> Page:
    markup, encoding = decode_utf8(body, content_type)
    doc = read_html(markup)
    tree = doc.tree
    state = _used_state(markup, doc)
    robots = robots_directives(
        ((m["name"], m.get("content", "")) for m, _ in doc.metas if "name" in m), headers, agent
    )
    all_links = read_links(doc, url, headers, encoding.name, policy)
    all_links.links += _state_links(state, all_links.base, policy)
    loaded = take_requisites(all_links, doc, encoding.name, policy) if requisites else ()
    links = _without_nofollow(all_links, robots)
    found_json, bad_json = json_ld(doc.json_ld)
    structured: dict[str, Any] = {"json_ld": found_json}
    if tree is not None:
        structured |= {"microdata": microdata(tree, markup), "rdfa": rdfa(tree, markup)}
    content_language = next((v for k, v in headers if k.lower() == "content-language"), None)
    kind = page_kind(doc)
    text, main = (_join(t, state.text) for t in (doc.text, main_text(doc, kind)))
    flags = [*doc.flags, *_flags(links, bool(bad_json), state)]
    return Page(
        url,
        "html",
        encoding,
        digest,
        doc.clean_sha256(),
        read_metadata(doc, found_json, content_language, (url, links.canonical)),
        detect_language(main or text),
        links,
        robots,
        {k: v for k, v in structured.items() if v},
        text,
        main,
        fingerprint(text),
        tuple(flags),
        page_kind=kind,
        needs_js=needs_js(markup, doc, len(state.text), len(state.links)),
        requisites=loaded,
    )


def _flags(links: PageLinks, bad_json: bool, state: InlinedState) -> list[str]:
    named = {
        "bad_json_ld": bad_json,
        "canonical_conflict": links.canonical_conflict,
        "cross_site_canonical": links.canonical_cross_site,
        "links_dropped": links.dropped,
        "inlined_state": state.texts or state.links,
        "inlined_state_cut": state.is_cut,
    }
    return [name for name, holds in named.items() if holds]


def _join(text: str, more: str) -> str:
    return "\n".join(filter(None, (text, more)))


def _used_state(markup: bytes, doc: Document) -> InlinedState:
    """The page's inlined JSON, where the markup itself lacks text or links."""
    lacks = not doc.anchors or sum(len(b.text) for b in doc.blocks) < MIN_TEXT_CHARS
    return read_state(markup) if lacks else InlinedState([], [])


def _state_links(state: InlinedState, base: str, policy: UrlPolicy) -> list[Link]:
    found = []
    for address in state.links:
        try:
            found.append(Link("state", canonicalize(address, base, policy)))
        except Refused:
            continue
    return found


def _without_nofollow(links: PageLinks, robots: RobotsDirectives) -> PageLinks:
    """A nofollow page gives the frontier nothing; its links stay on record."""
    if not robots.nofollow:
        return links
    return replace(
        links,
        links=[
            link if link.refused else link._replace(refused=Reason.NOFOLLOW) for link in links.links
        ],
    )
