"""`crawlkit plan`: before a crawl."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from crawlkit.cli.app import AsJson, app, emit
from crawlkit.cli.errors import report_errors
from crawlkit.planner.plan_command import plan_command, plan_text


@app.command()
@report_errors
def plan(
    profile: Annotated[
        str,
        typer.Option(
            "--profile",
            help="A, B, C, D, E (published designs), 1e5-a-day, 1e7-a-day, 5e8-a-day, 5e9-a-day.",
        ),
    ] = "A",
    input_: Annotated[
        Optional[list[str]],
        typer.Option(
            "--input",
            metavar="NAME=NUMBER",
            help="Replace an input, for example pages=5e8 (docs/planner.md names them all).",
        ),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure cpu_ms_per_page on this machine (2 s).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Capacity: machines, bandwidth, storage, filters and cost of a crawl.

    \b
    crawlkit plan --profile A
    crawlkit plan --profile 1e7-a-day --input page_bytes=60e3 --input machine_usd_h=0.4 --measure
    """
    emit(plan_command(profile, list(input_ or ()), measure), as_json, plan_text)
