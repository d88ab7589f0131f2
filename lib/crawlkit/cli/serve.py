"""`crawlkit serve`: the control API."""

from __future__ import annotations

import sys
from typing import Annotated, Optional

import typer

from crawlkit.cli.app import DEFAULT_DATA, ConfigFile, Data, Sets, app
from crawlkit.cli.errors import report_errors
from crawlkit.cli.settings import read_config
from crawlkit.control.serve import run


@app.command()
@report_errors
def serve(
    data: Data = DEFAULT_DATA,
    host: Annotated[
        Optional[str], typer.Option("--host", help="Address to listen on (default: control.host).")
    ] = None,
    port: Annotated[
        Optional[int],
        typer.Option("--port", min=0, max=65535, help="Port (default: control.port)."),
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
) -> None:
    """The control API and its status page (docs/api.md).

    Needs a token: control.token, CRAWLKIT_TOKEN by default.
    """

    def log(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    run(data, read_config(config, set_), host, port, log)
