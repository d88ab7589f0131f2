"""Regular expressions of operators: RE2's syntax, which takes linear time, by the copy in Arrow."""

from __future__ import annotations


def is_found(pattern: str, text: str) -> bool:
    """Whether a pattern is found in a text. Raises ValueError for one that RE2 refuses."""
    import pyarrow.compute as pc  # loaded where there are patterns alone: it takes 0.1 s

    found: bool = pc.match_substring_regex(text, pattern=pattern).as_py()
    return found
