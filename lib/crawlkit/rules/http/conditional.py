"""Validators of a stored copy, the conditional request made of them (RFC 9110 8.8, 13.1), and for
how long it says that it is fresh.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

MAX_VALIDATOR_CHARS = 1024
MAX_DIRECTIVE_CHARS = 1024  # of a Cache-Control that are read
_MAX_AGE = re.compile(r'max-age[ \t]*=[ \t]*"?([0-9]{1,9})"?')
_ETAG = re.compile(
    r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"|[\x21\x23-\x29\x2b\x2d-\x7e][\x21\x23-\x2b\x2d-\x7e]*'
)
_DATE = re.compile(r"[\x20-\x7e]+")


def validators(headers: Iterable[tuple[str, str]]) -> tuple[str | None, str | None]:
    """(ETag, Last-Modified) of an answer exactly as received; None for absent,
    repeated-and-different or unsendable ones.

    An entity tag without quotes is kept (servers that send it compare it as text); `*` or a comma
    outside quotes would mean something else in If-None-Match and is not.
    """
    found: dict[str, set[str]] = {"etag": set(), "last-modified": set()}
    for name, value in headers:
        if name.lower() in found:
            found[name.lower()].add(value)
    etag, modified = (values.pop() if len(values) == 1 else None for values in found.values())
    return _sendable(etag, _ETAG), _sendable(modified, _DATE)


def _sendable(value: str | None, form: re.Pattern[str]) -> str | None:
    return value if value and len(value) <= MAX_VALIDATOR_CHARS and form.fullmatch(value) else None


def conditional_headers(etag: str | None, last_modified: str | None) -> list[tuple[str, str]]:
    """If-None-Match and If-Modified-Since, each exactly as the validator was received (RFC 9110
    13.1.2, 13.1.3).
    """
    headers = []
    if etag := _sendable(etag, _ETAG):
        headers.append(("If-None-Match", etag))
    if last_modified := _sendable(last_modified, _DATE):
        headers.append(("If-Modified-Since", last_modified))
    return headers


def fresh_for_s(cache_control: str | None) -> float | None:
    """How long an answer says that it stays true, s: its first max-age (RFC 9111 5.2.2.1); infinite
    where it is `immutable` for that time (RFC 8246). None: it does not say, or is not to be kept.
    """
    if not cache_control:
        return None
    directives = [d.strip().lower() for d in cache_control[:MAX_DIRECTIVE_CHARS].split(",")]
    names = {d.partition("=")[0].rstrip() for d in directives}
    if names & {"no-cache", "no-store"}:
        return None
    ages = [m[1] for d in directives if (m := _MAX_AGE.fullmatch(d))]
    if not ages or not int(ages[0]):
        return None
    return math.inf if "immutable" in directives else float(ages[0])
