"""One result of `crawlkit doctor`."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One thing checked. `fix`: what to do if it is not `ok`."""

    check: str
    ok: bool
    detail: str
    fix: str = ""
