"""URLs as arguments: every verb takes them without a scheme too, as seeds are taken."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from crawlkit.rules.url.seeds import with_scheme


def read_url(url: Optional[str]) -> str | None:
    """The URL that was given, with its scheme."""
    return None if url is None else with_scheme(url.strip())


def _each(urls: Optional[list[str]]) -> list[str] | None:
    return None if urls is None else [with_scheme(url.strip()) for url in urls]


_HELP = "Without a scheme: http://."
Url = Annotated[str, typer.Argument(metavar="URL", callback=read_url, help=_HELP)]
Urls = Annotated[list[str], typer.Argument(metavar="URL...", callback=_each, help=_HELP)]
