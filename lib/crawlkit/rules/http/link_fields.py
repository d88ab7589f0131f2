"""The Link field (RFC 8288 3): targets with their parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

MAX_HEADER_CHARS = 16_384  # read of one field line

_LINK_VALUE = re.compile(
    r"<([^<>]*+)>((?:\s*+;(?:\s*+[^\s=;,<>]++(?:\s*+=\s*+(?:\"(?>[^\"\\]++|\\.)*+\"|[^\s;"
    r",\"<>]*+))?+)?+)*+)",
    re.S,
)
_LINK_PARAM = re.compile(
    r";\s*+([^\s=;,<>]++)(?:\s*+=\s*+(?:\"((?>[^\"\\]++|\\.)*+)\"|([^\s;,\"<>]*+)))?+", re.S
)


def link_fields(headers: Iterable[tuple[str, str]]) -> Iterator[dict[str, str]]:
    """Parameters of each link of the Link fields, by name in lower case, with its target as `href`;
    those about another context (`anchor`) are not the answer's and left out.
    """
    for name, value in headers:
        if name.lower() != "link":
            continue
        for m in _LINK_VALUE.finditer(value[:MAX_HEADER_CHARS]):
            attributes: dict[str, str] = {"href": m[1].strip()}
            for p in _LINK_PARAM.finditer(m[2]):
                attributes.setdefault(p[1].lower(), re.sub(r"\\(.)", r"\1", p[2] or p[3] or ""))
            if "anchor" not in attributes:
                yield attributes
