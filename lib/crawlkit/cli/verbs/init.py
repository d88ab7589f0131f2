"""`crawlkit init`: a commented crawl.yaml, and a folder for Airflow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from crawlkit.cli.errors import report_errors
from crawlkit.cli.root import AsJson, Sets, app, emit
from crawlkit.config.layers import read_settings
from crawlkit.config.section import ConfigError
from crawlkit.crawl.kept_settings import FILE, new_settings
from crawlkit.local.airflow_folder import check_free, write_airflow_folder


@app.command()
@report_errors
def init(
    data: Annotated[
        str, typer.Argument(metavar="DIR", help="Folder of the crawl, or s3://bucket/prefix.")
    ],
    airflow: Annotated[
        Optional[Path],
        typer.Option(
            "--airflow", metavar="DIR2", help="Write the DAGs there too, ready to be used."
        ),
    ] = None,
    set_: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Begin a crawl's folder with a commented crawl.yaml; nothing that is there is overwritten.

    \b
    crawlkit init site --set agent.info_url=https://you.example/bot
    crawlkit init site --airflow airflow
    """
    settings = read_settings(None, None, list(set_ or ()))
    file = f"{data.rstrip('/')}/{FILE}"
    if airflow is not None:
        check_free(airflow)
    if not new_settings(data, settings):
        raise ConfigError(f"{file} is there already: change it, or name another folder")
    answer: dict[str, Any] = {"settings": file}
    if airflow is not None:
        answer["airflow"] = str(write_airflow_folder(airflow))
    emit(answer | {"data": data}, as_json, _init_text)


def _init_text(v: dict[str, Any]) -> str:
    lines = [
        f"wrote {v['settings']}: set agent.info_url there to a page that explains your crawler,",
        "and begin:",
        f"    crawlkit crawl https://site.example/ --data {v['data']}",
    ]
    if "airflow" in v:
        lines += [
            f"wrote {v['airflow']}: its airflow_dags is the DAG folder (docs/airflow.md):",
            f"    export AIRFLOW__CORE__DAGS_FOLDER={v['airflow']}/airflow_dags",
        ]
    return "\n".join(lines)
