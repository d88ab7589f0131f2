"""Parsers of further media types that installed packages bring (docs/extending.md)."""

from __future__ import annotations

import logging
from functools import cache
from importlib.metadata import entry_points

from crawlkit.rules.page.other_formats import Extract

GROUP = "crawlkit.parsers"
log = logging.getLogger(__name__)


@cache
def parser_plugins() -> dict[str, Extract]:
    """Media type (lower case) -> function (body, Content-Type) -> PlainText, of the entry points of
    GROUP. One that cannot be loaded is logged and left out.
    """
    found: dict[str, Extract] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        try:
            found[point.name.lower()] = point.load()
        except Exception as e:  # noqa: BLE001 - not ours
            log.warning("parser %s (%s) is not used: %s", point.name, point.value, e)
    return found
