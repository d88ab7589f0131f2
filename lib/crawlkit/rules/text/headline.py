"""A page's own name for itself: its title without the name of its site."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from crawlkit.rules.page.markup import Document

MAX_CHARS = 500  # of a heading or title that is looked at
MAX_HEADINGS = 20
MAX_INSIDE = 10  # block elements after a heading that may be inside it
_BETWEEN = re.compile(r"\s+[|\-–—·•:»«›‹/]+\s+|\s*[|»«]\s*|\s*::\s*|(?<=\w)[:–—]\s+(?=\S+$)")
_WORD = re.compile(r"\w+")
_MOSTLY = 0.5  # of a heading's words, that a title of the same page has


def headline(doc: Document, url: str, og_title: str | None, site_name: str | None) -> str | None:
    """The page's title as its readers see it, or None.

    A first-level heading that says what the title element or `og:title` says comes first, then the
    only first-level heading, then those titles without the name of the site (`og:site_name`, or
    the label of its host).
    """
    host = urlsplit(url).hostname or ""
    titles = [t[:MAX_CHARS] for t in (og_title, doc.title) if t]
    headings = [
        h
        for h in _headings(doc)
        if not (_names_site(h, host, site_name) or any(_ends_title(h, t) for t in titles))
    ]
    said = {w for t in titles for w in _words(t)}
    alike = [h for h in headings if _share(h, said) > _MOSTLY]
    if alike:
        return max(alike, key=lambda h: (_share(h, said) * len(_words(h)), -headings.index(h)))
    if len(headings) == 1:
        return headings[0]
    return next((_without_site(t, host, site_name) for t in titles), None)


def _headings(doc: Document) -> list[str]:
    """Texts of visible first-level headings, in order."""
    headings = [n for n, (_, tag, _name) in enumerate(doc.elements) if tag == "h1"]
    if not headings:
        return []
    inside = {n: n for n in headings[:MAX_HEADINGS]}  # element -> its heading
    for n in range(headings[0] + 1, min(len(doc.elements), headings[-1] + MAX_INSIDE)):
        if (heading := inside.get(doc.elements[n][0])) is not None:
            inside.setdefault(n, heading)
    found: dict[int, list[str]] = {}
    for block in doc.blocks:
        if (heading := inside.get(block.element)) is not None:
            found.setdefault(heading, []).append(block.text)
    texts = (" ".join(parts).strip("¶# ") for parts in found.values())
    return [t for t in texts if 0 < len(t) <= MAX_CHARS]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _share(text: str, words: Iterable[str]) -> float:
    """Share of a text's words that are among `words`."""
    own = _words(text)
    return sum(w in words for w in own) / len(own) if own else 0.0


def _ends_title(heading: str, title: str) -> bool:
    """Whether a heading is the shorter, last part of a title: the site's name ("A boat | Site")."""
    cuts = list(_BETWEEN.finditer(title))
    if not cuts:
        return False
    first, last = _words(title[: cuts[-1].start()]), _words(title[cuts[-1].end() :])
    return _words(heading) == last and len(last) < len(first)


def _names_site(text: str, host: str, site_name: str | None) -> bool:
    """Whether a text is the site's name: as it says it, or the letters of a label of its host."""
    letters = "".join(_words(text))
    labels = {label for label in host.lower().split(".")[:-1] if label != "www"}
    bare = {label.replace("-", "") for label in labels}
    return letters in bare or letters == "".join(_words(site_name or "")) != ""


def _without_site(title: str, host: str, site_name: str | None) -> str:
    """A title without its parts that name the site; without its last part, if that is shorter than
    the rest and no part names the site.
    """
    cuts = [(0, 0), *(m.span() for m in _BETWEEN.finditer(title)), (len(title), len(title))]
    parts = [(a[1], b[0]) for a, b in zip(cuts, cuts[1:], strict=False) if b[0] > a[1]]
    named = [_names_site(title[a:b], host, site_name) for a, b in parts]
    if len(parts) > 1 and named[-1]:
        return title[: parts[-2][1]].strip()
    if len(parts) > 1 and named[0]:
        return title[parts[1][0] :].strip()
    if len(parts) > 1 and len(title[parts[-1][0] :]) < parts[-2][1]:
        return title[: parts[-2][1]].strip()
    return title
