"""Verbs that keep a crawl in order: `crawlkit rebuild`."""

from __future__ import annotations

from typing import Annotated

import typer

from crawlkit.cli import DEFAULT_DATA, AsJson, ConfigFile, Data, Sets, app, emit, guarded
from crawlkit.config import load_config


@app.command()
def rebuild(data: Data = DEFAULT_DATA, from_warc: Annotated[bool, typer.Option("--from-warc", help="Only the WARC files are left: make all tables and the state again.")] = False,
            config: ConfigFile = None, set_: Sets = None, as_json: AsJson = False) -> None:
    """Make crawldb again: from captures, pages and links, or with --from-warc the whole crawl from its WARC files.

    \b
    crawlkit rebuild --data site
    crawlkit rebuild --from-warc --data saved
    """
    from crawlkit.progress import Progress
    from crawlkit.rebuild import rebuild_command, rebuild_text

    guarded(lambda: emit(rebuild_command(data, load_config(config, tuple(set_ or ())), from_warc, Progress(as_json)), as_json, rebuild_text))
