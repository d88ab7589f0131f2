"""Match a path against the rules of robots.txt: the longest pattern decides (RFC 9309 2.2.2,
2.2.3). Time is linear in the path for each pattern that can match at all.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

MAX_STARS = 20_000  # of one group that are matched; of 9,700 real files none has more than 727
MAX_ONE_BY_ONE = 200  # patterns with `*`; of more, an index says which of them can match
_GRAM_CHARS = (8, 3)  # of a piece that the index looks for

# The one spelling in which patterns and URLs are compared (RFC 9309 2.2.2, 2.2.3): unreserved
# characters are decoded, and so are * and $, which are no wildcards there any more, and ', which
# the URL standard escapes in queries only.
_NORMAL = re.compile(r"[A-Za-z0-9/._~!$&()*+,;:@=?\[\]'-]*")
_CHANGES = re.compile(r"%(?:[0-9A-Fa-f]{2})?|[^A-Za-z0-9/._~!$&()*+,;:@=?\[\]'-]")
# For `*`, for `$` at the end, and for an escaped `*` on the way: the normal spelling has none of
# them.
_ANY, _END, _STAR = "\0", "\1", "\2"
_STARS = re.compile(r"\*+")
_PIECES = re.compile(f"[^{_ANY}{_END}]+")
_DECODED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~*$'")


class Rule(NamedTuple):
    """One allow or disallow line, its pattern as written (one character an octet)."""

    allow: bool
    pattern: str
    line_no: int


class Matcher:
    """The rules of one token, ready for matching.

    Patterns without `*` are in dictionaries by text. The others are in one list, most octets
    first, Allow before Disallow, so that the first that matches decides. Behind MAX_STARS `*` a
    Disallow holds for all that begins as its pattern does up to its first `*`, and an Allow does
    not count: nothing is fetched that the file forbids.
    """

    __slots__ = ("_exact", "_index", "_lengths", "_order", "_plain", "_wild", "_wild_rules")

    def __init__(self, rules: list[Rule]) -> None:
        self._plain: dict[str, Rule] = {}
        self._exact: dict[str, Rule] = {}  # ended in `$`
        wild: dict[str, Rule] = {}
        for rule in rules:
            pattern = rule.pattern
            if "*" in pattern:
                table, key = wild, pattern
            elif pattern[-1] == "$":
                table, key = self._exact, _normal(pattern[:-1])
            else:
                table, key = self._plain, _normal(pattern)
            before = table.get(key)
            if before is None or (rule.allow and not before.allow):
                table[key] = rule
        self._lengths = sorted({len(text) for text in self._plain}, reverse=True)
        self._order: list[tuple[int, bool]] = []
        self._wild: list[str] = []
        self._wild_rules: list[Rule] = []
        for octets, text, rule in _by_strength(wild.values()):
            self._order.append((-octets, not rule.allow))
            self._wild.append(text)
            self._wild_rules.append(rule)
        self._index = _Index(self._wild) if len(self._wild) > MAX_ONE_BY_ONE else None

    def decide(self, path: str) -> Rule | None:
        """The rule that decides on a path in the normal spelling; None: no rule matches."""
        best = self._exact.get(path)
        octets = len(path) + 1
        if best is None:
            for octets in self._lengths:
                if octets <= len(path):
                    best = self._plain.get(path[:octets])
                    if best is not None:
                        break
        stronger = (
            len(self._wild) if best is None else bisect_left(self._order, (-octets, not best.allow))
        )
        if stronger:
            for n in range(stronger) if self._index is None else self._index.candidates(path):
                if n >= stronger:
                    break
                if _matches(self._wild[n], path):
                    return self._wild_rules[n]
        return best


class _Index:
    """Which of many patterns can match a path: those of which some characters in a row, which few
    other patterns have, are in the path.
    """

    __slots__ = ("_always", "_tables")

    def __init__(self, patterns: list[str]) -> None:
        self._always: list[int] = []  # all their pieces are short
        self._tables: dict[int, dict[str, list[int]]] = {size: {} for size in _GRAM_CHARS}
        for n, pattern in enumerate(patterns):
            piece = max(_PIECES.findall(pattern), key=len, default="")
            size = next((size for size in _GRAM_CHARS if len(piece) >= size), 0)
            if not size:
                self._always.append(n)
                continue
            table = self._tables[size]
            grams = (piece[at : at + size] for at in range(len(piece) - size + 1))
            table.setdefault(min(grams, key=lambda gram: len(table.get(gram, ()))), []).append(n)

    def candidates(self, path: str) -> list[int]:
        """Places of the patterns that can match, ascending."""
        found = self._always.copy()
        for size, table in self._tables.items():
            if table:
                grams = {path[at : at + size] for at in range(len(path) - size + 1)}
                for gram in table.keys() & grams:
                    found += table[gram]
        found.sort()
        return found


def _by_strength(rules: Iterable[Rule]) -> list[tuple[int, str, Rule]]:
    """Octets and text (as `_ready` makes it) of rules with `*`, the strongest first."""
    ready: list[tuple[int, str, Rule]] = []
    stars = 0
    for rule in rules:
        octets, text = _ready(rule.pattern)
        stars += text.count(_ANY)
        if stars > MAX_STARS:
            if rule.allow:
                continue
            text = text[: text.index(_ANY) + 1]
        ready.append((octets, text, rule))
    ready.sort(key=lambda r: (-r[0], not r[2].allow))
    return ready


def _ready(pattern: str) -> tuple[int, str]:
    """How many octets a pattern has, and the pattern in the normal spelling with `_ANY` for each
    run of `*` and `_END` for the `$` at its end.
    """
    end = _END if pattern[-1] == "$" else ""
    text = pattern[: len(pattern) - len(end)]
    if not _NORMAL.fullmatch(text):
        text = "*".join(_normal(piece).replace("*", _STAR) for piece in text.split("*"))
    octets = len(text) + len(end)
    text = _STARS.sub(_ANY, text) if "**" in text else text.replace("*", _ANY)
    return octets, text.replace(_STAR, "*") + end


def _matches(pattern: str, path: str) -> bool:
    anchored = pattern[-1] == _END
    prefix, *pieces = (pattern[:-1] if anchored else pattern).split(_ANY)
    if not path.startswith(prefix):
        return False
    at = len(prefix)
    tail = pieces.pop() if anchored else ""
    for piece in pieces:
        at = path.find(piece, at) + len(piece)
        if at < len(piece):
            return False
    return path.endswith(tail) and at <= len(path) - len(tail)


def path_of(url: str) -> str:
    """Path and query of a URL, or of a path, in the normal spelling."""
    slash = url.find("/", 8)
    canonical = slash > 0 and url.startswith("http") and "#" not in url
    if canonical and url.find("?", 0, slash) < 0:
        path = url[slash:]
        return (
            path
            if _NORMAL.fullmatch(path)
            else _normal(path.encode("utf-8", "replace").decode("latin-1"))
        )
    _, mark, rest = ("", "", url) if url.startswith("/") else url.partition("://")
    rest = (rest if mark else url).partition("#")[0]
    if mark or not rest.startswith("/"):
        starts = [at for at in (rest.find("/"), rest.find("?")) if at >= 0]
        rest = rest[min(starts) :] if starts else ""
    path = rest if rest.startswith("/") else "/" + rest
    return _normal(path if path.isascii() else path.encode("utf-8", "replace").decode("latin-1"))


def _normal(text: str) -> str:
    return text if _NORMAL.fullmatch(text) else _CHANGES.sub(_change, text)


def _change(match: re.Match[str]) -> str:
    text = match[0]
    if len(text) == 1:
        return f"%{ord(text):02X}"
    char = chr(int(text[1:], 16))
    return char if char in _DECODED else text.upper()
