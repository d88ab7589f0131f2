"""Seed lines: `URL [TAB key=value]...` as Nutch's injector reads them.

Keys: priority (0..3 or a word), boost (points), depth, kind (page, sitemap or feed); all others are
kept as metadata (source, time ...). `#` starts a comment line. A line without a scheme that begins
with a host name (with a dot, maybe a port, no `@`) is read as http://. A byte order mark and CR LF
are taken off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.frontier.priority import parse_priority
from crawlkit.rules.url.canonical import DEFAULT_POLICY, UrlPolicy, as_found, canonicalize

MAX_LINE_CHARS = 65_536
MAX_METADATA_CHARS = 4000  # of one URL, as JSON
# a name with a dot or an address, maybe a port: no mail address, no `mailto:`, no credentials, no
# host behind another scheme
_HOST_FIRST = re.compile(r"(?=[^:/?#]*\.)[^:/?#@\[\]\s]+(?::[0-9]*)?(?:[/?#]|\Z)")


class Seed(NamedTuple):
    """One injected URL, canonical. sent_url: how it is requested, where not as `url`."""

    url: str
    priority_class: int
    boost: float
    depth: int
    fetch_kind: str = "page"
    sent_url: str | None = None
    metadata: str | None = None  # further keys and their values, as JSON


def with_scheme(url: str) -> str:
    """A URL as a person writes it: what begins with a host name (with a dot) is read as http://."""
    return f"http://{url}" if _HOST_FIRST.match(url) else url


def metadata_json(given: Mapping[str, object]) -> str | None:
    """What is given with a URL, as JSON with sorted keys; None if nothing is.

    Raises Refused for more than MAX_METADATA_CHARS.
    """
    text = json.dumps(given, sort_keys=True, ensure_ascii=False) if given else None
    if text is not None and len(text) > MAX_METADATA_CHARS:
        raise Refused(Reason.URL_INVALID, f"metadata of {len(text)} characters")
    return text


def parse_seed(
    line: str, priority_class: int = 1, policy: UrlPolicy = DEFAULT_POLICY
) -> Seed | None:
    """The seed of a line; None for an empty line or a comment.

    Raises Refused (bad URL or bad key).
    """
    line = line.removeprefix("\ufeff").strip("\r\n\x00\t ")
    if not line or line.startswith("#"):
        return None
    if len(line) > MAX_LINE_CHARS:
        raise Refused(Reason.URL_TOO_LONG, f"line of {len(line)} characters")
    url, *pairs = line.split("\t")
    url = with_scheme(url.strip())
    boost, depth, kind = 0.0, 0, "page"
    more: dict[str, str] = {}
    for pair in filter(None, pairs):
        key, sep, value = pair.partition("=")
        try:
            if key == "priority":
                priority_class = parse_priority(value)
            elif key in ("boost", "nutch.score"):
                boost = min(max(float(value), -100.0), 100.0)
            elif key == "depth":
                depth = min(max(int(value), 0), 1000)
            elif key == "kind":
                if value not in ("page", "sitemap", "feed"):
                    raise ValueError(f"{value!r:.40}: expected page, sitemap or feed")
                kind = value
            elif not sep:
                raise ValueError(f"{pair!r:.60}: expected key=value")
            else:
                more[key.strip()] = value
        except ValueError as e:
            raise Refused(Reason.URL_INVALID, f"{key}: {e}") from None
    if boost != boost:
        raise Refused(Reason.URL_INVALID, "boost is not a number")
    canonical = canonicalize(url, policy=policy)
    sent_url = as_found(url, canonical, None, policy)
    return Seed(canonical, priority_class, boost, depth, kind, sent_url, metadata_json(more))
