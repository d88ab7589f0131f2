"""Matching a path against the rules of robots.txt: the longest pattern decides (RFC 9309 2.2.2, 2.2.3), in linear time."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NamedTuple

# The one spelling in which patterns and URLs are compared (RFC 9309 2.2.2, 2.2.3): unreserved characters are decoded,
# and so are * and $, which are no wildcards there any more, and ', which the URL standard escapes in queries only.
_NORMAL = re.compile(r"[A-Za-z0-9/._~!$&()*+,;:@=?\[\]'-]*")
_CHANGES = re.compile(r"%(?:[0-9A-Fa-f]{2})?|[^A-Za-z0-9/._~!$&()*+,;:@=?\[\]'-]")
_DECODED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~*$'")
_GRAM = 3
_HEAD_PIECES = 4  # of a pattern, that are looked for once for all patterns that begin with them


class Rule(NamedTuple):
    """One allow or disallow line, its pattern as written (one character an octet)."""

    allow: bool
    pattern: str
    line_no: int


_Head = tuple[str, tuple[tuple[str, int], ...]]  # the text before the first `*`, and the first pieces


class _Wild(NamedTuple):
    octets: int
    rule: Rule
    head: int  # which of the matcher's heads it begins with
    pieces: tuple[tuple[str, int], ...]  # the others: (text, times in a row), each after a `*`
    tail: str  # what must end the path (of a pattern that ends in `$`)
    grams: frozenset[str]  # texts of at most _GRAM characters that the path must contain


class Matcher:
    """The rules of one token, ready for matching.

    Patterns without `*` stand in dictionaries by text. The others stand in one list, most octets first; the first
    characters of each piece must be in the path before the pieces are looked for, leftmost first, which is linear. Patterns
    that begin alike share that part of the work.
    """

    __slots__ = ("_exact", "_heads", "_lengths", "_plain", "_wild")

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
        heads: dict[_Head, int] = {}
        self._wild = sorted([_compile(rule, heads) for rule in wild.values()], key=lambda w: (-w.octets, not w.rule.allow))
        self._heads = list(heads)

    def decide(self, path: str) -> Rule | None:
        best = self._exact.get(path)
        octets = len(path) + 1
        if best is None:
            for octets in self._lengths:
                if octets <= len(path):
                    best = self._plain.get(path[:octets])
                    if best is not None:
                        break
            else:
                octets = 0
        present = _grams(path) if len(self._wild) > 100 else None
        places: dict[str, list[int]] = {}
        ends: list[int | None] = [None] * len(self._heads)  # where a head ends in the path; -1: it is not there
        for wild_octets, rule, head, pieces, tail, grams in self._wild:
            if wild_octets < octets or (wild_octets == octets and best is not None and (best.allow or not rule.allow)):
                break
            at = ends[head]
            if at == -1 or (tail and not path.endswith(tail)) or (present is not None and not grams <= present):
                continue
            if at is None:
                prefix, first = self._heads[head]
                at = ends[head] = _after(first, path, len(prefix), places) if path.startswith(prefix) else -1
            if at >= 0 and pieces:
                at = _after(pieces, path, at, places)
            if 0 <= at <= len(path) - len(tail):
                return rule
        return best


def _compile(rule: Rule, heads: dict[_Head, int]) -> _Wild:
    pattern = rule.pattern
    anchored = pattern[-1] == "$"
    texts = (pattern[:-1] if anchored else pattern).split("*")
    octets = len(pattern)
    if not _NORMAL.fullmatch(pattern):
        texts = [_normal(text) for text in texts]
        octets = sum(map(len, texts)) + len(texts) - 1 + anchored
    prefix = texts[0]
    tail = texts.pop() if anchored else ""
    pieces: list[tuple[str, int]] = []
    for text in texts[1:]:
        if pieces and pieces[-1][0] == text:
            pieces[-1] = (text, pieces[-1][1] + 1)
        elif text:
            pieces.append((text, 1))
    head = heads.setdefault((prefix, tuple(pieces[:_HEAD_PIECES])), len(heads))
    return _Wild(octets, rule, head, tuple(pieces[_HEAD_PIECES:]), tail, frozenset([text[:_GRAM] for text, _ in (*pieces, (tail, 1)) if text]))


def _grams(path: str) -> set[str]:
    return {path[i : i + n] for n in range(1, _GRAM + 1) for i in range(len(path) - n + 1)}


def _after(pieces: tuple[tuple[str, int], ...], path: str, at: int, places: dict[str, list[int]]) -> int:
    """Where the pieces end that follow one another in the path from `at` on, each at its leftmost place; -1: they do not."""
    for text, times in pieces:
        if times == 1:
            found = path.find(text, at)
            if found < 0:
                return -1
            at = found + len(text)
        elif len(text) == 1:  # "*a*a*a": the third "a" from here
            where = places.get(text)
            if where is None:
                where = places[text] = [i for i, char in enumerate(path) if char == text]
            last = bisect_left(where, at) + times - 1
            if last >= len(where):
                return -1
            at = where[last] + 1
        else:
            for _ in range(times):
                found = path.find(text, at)
                if found < 0:
                    return -1
                at = found + len(text)
    return at


def path_of(url: str) -> str:
    """Path and query of a URL in the normal spelling."""
    slash = url.find("/", 8)
    if slash > 0 and url.startswith("http") and "#" not in url and url.find("?", 0, slash) < 0:  # as canonical URLs are
        path = url[slash:]
        return path if _NORMAL.fullmatch(path) else _normal(path.encode("utf-8", "replace").decode("latin-1"))
    _, mark, rest = url.partition("://")
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
