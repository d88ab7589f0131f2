"""robots.txt by RFC 9309: groups, longest match, `*` and `$`, percent-encoding (REQUIREMENTS D1).

Beyond the standard, and kept apart from the rules: `Sitemap`, `Crawl-delay`, and the opt-out signals
`Content-Signal` and `Content-Usage`. Usual slips are read as meant: a missing colon between exactly two words,
`useragent`, `site-map`, and five misspellings of `disallow`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple

from crawlkit.outcomes import Refused
from crawlkit.rules.urls import DEFAULT_POLICY, UrlPolicy, canonicalize

MAX_BYTES = 512_000  # RFC 9309 2.5: at least 500 KiB
MAX_CRAWL_DELAY_S = 1e9

_WS = " \t\v\f"
_USER_AGENT, _ALLOW, _DISALLOW, _SITEMAP, _CRAWL_DELAY, _SIGNAL = range(6)
_FIELDS = {
    "user-agent": _USER_AGENT, "useragent": _USER_AGENT, "user agent": _USER_AGENT,
    "allow": _ALLOW,
    "disallow": _DISALLOW, "dissallow": _DISALLOW, "dissalow": _DISALLOW, "disalow": _DISALLOW, "diasllow": _DISALLOW, "disallaw": _DISALLOW,
    "sitemap": _SITEMAP, "site-map": _SITEMAP,
    "crawl-delay": _CRAWL_DELAY,
    "content-signal": _SIGNAL, "content-usage": _SIGNAL,
}  # fmt: skip
_FIELDS |= {name.capitalize(): kind for name, kind in _FIELDS.items()} | {"User-Agent": _USER_AGENT}
_NO_COLON = re.compile(rf"[{_WS}]*([A-Za-z-]+)[{_WS}]+([^{_WS}]+)[{_WS}]*")
_BOM = b"\xef\xbb\xbf"
_TOKEN = re.compile(r"[A-Za-z_-]+")
_DELAY = re.compile(r"[0-9]{1,400}(?:\.[0-9]*)?|\.[0-9]+", re.ASCII)
_SIGNAL_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
# The one spelling in which patterns and URLs are compared (RFC 9309 2.2.2, 2.2.3): unreserved characters are decoded,
# and so are * and $, which are no wildcards there any more, and ', which the URL standard escapes in queries only.
_NORMAL = re.compile(r"[A-Za-z0-9/._~!$&()*+,;:@=?\[\]'-]*")
_CHANGES = re.compile(r"%(?:[0-9A-Fa-f]{2})?|[^A-Za-z0-9/._~!$&()*+,;:@=?\[\]'-]")
_DECODED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~*$'")
_GRAM = 3


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
    """What one group says, to all the tokens that it names."""

    rules: list[_Rule] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)


@dataclass(slots=True)
class _Delay:
    """The delay that the tokens named since the last Crawl-delay share."""

    seconds: float | None = None


@dataclass(slots=True)
class _Token:
    """A product token of the file: its groups, which are combined (RFC 9309 2.2.1), and their delays."""

    groups: list[_Group] = field(default_factory=list)
    delays: list[_Delay] = field(default_factory=list)


class _Wild(NamedTuple):
    octets: int
    rule: _Rule
    prefix: str
    pieces: tuple[tuple[str, int], ...]  # (text, times in a row), each after a `*`
    tail: str  # what must end the path (of a pattern that ends in `$`)
    grams: frozenset[str]  # texts of at most _GRAM characters that the path must contain


@dataclass(slots=True)
class Robots:
    """A parsed robots.txt. `sitemaps` are the values of its sitemap lines as written, each once, in order."""

    sitemaps: tuple[str, ...] = ()
    _tokens: dict[str, _Token] = field(default_factory=dict)
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
            matcher = self._matchers[token] = _Matcher([rule for group in self._tokens[token].groups for rule in group.rules])
        rule = matcher.decide(path)
        if rule is None:
            return Match(True, group=token)
        return Match(rule.allow, rule.line_no, f"{'Allow' if rule.allow else 'Disallow'}: {rule.pattern.encode('latin-1').decode('utf-8', 'replace')}", token)

    def crawl_delay_s(self, agent: str) -> float | None:
        """Crawl-delay of the group in force, in seconds: the largest that is a number."""
        token = self._token(agent)
        delays = self._tokens[token].delays if token is not None else []
        return max((delay.seconds for delay in delays if delay.seconds is not None), default=None)

    def signals(self, agent: str) -> tuple[Signal, ...]:
        """Opt-out signals outside any group and of the group in force."""
        token = self._token(agent)
        groups = self._tokens[token].groups if token is not None else []
        return (*self._signals, *(signal for group in groups for signal in group.signals))

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
        if low in self._tokens:
            return low
        return "*" if "*" in self._tokens else None


def parse(body: bytes, max_bytes: int = MAX_BYTES, truncated: bool = False) -> Robots:
    """Parse a robots.txt; never raises. `truncated`: the fetch cut the body.

    Of a file longer than `max_bytes` the first part counts (RFC 9309 2.5), up to the last whole line: the stub of a
    cut line is no rule of the site. Time is linear in `max_bytes`.
    """
    robots = Robots()
    sitemaps: dict[str, None] = {}
    group: _Group | None = None
    delay, delay_seen = _Delay(), False
    closed = False
    for line_no, line in enumerate(_decode(body, max_bytes, truncated).split("\n"), 1):
        if not line:
            continue
        if "#" in line:
            line = line.partition("#")[0]
        name, colon, value = line.partition(":")
        kind = _FIELDS.get(name)
        if kind is None:
            if not colon and (words := _NO_COLON.fullmatch(line)):
                name, value = words.groups()
            kind = _FIELDS.get(name.strip(_WS).lower())
            if kind is None:
                continue
        value = value.strip(_WS)
        if kind == _ALLOW or kind == _DISALLOW:
            closed = True
            if value and group is not None:
                group.rules.append(_Rule(kind == _ALLOW, value, line_no))
        elif kind == _USER_AGENT:
            if group is None or closed:
                group, closed = _Group(), False
                delay, delay_seen = _Delay(), False
            elif delay_seen:
                delay, delay_seen = _Delay(), False
            if name := _line_token(value):
                token = robots._tokens.setdefault(name, _Token())
                if not token.groups or token.groups[-1] is not group:
                    token.groups.append(group)
                if not token.delays or token.delays[-1] is not delay:
                    token.delays.append(delay)
        elif kind == _SITEMAP:
            if value:
                sitemaps[value.encode("latin-1").decode("utf-8", "replace")] = None
        elif kind == _CRAWL_DELAY:
            delay_seen = True
            seconds = parse_crawl_delay(value)
            if seconds is not None:
                delay.seconds = max(seconds, delay.seconds or 0.0)
        else:
            (robots._signals if group is None else group.signals).extend(_signals(name.strip(_WS).lower(), value))
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
    pairs = [[part.strip(_WS) for part in item.partition("=")] for item in value.split(",", 100)[:100]]
    return [Signal(name, path, key.lower(), setting.lower()) for key, _, setting in pairs if setting and _SIGNAL_KEY.fullmatch(key)]


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

    Patterns without `*` stand in dictionaries by text. The others stand in one list, most octets first; the first
    characters of each piece must be in the path before the pieces are looked for, leftmost first, which is linear.
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
        present = _grams(path) if len(self._wild) > 100 else None
        places: dict[str, list[int]] = {}
        for wild in self._wild:
            if wild.octets < octets or (wild.octets == octets and best is not None and (best.allow or not wild.rule.allow)):
                break
            if (present is None or wild.grams <= present) and _found(wild, path, places):
                return wild.rule
        return best


def _compile(rule: _Rule) -> _Wild:
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
    return _Wild(octets, rule, prefix, tuple(pieces), tail, frozenset([text[:_GRAM] for text, _ in (*pieces, (tail, 1)) if text]))


def _grams(path: str) -> set[str]:
    return {path[i : i + n] for n in range(1, _GRAM + 1) for i in range(len(path) - n + 1)}


def _found(wild: _Wild, path: str, places: dict[str, list[int]]) -> bool:
    """Whether the pieces follow one another in the path behind the prefix, each at its leftmost place, before the tail."""
    _, _, prefix, pieces, tail, _ = wild
    if not path.startswith(prefix) or (tail and not path.endswith(tail)):
        return False
    at = len(prefix)
    for text, times in pieces:
        if times == 1:
            found = path.find(text, at)
            if found < 0:
                return False
            at = found + len(text)
        elif len(text) == 1:  # "*a*a*a": the third "a" from here
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
    return at <= len(path) - len(tail)
