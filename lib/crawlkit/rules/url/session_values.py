"""Whether a value is the id of a session: long and random, where the name may also be a page's."""

from __future__ import annotations

import re

MIN_CHARS = 16
_RUN = re.compile(rf"[0-9A-Za-z]{{{MIN_CHARS},}}")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_CHANGE = re.compile(r"[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9])")
_CAPITALS = re.compile(r"[A-Z]{20,}")
MIN_CHANGES = 4  # between digits and letters; words with a year in them have one or two


def is_session_value(value: str) -> bool:
    """Whether the value of a parameter is long and random.

    A number, a date, a path or words are none, however long: two of them are two resources until
    there is evidence (RFC 3986 6.2.2; params.py).
    """
    if _UUID.fullmatch(value) or _CAPITALS.fullmatch(value):
        return True
    return any(len(_CHANGE.findall(run)) >= MIN_CHANGES for run in _RUN.findall(value))
