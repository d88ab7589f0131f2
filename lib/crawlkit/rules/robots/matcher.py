"""Matching a path against the rules of robots.txt: the longest pattern decides (RFC 9309 2.2.2,
2.2.3), in linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NamedTuple

# The one spelling in which patterns and URLs are compared (RFC 9309 2.2.2, 2.2.3): unreserved
# characters are decoded,
# and so are * and $, which are no wildcards there any more, and ', which the URL standard escapes
# in queries only.
_NORMAL = re.compile(r"[A-Za-z0-9/._~!$&()*+,;:@=?\[\]'-]*")
_CHANGES = re.compile(r"%(?:[0-9A-Fa-f]{2})?|[^A-Za-z0-9/._~!$&()*+,;:@=?\[\]'-]")
_ANY, _END, _STAR = (
    "\0",
    "\1",
    "\2",
    # for `*`, for `$` at the end, and for an escaped `*` on the way: the normal spelling has none
    # of
    # them
)
_STARS = re.compile(r"\*+")
_DECODED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~*$'")


class Rule(NamedTuple):
    """One allow or disallow line, its pattern as written (one character an octet)."""

    allow: bool
    pattern: str
    line_no: int


class Matcher:
    """The rules of one token, ready for matching.

    Patterns without `*` stand in dictionaries by text. The others stand in one list, most octets
    first, Allow before Disallow, so that the first that matches decides.
    """

    __slots__ = ("_exact", "_lengths", "_order", "_plain", "_wild", "_wild_rules")

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
        ready = sorted(
            [(*_ready(rule.pattern), rule) for rule in wild.values()],
            key=lambda w: (-w[0], not w[2].allow),
        )
        self._order = [(-octets, not rule.allow) for octets, _, rule in ready]
        self._wild = [text for _, text, _ in ready]
        self._wild_rules = [rule for _, _, rule in ready]

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
        found = _first_match(self._wild, stronger, path) if stronger else -1
        return best if found < 0 else self._wild_rules[found]


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


def _first_match_in_python(patterns: list[str], count: int, path: str) -> int:
    """Twin of `_match.first_match`: which of the first `count` patterns a path meets first; -1:
    none.
    """
    return next((n for n in range(count) if _matches(patterns[n], path)), -1)


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


try:
    from crawlkit.native._match import first_match as _first_match
except ImportError:
    _first_match = _first_match_in_python


def path_of(url: str) -> str:
    """Path and query of a URL, or of a path, in the normal spelling."""
    slash = url.find("/", 8)
    if (
        slash > 0 and url.startswith("http") and "#" not in url and url.find("?", 0, slash) < 0
    ):  # as canonical URLs are
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
