"""crawl_round: one round, a task for each stage.

fast_round: the same with a small budget, often, for news and forced URLs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, chain, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from crawlkit_forms import PRIORITIES, budget_fields, crawl_fields, urls_field
from crawlkit_tasks import (
    Stage,
    crawl_args,
    crawlkit,
    dag_settings,
    failed,
    fields,
    nominal,
    own_name,
)

# A region that has died is told and left out: commit gives its URLs back. Where nothing was due,
# the round is closed all the same.
RULES = {"commit": "all_done_min_one_success", "update": "none_failed", "report": "none_failed"}
ROUND_ID = "{{ ti.xcom_pull(task_ids='open')['round_id'] }}"


@task(task_id="open")
def open_round(**context: Any) -> dict[str, Any]:
    """The run's round: of its own name, or one that an earlier run of this DAG left unfinished."""
    run, params = context["dag_run"], fields(context)
    return crawlkit(
        "open",
        "--round-id",
        own_name(run.dag_id, run.run_id),
        "--resume",
        f"{run.dag_id}.",
        "--now",
        nominal(context),
        *crawl_args(params),
    )


class Inject(Stage):
    """The seeds of the form or of its seed file; skipped where there are none, or where they have
    long been brought in.
    """

    lines = ""  # file with the seeds of the form

    def arguments(self, params: Mapping[str, Any]) -> list[str]:
        return [
            *super().arguments(params),
            "--seeds",
            params["seeds_file"] or self.lines,
            "--priority",
            params["priority"],
        ]

    def execute(self, context: Any) -> None:
        seeds, file = context["params"]["seeds"], context["params"]["seeds_file"]
        if seeds and file:
            raise AirflowFailException("seeds, seeds_file: give one of the two")
        if not seeds and not file:
            raise AirflowSkipException("no seeds")
        if context["ti"].xcom_pull(task_ids="open")["state"] != "open":
            raise AirflowSkipException("the round is over: a finished run is run again")
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", prefix="seeds-", suffix=".txt"
        ) as lines:
            lines.write("\n".join(seeds or []))
            lines.flush()
            self.lines = lines.name
            super().execute(context)


@task
def regions(**context: Any) -> list[list[str]]:
    """For each region its further words of the fetch job, without regions none; nothing at all if
    nothing is due, then the stages up to rank are skipped.
    """
    round_id = context["ti"].xcom_pull(task_ids="open")["round_id"]
    [found] = crawlkit("status", "--round-id", round_id, *crawl_args(context["params"]))["rounds"]
    return ([["--region", r] for r in found["regions"] or []] or [[]]) if found["planned"] else []


def round_dag(
    dag_id: str, schedule: str, late_after: timedelta, ends_after: timedelta, form: dict[str, Param]
) -> DAG:
    """open, inject (where there are seeds), generate, regions, fetch of each region, commit, parse,
    dedup, update, rank, report.
    """
    with DAG(
        **dag_settings(dag_id, schedule, late_after, ends_after), params=form, doc_md=__doc__
    ) as dag:
        steps: list[Any] = [open_round()]
        if "seeds" in form:
            steps.append(Inject(task_id="inject", stage="inject", round_id=ROUND_ID))
        generate = Stage(
            task_id="generate", stage="generate", round_id=ROUND_ID, trigger_rule="none_failed"
        )
        where = regions()
        fetch = Stage.partial(
            task_id="fetch",
            stage="fetch",
            round_id=ROUND_ID,
            on_failure_callback=failed,
            map_index_template="{{ (task.extra_args or ['all'])[-1] }}",
        ).expand(extra_args=where)
        commit, parse, dedup, update, rank, report = (
            Stage(task_id=s, stage=s, round_id=ROUND_ID, trigger_rule=RULES.get(s, "all_success"))
            for s in ("commit", "parse", "dedup", "update", "rank", "report")
        )
        chain(*steps, generate, where, fetch, commit, parse, dedup, update, rank, report)
        dedup >> rank  # where nothing was due there is nothing new to rank,
        update >> report  # and a rank that is skipped at once is not to be taken for its end
    return dag


round_dag(
    "crawl_round",
    "@hourly",
    timedelta(hours=2),
    timedelta(hours=6),
    {
        "seeds": urls_field("Seeds to begin with or to add."),
        "seeds_file": Param(
            None,
            type=["null", "string"],
            pattern=r"^/[^\x00-\x1f]*$",
            title="Seed file",
            description="Absolute path; one URL a line with optional TAB key=value.",
        ),
        "priority": Param("high", type="string", enum=PRIORITIES, title="Priority of the seeds"),
        **budget_fields(300),
        **crawl_fields(),
    },
)
round_dag(
    "fast_round",
    "*/10 * * * *",
    timedelta(minutes=20),
    timedelta(hours=1),
    budget_fields(40, minutes=5, max_urls=1000) | crawl_fields(),
)
