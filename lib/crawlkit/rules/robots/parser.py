"""robots.txt by RFC 9309: groups, longest match, `*` and `$`, percent-encoding
(docs/rules/robots.md).

Beyond the standard, and kept apart from the rules: `Sitemap`, `Crawl-delay`, and the opt-out
signals `Content-Signal` and `Content-Usage`. Usual slips are read as meant: a missing colon between
exactly two words, `useragent`, `site-map`, and five misspellings of `disallow`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from crawlkit.outcomes import Refused
from crawlkit.rules.robots.matcher import Matcher, Rule, path_of
from crawlkit.rules.url.canonical import DEFAULT_POLICY, UrlPolicy, canonicalize

MAX_BYTES = 512_000  # RFC 9309 2.5: at least 500 KiB
MAX_CRAWL_DELAY_S = 1e9

_WS = " \t\v\f"
_USER_AGENT, _ALLOW, _DISALLOW, _SITEMAP, _CRAWL_DELAY, _SIGNAL = range(6)
_FIELDS = {
    "user-agent": _USER_AGENT,
    "useragent": _USER_AGENT,
    "user agent": _USER_AGENT,
    "allow": _ALLOW,
    "disallow": _DISALLOW,
    "dissallow": _DISALLOW,
    "dissalow": _DISALLOW,
    "disalow": _DISALLOW,
    "diasllow": _DISALLOW,
    "disallaw": _DISALLOW,
    "sitemap": _SITEMAP,
    "site-map": _SITEMAP,
    "crawl-delay": _CRAWL_DELAY,
    "content-signal": _SIGNAL,
    "content-usage": _SIGNAL,
}
_FIELDS |= {name.capitalize(): kind for name, kind in _FIELDS.items()} | {"User-Agent": _USER_AGENT}
_NO_COLON = re.compile(rf"[{_WS}]*([A-Za-z-]+)[{_WS}]+([^{_WS}]+)[{_WS}]*")
_BOM = b"\xef\xbb\xbf"
_TOKEN = re.compile(r"[A-Za-z_-]+")
_WORD = re.compile(r"[^\s/*]+")
_DELAY = re.compile(r"[0-9]{1,400}(?:\.[0-9]*)?|\.[0-9]+", re.ASCII)
_SIGNAL_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


class Match(NamedTuple):
    """The decision on one URL and the rule behind it.

    `line_no` counts from 1; None: no rule matched.

    `group` is the token of the group in force (lower case, or `*`); None: no group applies.
    """

    allowed: bool
    line_no: int | None = None
    line: str | None = None
    group: str | None = None


class Signal(NamedTuple):
    """One machine-readable opt-out: `Content-Signal: ai-train=no` is ("content-signal", None,
    "ai-train", "no").
    """

    name: str
    path: str | None
    key: str
    value: str


@dataclass(slots=True)
class _Group:
    """What one group says, to all the tokens that it names."""

    rules: list[Rule] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)


@dataclass(slots=True)
class _Delay:
    """The delay that the tokens named since the last Crawl-delay share."""

    seconds: float | None = None


@dataclass(slots=True)
class _Token:
    """A product token of the file: its groups, which are combined (RFC 9309 2.2.1), and their
    delays.
    """

    groups: list[_Group] = field(default_factory=list)
    delays: list[_Delay] = field(default_factory=list)


@dataclass(slots=True)
class Robots:
    """A parsed robots.txt.

    `sitemaps` are the values of its sitemap lines as written, each once, in order.
    """

    sitemaps: tuple[str, ...] = ()
    _tokens: dict[str, _Token] = field(default_factory=dict)
    _signals: list[Signal] = field(default_factory=list)  # outside any group: for everybody
    _matchers: dict[str, Matcher] = field(default_factory=dict)

    def match(self, agent: str, url: str) -> Match:
        """Whether the product token `agent` may fetch `url` (canonical), by RFC 9309 2.2.2.

        A version after the token plays no part. A name with more in it than a token may have
        (digits) is looked for as a whole.

        The rule with the most octets decides; Allow wins a tie; no rule, or /robots.txt itself:
        allowed.
        """
        token = self._token(agent)
        path = path_of(url)
        if token is None or path == "/robots.txt":
            return Match(True, group=token)
        matcher = self._matchers.get(token)
        if matcher is None:
            matcher = self._matchers[token] = Matcher(
                [rule for group in self._tokens[token].groups for rule in group.rules]
            )
        rule = matcher.decide(path)
        if rule is None:
            return Match(True, group=token)
        return Match(
            rule.allow,
            rule.line_no,
            f"{'Allow' if rule.allow else 'Disallow'}:"
            f" {rule.pattern.encode('latin-1').decode('utf-8', 'replace')}",
            token,
        )

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
        """Canonical URLs of the sitemap lines, resolved against the address of robots.txt; what is
        no URL is left out.
        """
        out: dict[str, None] = {}
        for line in self.sitemaps:
            try:
                out[canonicalize(line, robots_url, policy)] = None
            except Refused:
                continue
        return tuple(out)

    def _token(self, agent: str) -> str | None:
        low = agent.partition("/")[0].strip(_WS).lower()
        if low in self._tokens:
            return low
        return "*" if "*" in self._tokens else None


def parse(  # noqa: C901 - one loop with a branch for each field
    body: bytes, max_bytes: int = MAX_BYTES, truncated: bool = False
) -> Robots:
    """Parse a robots.txt; never raises. `truncated`: the fetch cut the body.

    Of a file longer than `max_bytes` the first part counts (RFC 9309 2.5), up to the last whole
    line: the stub of a cut line is no rule of the site. Time is linear in `max_bytes`.
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
        if kind in (_ALLOW, _DISALLOW):
            closed = True
            if value and group is not None:
                group.rules.append(Rule(kind == _ALLOW, value, line_no))
        elif kind == _USER_AGENT:
            if group is None or closed:
                group, closed = _Group(), False
                delay, delay_seen = _Delay(), False
            elif delay_seen:
                delay, delay_seen = _Delay(), False
            for name in _line_tokens(value):
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
            (robots._signals if group is None else group.signals).extend(
                _signals(name.strip(_WS).lower(), value)
            )
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


def _line_tokens(value: str) -> Iterable[str]:
    """The product token of a user-agent line, and its word where that has more in it: an agent
    whose name is no token (`bot2`) is meant by the whole word alone.
    """
    if value[:1] == "*" and (len(value) == 1 or value[1] in " \t\v\f"):
        return ("*",)
    match, word = _TOKEN.match(value), _WORD.match(value)
    return {m[0].lower(): None for m in (match, word) if m}


def _signals(name: str, value: str) -> list[Signal]:
    path = None
    if value.startswith("/"):
        path, _, value = value.partition(" ")
    pairs = [
        [part.strip(_WS) for part in item.partition("=")] for item in value.split(",", 100)[:100]
    ]
    return [
        Signal(name, path, key.lower(), setting.lower())
        for key, _, setting in pairs
        if setting and _SIGNAL_KEY.fullmatch(key)
    ]
