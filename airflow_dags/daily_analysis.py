"""daily_analysis: ranks and report of the newest finished round made anew, exports of the day,
parameter rules that pages propose.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowSkipException
from crawlkit_forms import crawl_fields
from crawlkit_tasks import Stage, crawl_args, crawlkit, dag_settings, fields, nominal

EXPORTS = ["urls", "pages", "hostgraph", "cdxj", "wet", "wat", "wacz", "cc-index"]
FIELDS = {
    "exports": Param(
        ["urls", "hostgraph"],
        type="array",
        items={"type": "string", "enum": EXPORTS},
        uniqueItems=True,
        examples=EXPORTS,
        title="Exports",
        description="Written below the crawl's folder export/ (docs/exports.md).",
    )
}
ROUND_ID = "{{ ti.xcom_pull(task_ids='newest') }}"

with DAG(
    **dag_settings("daily_analysis", "30 3 * * *", timedelta(hours=2), timedelta(hours=6)),
    params=FIELDS | crawl_fields(),
    doc_md=__doc__,
):

    @task
    def newest(**context: Any) -> str:
        """The newest finished round."""
        rounds = [
            r["round_id"]
            for r in crawlkit("status", *crawl_args(fields(context)))["rounds"]
            if r["state"] == "closed" and "report" in r["done"]
        ]
        if not rounds:
            raise AirflowSkipException("no round has been finished yet")
        return rounds[-1]

    @task
    def chosen(**context: Any) -> list[str]:
        return list(fields(context)["exports"])

    @task
    def export(kind: str, **context: Any) -> dict[str, Any]:
        return crawlkit(
            "export",
            kind,
            *(["--now", nominal(context)] if kind == "urls" else []),
            *crawl_args(context["params"]),
        )

    @task
    def params(**context: Any) -> dict[str, Any]:
        """What `crawlkit params` proposes; nothing is changed by it."""
        return crawlkit("params", *crawl_args(context["params"]))

    first = newest()
    (
        first
        >> Stage(task_id="rank", stage="rank", round_id=ROUND_ID, extra_args=["--force"])
        >> Stage(task_id="report", stage="report", round_id=ROUND_ID, extra_args=["--force"])
        >> params()
    )
    first >> export.expand(kind=chosen())
