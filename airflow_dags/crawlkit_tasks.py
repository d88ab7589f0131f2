"""What the DAGs are made of: a Spark stage by spark-submit, a call of the crawlkit command,
callbacks, the tables as assets.

Airflow and crawlkit live in two environments: nothing here imports crawlkit or pyspark. Stages run
by the `spark-submit` of HOME/.venv, the command is HOME/.venv/bin/crawlkit. A run's parameters and
its id are all that a task goes by: run again, it does the same. Exit codes of both: 0 done, 1
failed and 3 a lock is held (tried again), 2 bad input (not tried again).
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import logging
import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, DeadlineAlert, DeadlineReference, SyncCallback
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from crawlkit_forms import HOME

log = logging.getLogger("crawlkit")
BIN = HOME / ".venv" / "bin"
JARS = HOME / ".venv" / "share" / "crawlkit" / "jars"
TELL_TIMEOUT_S = 30.0

# The tables that each stage reads and writes: made of the stages' own contracts (`make docs`).
CONTRACTS = json.loads((Path(__file__).parent / "contracts.json").read_text("utf-8"))
WRITES = {stage: contract["writes"] for stage, contract in CONTRACTS.items()}


def table(name: str) -> Asset:
    return Asset(name=f"crawlkit.{name}", uri=f"crawlkit://tables/{name}")


# -- names and arguments ---------------------------------------------------------------
def own_name(dag_id: str, run_id: str) -> str:
    """The name of a run's round and commands, another one for each run: at most 80 letters, digits
    and _ . - (it stands in paths of tables and files).
    """
    name = f"{dag_id}.{run_id}"
    clean = re.sub(r"[^A-Za-z0-9_.-]", "-", name.replace("+00:00", "Z"))
    return (
        clean
        if clean == name and len(name) <= 80
        else f"{clean[:71]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    )


def crawl_args(params: Mapping[str, Any]) -> list[str]:
    """--data, --config and --set of the fields `crawl_fields` and `budget_fields`."""
    sets = [
        *(params["set"] or []),
        *(
            f"round.{key}={params[key]}"
            for key in ("minutes", "max_urls")
            if params.get(key) is not None
        ),
    ]
    return [
        "--data",
        params["data"],
        *(["--config", params["config"]] if params["config"] else []),
        *(word for s in sets for word in ("--set", s)),
        "--json",
    ]


def nominal(context: Mapping[str, Any]) -> str:
    """--now of a run: the time after which it was to start, the same however often it is run."""
    return f"{context['dag_run'].run_after.timestamp():.0f}"


def fields(context: Mapping[str, Any]) -> Mapping[str, Any]:
    """The run's parameters.

    Raises AirflowFailException for one that the form does not have: Airflow takes it and says
    nothing.
    """
    known = set(context["dag"].params)
    if unknown := sorted(set(context["dag_run"].conf or {}) - known):
        near = difflib.get_close_matches(unknown[0], known, 1)
        raise AirflowFailException(
            f"unknown field {unknown[0]!r:.60}"
            + (f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(known))}")
        )
    return context["params"]


# -- running ---------------------------------------------------------------------------
def crawlkit(*args: str, answers: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """The JSON answer of a crawlkit command.

    Raises AirflowFailException for bad input (exit 2), AirflowException for what may pass.

    answers: exit codes at which there is one (`alerts` exits 1 if one fires).
    """
    done = subprocess.run(
        [str(BIN / "crawlkit"), *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(),
    )
    for line in done.stderr.splitlines()[-200:]:
        log.info(line)
    answer = done.stdout.strip().splitlines()[-1:]
    log.info("crawlkit %s: exit %d: %.10000s", shlex.join(args), done.returncode, "".join(answer))
    if done.returncode not in answers or not answer:
        usage = " ".join(
            re.sub(r"[\u2500-\u257f]", " ", done.stderr[-2000:]).split()
        )  # a word that is missing or unknown is told in a frame
        said = next(
            (line for line in reversed(done.stderr.splitlines()) if line.startswith("crawlkit: ")),
            "".join(answer) or usage,
        )
        raise (AirflowFailException if done.returncode == 2 else AirflowException)(said[:2000])
    return json.loads(answer[0])


def _environment() -> dict[str, str]:
    """Ours for the other environment: its Python, its spark-submit."""
    inherited = {
        k: v
        for k, v in os.environ.items()
        if k not in ("PYTHONPATH", "VIRTUAL_ENV", "SPARK_HOME", "PYSPARK_DRIVER_PYTHON")
    }
    return inherited | {
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYSPARK_PYTHON": str(BIN / "python"),
    }


class Stage(SparkSubmitOperator):
    """jobs/STAGE.py on the master of the connection `spark_default`, from the product's own
    environment.

    round_id (templated): the round; none for maintain. extra_args (templated): further words of the
    job, one list for each mapped task.
    """

    template_fields: Sequence[str] = ("round_id", "extra_args")
    template_fields_renderers = {"extra_args": "json"}

    def __init__(
        self,
        *,
        stage: str,
        round_id: str | None = None,
        extra_args: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        places = {
            f"spark.{side}.extraClassPath": f"{JARS}/*{os.pathsep}{JARS}/s3/*"
            for side in ("driver", "executor")
        }
        kwargs["outlets"] = [
            table(name) for name in WRITES.get(stage, ())
        ]  # a mapped task is given an empty one
        super().__init__(
            application=str(HOME / "jobs" / f"{stage}.py"),
            name=f"crawlkit {stage}",
            py_files=str(HOME / "dist" / "crawlkit.zip"),
            conf=places,
            driver_memory=os.environ.get("CRAWLKIT_DRIVER_MEMORY", "2g"),
            properties_file=os.environ.get("CRAWLKIT_SPARK_PROPERTIES") or None,
            **kwargs,
        )
        self.round_id, self.extra_args = round_id, extra_args

    def arguments(self, params: Mapping[str, Any]) -> list[str]:
        """The job's words."""
        return [
            *crawl_args(params),
            *(["--round-id", self.round_id] if self.round_id else []),
            *(self.extra_args or []),
        ]

    def execute(self, context: Any) -> None:
        params = fields(context)
        self.application_args = self.arguments(params)
        self.env_vars = {k: v for k, v in _environment().items() if k in ("PATH", "PYSPARK_PYTHON")}
        try:
            super().execute(context)
        except AirflowException as e:
            said = [line for line in str(e).splitlines() if line.startswith("crawlkit: ")]
            raise (
                AirflowFailException
                if re.search(r"Error code is: 2\b", str(e))
                else AirflowException
            )(said[-1] if said else str(e)[:2000]) from None
        for asset in self.outlets:
            context["outlet_events"][asset].extra = {
                "data": params["data"],
                "config": params["config"],
                "set": params["set"],
                "round_id": self.round_id,
            }

    def on_kill(self) -> None:
        """End what the task has started; Airflow itself ends the JVM alone, and the driver would
        keep its hold on the round.
        """
        started = psutil.Process().children(recursive=True)
        super().on_kill()
        for process in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


