"""Content of a meta refresh element or a Refresh field (HTML Standard, shared declarative refresh
steps).
"""

from __future__ import annotations

import re

MAX_SECONDS = 10**9

_SPACE = "\t\n\x0c\r "
_DELAY = re.compile(
    rf"[{_SPACE}]*(?:([0-9]{{1,1000}}+)[0-9.]*+|\.[0-9.]*+)(?:[{_SPACE}]*[;,][{_SPACE}]*"
    rf"|[{_SPACE}]+|\Z)"
)
_URL_EQUALS = re.compile(rf"[uU][rR][lL][{_SPACE}]*=[{_SPACE}]*")


def parse_refresh(content: str) -> tuple[int, str] | None:
    """(seconds, reference as written) of a refresh; the reference is empty for a reload; None if it
    is no refresh.
    """
    m = _DELAY.match(content)
    if not m:
        return None
    seconds = min(int(m.group(1) or 0), MAX_SECONDS)
    rest = content[m.end() :]
    if rest[:1] in ("u", "U"):
        prefix = _URL_EQUALS.match(rest)
        if not prefix:
            return seconds, rest.strip(_SPACE)
        rest = rest[prefix.end() :]
    if rest[:1] in ("'", '"'):
        rest = rest[1:].partition(rest[0])[0]
    return seconds, rest.strip(_SPACE)
