"""robots.txt by RFC 9309: groups, longest match, `*` and `$`, percent-encoding (REQUIREMENTS D1).

Beyond the standard, and kept apart from the rules: `Sitemap`, `Crawl-delay`, and the opt-out signals
`Content-Signal` and `Content-Usage`. Usual slips are read as meant: a missing colon between exactly two words,
`useragent`, `site-map`, and five misspellings of `disallow`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from crawlkit.outcomes import Refused
from crawlkit.rules.urls import DEFAULT_POLICY, UrlPolicy, canonicalize

MAX_BYTES = 512_000  # RFC 9309 2.5: at least 500 KiB
MAX_CRAWL_DELAY_S = 1e9

_RECORD = re.compile(
    r"^[ \t\v\f]*(user-?agent|user agent|allow|disallow|dissallow|dissalow|disalow|diasllow|disallaw|crawl-delay|site-?map|content-signal|content-usage)"
    r"(?:[ \t\v\f]*:[ \t\v\f]*([^\n#]*)|[ \t\v\f]+([^\s:#]+)[ \t\v\f]*(?=[\n#]|\Z))",
    re.IGNORECASE | re.MULTILINE,
)
_BOM = b"\xef\xbb\xbf"
_TOKEN = re.compile(r"[A-Za-z_-]+")
_DELAY = re.compile(r"[0-9]{1,400}(?:\.[0-9]*)?|\.[0-9]+", re.ASCII)
_SIGNAL = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)[ \t]*=[ \t]*([^\s,;]+)")
# The one spelling in which patterns and URLs are compared (RFC 9309 2.2.2, 2.2.3): unreserved characters are decoded,
# and so are * and $, which are no wildcards there any more, and ', which the URL standard escapes in queries only.
_NORMAL = re.compile(r"[A-Za-z0-9/._~!$&()*+,;:@=?\[\]'-]*")
_CHANGES = re.compile(r"%(?:[0-9A-Fa-f]{2})?|[^A-Za-z0-9/._~!$&()*+,;:@=?\[\]'-]")
_DECODED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~*$'")
_GRAM = 3  # characters of a pattern's longest piece that a path must contain


class Match(NamedTuple):
    """The decision on one URL and the rule behind it. `line_no` counts from 1; None: no rule matched.

    `group` is the token of the group in force (lower case, or `*`); None: no group applies.
    """

    allowed: bool
    line_no: int | None = None
    line: str | None = None
    group: str | None = None


class Signal(NamedTuple):
    """One machine-readable opt-out: `Content-Signal: ai-train=no` is ("content-signal", None, "ai-train", "no")."""

    name: str
    path: str | None
    key: str
    value: str


class _Rule(NamedTuple):
    allow: bool
    pattern: str
    line_no: int


@dataclass(slots=True)
class _Group:
    """Records of one token, from all its groups (RFC 9309 2.2.1: they are combined)."""

    rules: list[_Rule] = field(default_factory=list)
    crawl_delay_s: float | None = None
    signals: list[Signal] = field(default_factory=list)


class _Wild(NamedTuple):
    octets: int
    rule: _Rule
    prefix: str
    pieces: tuple[tuple[str, int], ...]  # (text, times in a row), each after a `*`
    tail: str  # what must end the path (of a pattern that ends in `$`)
    gram: str  # a text of at most _GRAM characters that the path must contain


@dataclass(slots=True)
class Robots:
    """A parsed robots.txt. `sitemaps` are the values of its sitemap lines as written, each once, in order."""

    sitemaps: tuple[str, ...] = ()
    _groups: dict[str, _Group] = field(default_factory=dict)
    _signals: list[Signal] = field(default_factory=list)  # outside any group: for everybody
    _matchers: dict[str, _Matcher] = field(default_factory=dict)

    def match(self, agent: str, url: str) -> Match:
        """Whether the product token `agent` may fetch `url` (canonical), by RFC 9309 2.2.2.

        The rule with the most octets decides; Allow wins a tie; no rule, or /robots.txt itself: allowed.
        """
        token = self._token(agent)
        path = _path_of(url)
        if token is None or path == "/robots.txt":
            return Match(True, group=token)
        matcher = self._matchers.get(token)
        if matcher is None:
            matcher = self._matchers[token] = _Matcher(self._groups[token].rules)
        rule = matcher.decide(path)
        if rule is None:
            return Match(True, group=token)
        return Match(rule.allow, rule.line_no, f"{'Allow' if rule.allow else 'Disallow'}: {rule.pattern.encode('latin-1').decode('utf-8', 'replace')}", token)

    def crawl_delay_s(self, agent: str) -> float | None:
        """Crawl-delay of the group in force, in seconds: the largest that is a number."""
        token = self._token(agent)
        return self._groups[token].crawl_delay_s if token is not None else None

    def signals(self, agent: str) -> tuple[Signal, ...]:
        """Opt-out signals outside any group and of the group in force."""
        token = self._token(agent)
        return (*self._signals, *(self._groups[token].signals if token is not None else ()))

    def sitemap_urls(self, robots_url: str, policy: UrlPolicy = DEFAULT_POLICY) -> tuple[str, ...]:
        """Canonical URLs of the sitemap lines, resolved against the address of robots.txt; what is no URL is left out."""
        out: dict[str, None] = {}
        for line in self.sitemaps:
            try:
                out[canonicalize(line, robots_url, policy)] = None
            except Refused:
                continue
        return tuple(out)

    def _token(self, agent: str) -> str | None:
        low = agent.lower()
        if low in self._groups:
            return low
        return "*" if "*" in self._groups else None


def parse(body: bytes, max_bytes: int = MAX_BYTES, truncated: bool = False) -> Robots:
    """Parse a robots.txt; never raises. `truncated`: the fetch cut the body.

    Of a file longer than `max_bytes` the first part counts (RFC 9309 2.5), up to the last whole line: the stub of a
    cut line is no rule of the site. Time is linear in `max_bytes`.
    """
    text = _decode(body, max_bytes, truncated)
    robots = Robots()
    sitemaps: dict[str, None] = {}
    members: list[_Group] = []  # of the current group
    delayed: list[_Group] = []  # those that the next Crawl-delay is for: named since the last one
    closed = delay_seen = False
    line_no, at = 1, 0
    for record in _RECORD.finditer(text):
        start = record.start()
        line_no += text.count("\n", at, start)
        at = start
        name, value, bare = record.groups()
        value = bare or (value or "").rstrip(" \t\v\f")
        kind = name[0].lower()
        if kind in "ad":
            closed = True
            if value:
                rule = _Rule(kind == "a", value, line_no)
                for group in members:
                    group.rules.append(rule)
        elif kind == "u":
            if closed:
                members, delayed, closed = [], [], False
            if delay_seen:
                delayed, delay_seen = [], False
            token = _line_token(value)
            if token:
                group = robots._groups.setdefault(token, _Group())
                if group not in members:
                    members.append(group)
                delayed.append(group)
        elif kind == "s":
            if value:
                sitemaps[value.encode("latin-1").decode("utf-8", "replace")] = None
        elif name[1] in "rR":
            delay_seen = True
            delay_s = parse_crawl_delay(value)
            for group in delayed if delay_s is not None else ():
                group.crawl_delay_s = max(delay_s, group.crawl_delay_s or 0.0)
        else:
            for signals in [group.signals for group in members] or [robots._signals]:
                signals.extend(_signals(name.lower(), value))
    robots.sitemaps = tuple(sitemaps)
    return robots


def parse_crawl_delay(text: str) -> float | None:
    """Seconds of a Crawl-delay value: a plain decimal number; anything else is no delay (None)."""
    text = text.strip(" \t\v\f")
    return min(float(text), MAX_CRAWL_DELAY_S) if _DELAY.fullmatch(text) else None


def is_product_token(text: str) -> bool:
    """Whether a text is a product token: letters, `_` and `-` (RFC 9309 2.2.1)."""
    return _TOKEN.fullmatch(text) is not None


def _decode(body: bytes, max_bytes: int, truncated: bool) -> str:
    """The lines of a file as Latin-1 text (one character an octet), ended by LF."""
    cut = truncated or len(body) > max_bytes
    ends_whole = body[max_bytes : max_bytes + 1] in (b"\n", b"\r")
    body = body[:max_bytes]
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        body = body.decode("utf-16", "replace").encode()
    elif body.startswith(_BOM):
        body = body[3:]
    elif body[:2] == _BOM[:2]:
        body = body[2:]
    elif body[:1] == _BOM[:1]:
        body = body[1:]
    text = body.decode("latin-1").replace("\r\n", "\n").replace("\r", "\n")
    return text[: text.rfind("\n") + 1] if cut and not ends_whole else text


def _line_token(value: str) -> str:
    if value[:1] == "*" and (len(value) == 1 or value[1] in " \t\v\f"):
        return "*"
    match = _TOKEN.match(value)
    return match[0].lower() if match else ""


def _signals(name: str, value: str) -> list[Signal]:
    path = None
    if value.startswith("/"):
        path, _, value = value.partition(" ")
    return [Signal(name, path, key.lower(), setting.lower()) for key, setting in _SIGNAL.findall(value)]


def _path_of(url: str) -> str:
    """Path and query of a URL in the normal spelling."""
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


class _Matcher:
    """The rules of one token, ready for matching.

    Patterns without `*` stand in dictionaries by text. The others stand in one list, most octets first; of each, a
    gram of its longest piece must be in the path before its pieces are looked for, leftmost first, which is linear.
    """

    __slots__ = ("_exact", "_lengths", "_plain", "_wild")

    def __init__(self, rules: list[_Rule]) -> None:
        self._plain: dict[str, _Rule] = {}
        self._exact: dict[str, _Rule] = {}  # ended in `$`
        wild: dict[str, _Rule] = {}
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
        self._wild = sorted(map(_compile, wild.values()), key=lambda w: (-w.octets, not w.rule.allow))

    def decide(self, path: str) -> _Rule | None:
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
        present: set[str] | None = _grams(path) if len(self._wild) > 100 else None
        places: dict[str, list[int]] = {}
        for wild in self._wild:
            if wild.octets < octets or (wild.octets == octets and best is not None and (best.allow or not wild.rule.allow)):
                break
            if (wild.gram in path if present is None else wild.gram in present) and path.startswith(wild.prefix) and _found(wild, path, places):
                return wild.rule
        return best


def _compile(rule: _Rule) -> _Wild:
    anchored = rule.pattern[-1] == "$"
    prefix, *rest = [_normal(text) for text in rule.pattern[: len(rule.pattern) - anchored].split("*")]
    octets = len(prefix) + sum(map(len, rest)) + len(rest) + anchored
    longest = max(prefix, *rest, key=len)
    tail = rest.pop() if anchored else ""
    pieces = tuple((text, len(list(run))) for text, run in groupby(rest) if text)
    return _Wild(octets, rule, prefix, pieces, tail, longest[:_GRAM])


def _grams(path: str) -> set[str]:
    return {path[i : i + n] for n in range(_GRAM + 1) for i in range(len(path) - n + 1)}


def _found(wild: _Wild, path: str, places: dict[str, list[int]]) -> bool:
    """Whether the pieces follow one another in the path behind the prefix, each at its leftmost place, before the tail."""
    if not path.endswith(wild.tail):
        return False
    at = len(wild.prefix)
    for text, times in wild.pieces:
        if times > 2 and len(text) == 1:  # "*a*a*a": the third "a" from here
            where = places.get(text)
            if where is None:
                where = places[text] = [i for i, char in enumerate(path) if char == text]
            last = bisect_left(where, at) + times - 1
            if last >= len(where):
                return False
            at = where[last] + 1
        else:
            for _ in range(times):
                found = path.find(text, at)
                if found < 0:
                    return False
                at = found + len(text)
    return at <= len(path) - len(wild.tail)
