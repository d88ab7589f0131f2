"""IndexNow (indexnow.org/documentation): whose key it is, and for which URLs it speaks."""

from __future__ import annotations

import hashlib
import re

from crawlkit.rules.url.canonical import canonicalize, host_of, origin_of

KEY = re.compile(r"[A-Za-z0-9-]{8,128}")
_BOM = "\ufeff"


def key_location(host: str, key: str, given: str | None, first_url: str) -> str:
    """The canonical URL of the file that proves the key: as given, else KEY.txt at the root of the
    first URL's origin. Raises Refused (no URL), ValueError: it is not of this host.
    """
    url = canonicalize(given or f"{origin_of(first_url)}/{key}.txt")
    if host_of(url) != host:
        raise ValueError(f"keyLocation: {url!r:.200} is not of {host}")
    return url


def is_governed(url: str, location: str) -> bool:
    """Whether a key file speaks for a canonical URL: one in its folder or below, by either scheme
    ("Option 2": a file in /catalog/ speaks for /catalog/... alone).
    """
    folder = location.partition("?")[0]
    folder = folder[: folder.rindex("/") + 1]
    return url.partition("://")[2].startswith(folder.partition("://")[2])


def key_digests(key: str) -> frozenset[str]:
    """SHA-256 (hex) of the bodies that are a key file of this key: the key alone in UTF-8, with or
    without byte order mark and end of line.
    """
    forms = (mark + key + end for mark in ("", _BOM) for end in ("", "\n", "\r\n", "\r"))
    return frozenset(hashlib.sha256(form.encode()).hexdigest() for form in forms)
