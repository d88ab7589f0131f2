"""Validators of a stored copy and the conditional request made of them (RFC 9110 8.8, 13.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_VALIDATOR_CHARS = 1024
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
