"""operator_action: one order to a crawl by a form.

The run's id names the order, so a run that is repeated gives it once (docs/api.md).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, task
from crawlkit_forms import PRIORITIES, ROUND, crawl_fields, urls_field
from crawlkit_tasks import crawl_args, crawlkit, dag_settings, fields, own_name

URL_ACTIONS, HOST_ACTIONS, ROUND_ACTIONS = (
    ["seeds", "hint", "recrawl", "boost"],
    ["block", "unblock", "complain", "host-set"],
    ["pause", "resume", "abandon"],
)
FIELDS = {
    "action": Param(
        "recrawl",
        type="string",
        enum=[*URL_ACTIONS, *HOST_ACTIONS, *ROUND_ACTIONS],
        title="Action",
        description=(
            "seeds, hint, recrawl, boost take URLs; block, unblock, complain, host-set a host;"
            " pause, resume, abandon a round."
        ),
    ),
    "urls": urls_field("For seeds, hint, recrawl, boost."),
    "priority": Param(
        None,
        type=["null", "string"],
        enum=[None, *PRIORITIES],
        title="Priority",
        description="For the actions on URLs.",
    ),
    "points": Param(
        None,
        type=["null", "number"],
        minimum=-100,
        maximum=100,
        title="Points",
        description="boost: added to the score.",
    ),
    "host": Param(
        None,
        type=["null", "string"],
        pattern=r"^[^\s/?#@\\:]{1,253}$",
        title="Host",
        description="For block, unblock, complain, host-set: a host name, without scheme and path.",
    ),
    "domain": Param(
        False,
        type="boolean",
        title="The whole domain",
        description="Host is a registered domain; all its hosts are meant.",
    ),
    "reason": Param(
        None,
        type=["null", "string"],
        maxLength=2000,
        title="Reason",
        description="For block, unblock, complain.",
    ),
    "delay_s": Param(
        None,
        type=["null", "number"],
        minimum=0,
        maximum=86_400,
        title="Delay, s",
        description="host-set: gap between requests.",
    ),
    "quota_max": Param(
        None,
        type=["null", "integer"],
        minimum=0,
        maximum=1_000_000_000,
        title="Pages a day",
        description="host-set.",
    ),
    "cycle_quota_max": Param(
        None,
        type=["null", "integer"],
        minimum=0,
        maximum=1_000_000_000,
        title="Pages a cycle",
        description="host-set.",
    ),
    "round_id": Param(
        None,
        type=["null", "string"],
        pattern=ROUND,
        title="Round",
        description="For pause, resume, abandon.",
    ),
    "dry_run": Param(
        False,
        type="boolean",
        title="Only check",
        description="Tell what would be done; change nothing.",
    ),
}


def words(params: dict[str, Any]) -> list[str]:
    """The order as words of `crawlkit command`.

    An option that is not the action's is left out; what is missing crawlkit names.
    """

    def options(*names: str) -> list[str]:
        return [
            f"--{n.replace('_', '-')}={params[n]}" for n in names if params[n] not in (None, "")
        ]

    action, end = params["action"], ["--dry-run"] if params["dry_run"] else []
    if action in URL_ACTIONS:
        return [
            action,
            *options("priority", *(["points"] if action == "boost" else [])),
            *end,
            "--",
            *(params["urls"] or []),
        ]
    if action in ROUND_ACTIONS:
        return [action, *end, "--", *filter(None, [params["round_id"]])]
    own = (
        options("delay_s", "quota_max", "cycle_quota_max")
        if action == "host-set"
        else [*options("reason"), *(["--domain"] if params["domain"] else [])]
    )
    return [action, *own, *end, "--", *filter(None, [params["host"]])]


with DAG(
    **dag_settings("operator_action", None, timedelta(minutes=10), timedelta(minutes=30)),
    params=FIELDS | crawl_fields(),
    doc_md=__doc__,
):

    @task
    def give(**context: Any) -> dict[str, Any]:
        run = context["dag_run"]
        action, *rest = words(fields(context))
        return crawlkit(
            "command",
            action,
            "--command-id",
            own_name(run.dag_id, run.run_id),
            *crawl_args(context["params"]),
            *rest,
        )

    give()
