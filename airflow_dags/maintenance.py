"""maintenance: compact the tables, pack small WARC files, remove leftovers; then tables and WARC
files are compared record by record.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task
from crawlkit_forms import crawl_fields
from crawlkit_tasks import Stage, crawl_args, crawlkit, dag_settings

with DAG(
    **dag_settings("maintenance", "30 4 * * *", timedelta(hours=4), timedelta(hours=12)),
    params=crawl_fields(),
    doc_md=__doc__,
):

    @task
    def reconcile(**context: Any) -> dict[str, Any]:
        return crawlkit("reconcile", *crawl_args(context["params"]))

    (
        Stage(
            task_id="maintain",
            stage="maintain",
            extra_args=["--now", "{{ dag_run.run_after.timestamp() | int }}"],
        )
        >> reconcile()
    )
