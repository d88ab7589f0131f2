"""Origins that a page asks for and that its fetch task does not pace: learned for the next round.

Only the task that paces a host may ask it. What a render could not ask is written into the detail
of its capture, kept with the host (`hostdb.render_origins`), and planned into its task next time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_ORIGINS = 16  # of a host
_LABEL = "asks "
# a name with a letter in its last label, so no address (WHATWG URL 3.5)
_ORIGIN = re.compile(r"https?://[A-Za-z0-9._-]{1,250}\.[a-z][a-z0-9-]{1,62}(?::[0-9]{1,5})?\Z")


def write_origins(origins: Iterable[str]) -> str:
    """The part of a detail that names origins; empty if there are none."""
    named = sorted(o for o in origins if _ORIGIN.match(o))[:MAX_ORIGINS]
    return _LABEL + " ".join(named) if named else ""


def read_origins(detail: str | None) -> list[str]:
    """The origins that `write_origins` wrote into a detail."""
    first = (detail or "").partition("; ")[0]
    if not first.startswith(_LABEL):
        return []
    return [o for o in first.removeprefix(_LABEL).split() if _ORIGIN.match(o)]


def merge_origins(known: Iterable[str] | None, details: Iterable[str | None]) -> list[str]:
    """The origins of a host, those known first, at most MAX_ORIGINS."""
    found = [o for detail in details for o in read_origins(detail)]
    return sorted(dict.fromkeys([*(known or ()), *sorted(found)]))[:MAX_ORIGINS]
