"""Query parameters that do not choose a page, learned from what one host's pages say
(docs/rules/urls.md).

A page says so in two ways: its canonical link is its own address without the parameter, or pages
whose addresses differ in that parameter alone have equal text. It says otherwise when the canonical
link keeps the parameter, or the texts differ. The result is a proposal: a person, or a configured
rule, turns it into `urls.host_params`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

MIN_PAGES = 5  # different canonical addresses, or different texts, that say so
MAX_AGAINST = 0.05  # of the evidence for it
MAX_PARAMS = 30  # of one address that are looked at
MAX_ROUNDS = 10
_EXAMPLES = 3


class Seen(NamedTuple):
    """One fetched page of the host: canonical URL, its canonical link in canonical form, and a
    digest of its text (null: none).
    """

    url: str
    canonical: str | None
    digest: bytes | str | None


class ParamProposal(NamedTuple):
    """A parameter (lower case, as in `urls.host_params`) that does not matter, and how many pages
    say so or otherwise.

    By canonical link: different addresses that were left when it was taken out, or that keep it. By
    text: different texts that stay equal whatever its value, and addresses whose text changes with
    it.
    """

    name: str
    canonical_for: int
    canonical_against: int
    text_for: int
    text_against: int
    examples: tuple[str, ...]  # URLs that carry it, in order


def propose_params(rows: Iterable[Seen], min_pages: int = MIN_PAGES) -> list[ParamProposal]:
    """Parameters of one host that its pages say do not matter, by name; the order of the rows does
    not count. Never raises.

    Found ones are taken out before the next look, so that two that change together do not hide one
    another.
    """
    rows = sorted(set(rows), key=str)
    found: dict[str, ParamProposal] = {}
    for _ in range(MAX_ROUNDS):
        new = [
            p
            for p in _evidence(rows, frozenset(found))
            if max(p.canonical_for, p.text_for) >= min_pages and _little_against(p)
        ]
        if not new:
            break
        found |= {p.name: p for p in new}
    return [found[name] for name in sorted(found)]


def without_params(url: str, names: frozenset[str]) -> str:
    """A canonical URL without the parameters of these (lower case) names: what `urls.host_params`
    makes of it.
    """
    head, mark, query = url.partition("?")
    if not mark or not names:
        return url
    query = "&".join([piece for piece in query.split("&") if _name(piece) not in names])
    return f"{head}?{query}" if query else head


def _little_against(p: ParamProposal) -> bool:
    return p.canonical_against + p.text_against <= MAX_AGAINST * (p.canonical_for + p.text_for)


def _name(piece: str) -> str:
    return piece.partition("=")[0].lower()


def _names(url: str) -> set[str]:
    return {_name(piece) for piece in url.partition("?")[2].split("&")[:MAX_PARAMS] if piece}


def _evidence(rows: list[Seen], known: frozenset[str]) -> list[ParamProposal]:
    """Evidence on each parameter, those already found taken out."""
    targets_for: defaultdict[str, set[str]] = defaultdict(
        set
    )  # parameter -> canonical links without it
    targets_against: defaultdict[str, set[str]] = defaultdict(set)
    texts: defaultdict[str, set[bytes | str]] = defaultdict(set)  # address -> its digests
    examples: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        url = without_params(row.url, known)
        names = _names(url)
        for name in names:
            if len(examples[name]) < _EXAMPLES:
                examples[name].append(row.url)
        if row.digest is not None:
            texts[url].add(row.digest)
        if row.canonical is not None and names:
            canonical = without_params(row.canonical, known)
            kept = _names(canonical)
            if canonical == without_params(url, frozenset(names - kept)):
                for name in names:
                    (targets_against if name in kept else targets_for)[name].add(canonical)
    text_for, text_against = _texts_that_stay(texts)
    return [
        ParamProposal(
            name,
            len(targets_for[name]),
            len(targets_against[name]),
            text_for[name],
            text_against[name],
            tuple(examples[name]),
        )
        for name in sorted(examples)
    ]


def _texts_that_stay(texts: dict[str, set[bytes | str]]) -> tuple[Counter[str], Counter[str]]:
    """By parameter: how many different texts stay equal whatever its value, and how many addresses'
    texts do not.

    A text counts once, however many addresses show it: an error page is no evidence. An address
    with several texts is a page that changes by itself, and says nothing.
    """
    groups: defaultdict[tuple[str, str], list[bytes | str]] = defaultdict(
        list
    )  # (parameter, address without it) -> texts
    for url, digests in texts.items():
        if len(digests) == 1:
            for name in _names(url):
                groups[name, without_params(url, frozenset({name}))].extend(digests)
    stay: defaultdict[str, set[bytes | str]] = defaultdict(set)
    against: Counter[str] = Counter()
    for (name, rest), found in groups.items():
        if len(bare := texts.get(rest, set())) == 1:
            found = [*found, *bare]  # the address without the parameter is one of its values
        if len(found) > 1:
            if len(set(found)) == 1:
                stay[name].add(found[0])
            else:
                against[name] += 1
    return Counter({name: len(found) for name, found in stay.items()}), against
