"""The shape of a URL: what stays when numbers and tokens become wildcards.

URLs that one program makes without end (calendars, counters, session paths) have few shapes; pages
that people name have many.
"""

from __future__ import annotations

import re

_UUID = re.compile(
    r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}(?![0-9A-Za-z])"
)
# an escape is a letter of another script; no word of eight letters has only a to f
_PIECE = re.compile(
    r"%[0-9A-F]{2}|[A-Za-z0-9]*[0-9][A-Za-z0-9]*|[A-Za-z]{20,}|(?<![A-Za-z])(?:[a-f]{8,}"
    r"|[A-F]{8,})(?![A-Za-z])"
)
_DIGITS = re.compile(r"[0-9]+")
_HEX = re.compile(r"[0-9a-f]{8,}|[0-9A-F]{8,}")
_CHANGES = re.compile(r"(?<=[0-9])[A-Za-z]|(?<=[A-Za-z])[0-9]")
_CASE_CHANGES = re.compile(r"(?<=[a-z])[A-Z]")


def url_shape(canonical: str) -> str:
    """The URL with `*` for each number, date part, hex or mixed token of its path and query; host
    and words stay.
    """
    slash = canonical.index("/", 8)
    return canonical[:slash] + _PIECE.sub(_wild, _UUID.sub("*", canonical[slash:]))


def same_shape(canonical: str, other: str) -> bool:
    """Whether two canonical URLs have one shape."""
    return url_shape(canonical) == url_shape(other)


def _wild(match: re.Match[str]) -> str:
    text = match[0]
    if text[0] == "%":
        return text
    if not any(char.isdigit() for char in text):
        return (
            "*" if _HEX.fullmatch(text) or len(_CASE_CHANGES.findall(text)) >= 4 else text
        )  # base64 without a digit
    if (
        _HEX.fullmatch(text)
        or len(text) >= 16
        or (len(text) >= 6 and len(_CHANGES.findall(text)) >= 3)
    ):
        return "*"
    return _DIGITS.sub("*", text)
