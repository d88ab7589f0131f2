"""`crawlkit doctor`."""

from __future__ import annotations

from pathlib import Path

import typer

from crawlkit.cli.app import DEFAULT_DATA, AsJson, ConfigFile, Data, Sets, app, emit
from crawlkit.cli.errors import report_errors
from crawlkit.cli.settings import read_config
from crawlkit.observe.doctor import doctor as look
from crawlkit.observe.doctor import report, report_text


@app.command()
@report_errors
def doctor(
    data: Data = DEFAULT_DATA, config: ConfigFile = None, set_: Sets = None, as_json: AsJson = False
) -> None:
    """What this machine and the stores lack for a crawl, and how to fix it. Exit 2 if something is
    missing.

    \b
    crawlkit doctor --data site --config my.yaml
    """
    found = report(look(data, read_config(config, set_), Path("conf/jars.lock")))
    emit(found, as_json, report_text)
    if not found["ok"]:
        raise typer.Exit(2)
