"""`crawlkit plan` and `crawlkit doctor`: before a crawl; `crawlkit rebucket`: when it has outgrown
its buckets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from crawlkit.cli.app import DEFAULT_DATA, AsJson, ConfigFile, Data, Sets, app, emit, guarded
from crawlkit.config import load_config


@app.command()
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
    from crawlkit.planner.plan_command import plan_command, plan_text

    guarded(lambda: emit(plan_command(profile, list(input_ or ()), measure), as_json, plan_text))


@app.command()
def doctor(
    data: Data = DEFAULT_DATA, config: ConfigFile = None, set_: Sets = None, as_json: AsJson = False
) -> None:
    """What this machine and the stores lack for a crawl, and how to fix it. Exit 2 if something is missing.

    \b
    crawlkit doctor --data site --config my.yaml
    """
    from crawlkit.observe.doctor import doctor as look
    from crawlkit.observe.doctor import report, report_text

    def run() -> None:
        found = report(look(data, load_config(config, tuple(set_ or ())), Path("conf/jars.lock")))
        emit(found, as_json, report_text)
        if not found["ok"]:
            raise typer.Exit(2)

    guarded(run)


@app.command()
def rebucket(
    buckets: Annotated[
        int, typer.Argument(metavar="N", min=1, max=65_536, help="Host buckets, a power of two.")
    ],
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Change the number of host buckets between two rounds; from then on frontier.buckets must say the same.

    \b
    crawlkit rebucket 16 --data site
    """
    from crawlkit.round.progress import Progress
    from crawlkit.upkeep.rebucket import rebucket_command, rebucket_text

    guarded(
        lambda: emit(
            rebucket_command(
                buckets, data, load_config(config, tuple(set_ or ())), Progress(as_json)
            ),
            as_json,
            rebucket_text,
        )
    )
