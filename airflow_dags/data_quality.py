"""data_quality: after each round the tables are proved: no request disallowed or too early, tables
and WARC files equal, keys and sums right; alerts told.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException
from crawlkit_forms import crawl_fields
from crawlkit_tasks import crawl_args, crawlkit, dag_settings, fields, table

# Each counts what must not be there.
FAULTS = {
    "crawldb: a URL twice": "SELECT count(*) - count(DISTINCT url_key) FROM crawldb",
    "crawldb: no URL, host or state": (
        "SELECT count(*) FROM crawldb WHERE url IS NULL OR host IS NULL OR state IS NULL"
    ),
    "captures: an id twice": "SELECT count(*) - count(DISTINCT capture_id) FROM captures",
    "captures: a planned row of a recorded round without exactly one outcome": (
        "SELECT count(*) FROM (SELECT f.round_id, f.kind, f.url_key, count(c.url_key) AS n FROM"
        " fetchlist f LEFT JOIN captures c ON c.round_id = f.round_id AND c.kind = f.kind AND"
        " c.url_key = f.url_key AND c.is_outcome WHERE f.round_id IN (SELECT round_id FROM"
        " captures) GROUP BY 1, 2, 3) WHERE n <> 1"
    ),
    "captures: stored, without digest or place": (
        "SELECT count(*) FROM captures WHERE warc_filename IS NOT NULL AND (payload_digest IS NULL"
        " OR warc_record_offset IS NULL OR warc_record_length IS NULL)"
    ),
    "pages: of no capture": (
        "SELECT count(*) FROM pages p ANTI JOIN captures c ON p.capture_id = c.capture_id"
    ),
}
QUERY = " UNION ALL ".join(
    f"SELECT '{name}' AS fault, ({query}) AS n" for name, query in FAULTS.items()
)

with DAG(
    **dag_settings("data_quality", [table("metrics")], timedelta(hours=1), timedelta(hours=3)),
    params=crawl_fields(),
    doc_md=__doc__,
):

    @task
    def crawls(**context: Any) -> list[dict[str, Any]]:
        """The crawls whose rounds have brought this run about, each once; by hand: that of the
        form.
        """
        told = [
            {k: e.extra[k] for k in ("data", "config", "set")}
            for events in (context["triggering_asset_events"] or {}).values()
            for e in events
            if e.extra
        ]
        form = fields(context)
        return list({json.dumps(c, sort_keys=True): c for c in told}.values()) or [
            {k: form[k] for k in ("data", "config", "set")}
        ]

    @task
    def audit(crawl: dict[str, Any]) -> dict[str, Any]:
        return crawlkit("audit", *crawl_args(crawl))

    @task
    def reconcile(crawl: dict[str, Any]) -> dict[str, Any]:
        return crawlkit("reconcile", *crawl_args(crawl))

    @task
    def tables(crawl: dict[str, Any]) -> None:
        wrong = [r for r in crawlkit("sql", QUERY, *crawl_args(crawl))["rows"] if r["n"]]
        if wrong:
            raise AirflowFailException("; ".join(f"{r['fault']}: {r['n']}" for r in wrong))

    @task
    def alerts(crawl: dict[str, Any]) -> list[str]:
        """Fails if one fires that calls somebody now (critical, page); the others are in its
        answer.
        """
        firing = [
            a
            for a in crawlkit("alerts", *crawl_args(crawl), answers=(0, 1))["alerts"]
            if a["state"] == "firing"
        ]
        urgent = [
            f"{a['name']} ({a['severity']}): {a['summary']}"
            for a in firing
            if a["severity"] in ("critical", "page")
        ]
        if urgent:
            raise AirflowFailException("; ".join(urgent))
        return [f"{a['name']} ({a['severity']})" for a in firing]

    each = crawls()
    for check in (audit, reconcile, tables, alerts):
        check.expand(crawl=each)
