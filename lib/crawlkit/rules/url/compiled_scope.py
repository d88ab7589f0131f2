"""What the rules of the scope look at: the compiled settings and the URL (docs/rules/urls.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from crawlkit.config import ConfigError, ScopeConfig
from crawlkit.outcomes import Refused
from crawlkit.rules.url.canonical import DEFAULT_POLICY, UrlPolicy, canonicalize, split
from crawlkit.rules.url.linear_patterns import is_found


@dataclass(frozen=True, slots=True)
class Scope:
    """A compiled `config.scope`: build it with `Scope.of`."""

    config: ScopeConfig
    hosts: frozenset[str]
    domains: tuple[str, ...]  # each with a leading dot
    prefixes: tuple[Prefix, ...]
    exclude: str | None
    media_extensions: frozenset[str]
    skip_extensions: frozenset[str]

    @classmethod
    def of(cls, config: ScopeConfig, policy: UrlPolicy = DEFAULT_POLICY) -> Scope:
        """Compiles a scope. policy: that of the URLs that it judges.

        Raises ConfigError: a name that is no host, a prefix that is no URL, a pattern that is empty
        or that RE2 refuses.
        """
        exclude = "|".join(f"(?:{pattern})" for pattern in config.exclude_patterns) or None
        for pattern in config.exclude_patterns:
            if not pattern:
                raise ConfigError(
                    "scope.exclude_patterns: '' is found in every URL, so that nothing would be"
                    " crawled; leave it out"
                )
            try:
                is_found(pattern, "")
            except ValueError as e:
                raise ConfigError(f"scope.exclude_patterns: {pattern!r}: {e}") from None
        return cls(
            config,
            frozenset(_host(name, "scope.hosts", policy) for name in config.hosts),
            tuple(
                "." + _host(name.removeprefix("*.").removeprefix("."), "scope.domains", policy)
                for name in config.domains
            ),
            tuple(_prefix(text, policy) for text in config.prefixes),
            exclude,
            frozenset(end.lower() for end in config.media_extensions),
            frozenset(end.lower() for end in config.skip_extensions),
        )

    def for_requisites(self) -> Scope:
        """What judges requisites of pages: of any host where scope.requisites says so."""
        if self.config.requisites != "any":
            return self
        return replace(self, hosts=frozenset(), domains=(), prefixes=())


class Prefix(NamedTuple):
    """The start of the URLs that are in scope, read by the rules of the URLs themselves.

    start: up to the query. folded: the whole URL that it stands for once its final slash is folded
    away. pieces: parameters that must be there, whatever their order; last: the start of another.
    """

    start: str
    folded: str | None = None
    pieces: frozenset[str] = frozenset()
    last: str | None = None

    def covers(self, c: Candidate) -> bool:
        """Whether a URL starts so."""
        if self.last is None:
            return c.url.startswith(self.start) or c.url == self.folded
        if c.url.partition("?")[0] != self.start or not c.query:
            return False
        pieces = c.query.split("&")
        others = [piece for piece in pieces if piece not in self.pieces]
        return self.pieces.issubset(pieces) and any(
            piece.startswith(self.last) for piece in (*others, *self.pieces)
        )


class Candidate(NamedTuple):
    """A canonical URL and what the rules look at.

    `page`: it is to be crawled as a page (not a sitemap or feed).
    """

    url: str
    host: str
    path: str
    query: str
    depth: int
    now_year: int
    page: bool


def _host(name: str, key: str, policy: UrlPolicy) -> str:
    try:
        url = canonicalize(f"http://{name}/", None, policy)
    except Refused as refused:
        raise ConfigError(f"{key}: {name!r} is no host name: {refused.reason}") from None
    parts = split(url)
    if url != f"http://{parts.host}/" or "*" in name or name.startswith("."):
        raise ConfigError(
            f"{key}: {name!r} is no host name: give it without scheme, port, path and *"
        )
    return parts.host


def _prefix(text: str, policy: UrlPolicy) -> Prefix:
    head, mark, query = text.partition("?")
    try:
        start = canonicalize(head, None, policy)
        if not mark:
            folded = start if head.endswith("/") and not start.endswith("/") else None
            return Prefix(f"{start}/" if folded else start, folded)
        # without the settings that take parameters away: an unfinished one is no parameter yet
        whole = canonicalize(f"{head}?{query}", None, replace(policy, **_KEEP_ALL))
    except Refused as refused:
        raise ConfigError(f"scope.prefixes: {text!r} is no URL: {refused.reason}") from None
    pieces = whole.partition("?")[2].split("&")
    last = canonicalize(f"http://x/?{query.rpartition('&')[2]}", None, replace(policy, **_KEEP_ALL))
    last = last.partition("?")[2]
    if last in pieces:
        pieces.remove(last)
    return Prefix(start, None, frozenset(filter(None, pieces)), last)


_KEEP_ALL: dict[str, Any] = {
    "param_names": frozenset(),
    "param_prefixes": (),
    "value_params": frozenset(),
    "host_params": {},
}