# -- telling ---------------------------------------------------------------------------
def tell(event: str, context: Mapping[str, Any]) -> None:
    """One line in the log, and the same JSON to the standard input of the command
    CRAWLKIT_ON_FAILURE (mail, chat, pager).
    """
    run = context["dag_run"]
    if not isinstance(run, dict):  # as a deadline's callback is given it
        run = {"dag_id": run.dag_id, "dag_run_id": run.run_id, "conf": run.conf}
    task = context.get("ti") if "exception" in context else None
    row = {
        "event": event,
        "dag_id": run["dag_id"],
        "run_id": run["dag_run_id"],
        "task": f"{task.task_id} {task.rendered_map_index or ''}".strip() if task else "",
        "reason": str(context["exception"]) if task else context.get("reason") or "",
        "conf": run["conf"] or {},
    }
    log.error("crawlkit %s", json.dumps(row, default=str))
    command = os.environ.get("CRAWLKIT_ON_FAILURE")
    if command:
        try:
            subprocess.run(
                shlex.split(command),
                input=json.dumps(row, default=str) + "\n",
                text=True,
                timeout=TELL_TIMEOUT_S,
                check=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as e:
            log.error("CRAWLKIT_ON_FAILURE: %s", e)


def failed(context: Mapping[str, Any]) -> None:
    """Of a run, or of a task without which the run goes on."""
    tell("failed", context)


def late(context: Mapping[str, Any]) -> None:
    tell("late", context)


def dag_settings(
    dag_id: str, schedule: Any, late_after: timedelta, ends_after: timedelta
) -> dict[str, Any]:
    """Arguments that all DAGs share.

    CRAWLKIT_SCHEDULE_<DAG> replaces the schedule (cron text, or none).
    """
    given = os.environ.get(f"CRAWLKIT_SCHEDULE_{dag_id.upper()}")
    return {
        "dag_id": dag_id,
        "schedule": schedule if given is None else None if given == "none" else given,
        "start_date": datetime(2026, 1, 1),
        "catchup": False,
        "max_active_runs": 1,
        "tags": ["crawlkit"],
        "dagrun_timeout": ends_after,
        "on_failure_callback": failed,
        "deadline": DeadlineAlert(
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            interval=late_after,
            callback=SyncCallback(late),
        ),
        "default_args": {"retries": 3, "execution_timeout": ends_after},
    }
