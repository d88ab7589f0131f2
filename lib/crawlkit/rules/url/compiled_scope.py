"""What the rules of the scope look at: the compiled settings and the URL (docs/rules/urls.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from crawlkit.config import ConfigError, ScopeConfig
from crawlkit.outcomes import Refused
from crawlkit.rules.url.canonical import UrlPolicy, canonicalize, split


@dataclass(frozen=True, slots=True)
class Scope:
    """A compiled `config.scope`: build it with `Scope.of`."""

    config: ScopeConfig
    hosts: frozenset[str]
    domains: tuple[str, ...]  # each with a leading dot
    prefixes: tuple[str, ...]
    exclude: str | None
    media_extensions: frozenset[str]
    skip_extensions: frozenset[str]

    @classmethod
    def of(cls, config: ScopeConfig) -> Scope:
        """Compiles a scope.

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
                pc.match_substring_regex(pa.scalar(""), pattern=pattern)
            except pa.ArrowInvalid as e:
                raise ConfigError(f"scope.exclude_patterns: {pattern!r}: {e}") from None
        return cls(
            config,
            frozenset(_host(name, "scope.hosts") for name in config.hosts),
            tuple(
                "." + _host(name.removeprefix("*.").removeprefix("."), "scope.domains")
                for name in config.domains
            ),
            tuple(_prefix(text) for text in config.prefixes),
            exclude,
            frozenset(end.lower() for end in config.media_extensions),
            frozenset(end.lower() for end in config.skip_extensions),
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


def _host(name: str, key: str) -> str:
    try:
        url = canonicalize(f"http://{name}/", None, UrlPolicy())
    except Refused as refused:
        raise ConfigError(f"{key}: {name!r} is no host name: {refused.reason}") from None
    parts = split(url)
    if url != f"http://{parts.host}/" or "*" in name or name.startswith("."):
        raise ConfigError(
            f"{key}: {name!r} is no host name: give it without scheme, port, path and *"
        )
    return parts.host


def _prefix(text: str) -> str:
    try:
        return canonicalize(text, None, UrlPolicy())
    except Refused as refused:
        raise ConfigError(f"scope.prefixes: {text!r} is no URL: {refused.reason}") from None
