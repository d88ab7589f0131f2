"""Run by the Python of .venv-airflow: what Airflow makes of the DAG files, as JSON in the last line
of standard output.
"""

from __future__ import annotations

import json
import sys

sys.path.insert(0, sys.argv[1])


def main() -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(sys.argv[1])
    parsed = sorted({m.split(".")[0] for m in sys.modules} & {"crawlkit", "pyspark"})
    from crawlkit_tasks import WRITES, Stage, own_name
    from operator_action import FIELDS, words

    crawl = {
        "data": "/d",
        "config": "/c.yaml",
        "set": ["politeness.delay_s=2"],
        "minutes": 5,
        "max_urls": 7,
        "seeds": ["http://a.example/"],
        "seeds_file": None,
        "priority": "high",
    }

    def tasks(dag: object) -> list[dict]:
        found = []
        for task in dag.topological_sort():
            mapped = type(task).__name__ == "MappedOperator"
            made = (
                task.unmap({"extra_args": ["--region", "r"]})
                if mapped and issubclass(task.operator_class, Stage)
                else task
            )
            found.append(
                {
                    "task_id": task.task_id,
                    "spark": isinstance(made, Stage),
                    "mapped": mapped,
                    "after": sorted(task.upstream_task_ids),
                    "rule": str(getattr(task.trigger_rule, "value", task.trigger_rule)),
                    "retries": task.retries,
                    "application": getattr(made, "application", None),
                    "arguments": made.arguments(crawl) if isinstance(made, Stage) else [],
                    "writes": [a.name for a in made.outlets] if isinstance(made, Stage) else [],
                    "limited": task.execution_timeout is not None,
                }
            )
        return found

    orders = [
        words({k: p.value for k, p in FIELDS.items()} | given)
        for given in (
            {"action": "seeds", "urls": ["http://a.example/"], "priority": "low"},
            {"action": "hint", "urls": ["http://a.example/"]},
            {"action": "recrawl", "urls": ["http://a.example/"]},
            {"action": "boost", "urls": ["http://a.example/"], "points": -2.5},
            {"action": "block", "host": "a.example", "domain": True, "reason": "-x"},
            {"action": "unblock", "host": "a.example"},
            {"action": "complain", "host": "a.example", "reason": "asked"},
            {
                "action": "host-set",
                "host": "a.example",
                "delay_s": 2,
                "quota_max": 9,
                "cycle_quota_max": 90,
            },
            {"action": "pause", "round_id": "r1"},
            {"action": "resume", "round_id": "r1"},
            {"action": "abandon", "round_id": "r1", "dry_run": True},
        )
    ]
    print(
        json.dumps(
            {
                "import_errors": bag.import_errors,
                "loaded_at_parse": parsed,
                "writes": WRITES,
                "orders": orders,
                "actions": FIELDS["action"].schema["enum"],
                "names": [
                    own_name("crawl_round", r)
                    for r in (
                        "manual__2026-11-28T12:08:51.412450+00:00",
                        "a b",
                        "a-b",
                        "x" * 200,
                        "x" * 199 + "y",
                    )
                ],
                "dags": {
                    d: {
                        "tasks": tasks(dag),
                        "max_active_runs": dag.max_active_runs,
                        "catchup": dag.catchup,
                        "timeout": dag.dagrun_timeout is not None,
                        "deadline": bool(dag.deadline),
                        "told": bool(dag.has_on_failure_callback or dag.on_failure_callback),
                    }
                    for d, dag in bag.dags.items()
                },
            }
        )
    )


if __name__ == "__main__":
    main()
