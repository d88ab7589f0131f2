"""Verbs before a crawl: plan, doctor."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from crawlkit.cli.errors import report_errors
from crawlkit.cli.root import DEFAULT_DATA, AsJson, ConfigFile, Data, Sets, app, emit
from crawlkit.cli.settings import read_config
from crawlkit.observe.doctor import doctor as look, report, report_text
from crawlkit.planner.plan_command import plan_command, plan_text
from crawlkit.runtime.jars import fetch_all, lock_file


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
    found = report(look(data, read_config(data, config, set_), lock_file()))
    emit(found, as_json, report_text)
    if not found["ok"]:
        raise typer.Exit(2)


@app.command()
@report_errors
def jars(
    s3: Annotated[
        bool, typer.Option("--s3", help="Those for tables in S3, beside Delta's own.")
    ] = False,
) -> None:
    """Fetch the JARs that Spark needs for Delta tables, once for each Python environment.

    \b
    crawlkit jars
    crawlkit jars --s3
    """
    print(fetch_all(s3))
