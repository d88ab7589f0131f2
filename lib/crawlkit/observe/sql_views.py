"""The views over the tables (docs/queries.md): plain SQL that any engine with the tables
can run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from crawlkit.rules.warc.cc_index_rows import CAPTURE, COLUMNS, PAGE, cc_row
from crawlkit.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from crawlkit.round.job import Job

VIEWS: dict[str, str] = {
    "errors": (
        "SELECT * FROM captures WHERE is_outcome AND outcome IN ('failed', 'http_error', 'refused')"
    ),
    "latest_capture": (
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY url_key ORDER BY started DESC) AS"
        " newest FROM captures WHERE kind = 'page' AND outcome IN ('fetched', 'not_modified') AND"
        " started IS NOT NULL) WHERE newest = 1"
    ),
    "linkdb": (
        "SELECT to_url, to_key, from_url, from_key, anchor, rel, kind, capture_id, round_id FROM"
        " links WHERE refused IS NULL"
    ),
    "overdue": (
        "SELECT url, host, state, priority_class, next_fetch, retries FROM frontier WHERE"
        " next_fetch < now() AND state NOT IN ('dead', 'refused')"
    ),
    "dup_clusters": (
        "SELECT canonical_url, count(*) AS members, collect_list(url) AS urls, min(jaccard) AS"
        " least_jaccard FROM duplicates GROUP BY canonical_url"
    ),
    "host_health": (
        "SELECT host, domain, class, delay_ms, avg_ms, breaker, health, failures, errors_24h,"
        " pages, requests, next_allowed_at, slow_until, flags FROM hostdb"
    ),
    "robots_blocks": (
        "SELECT round_id, url, host, robots_line, reason FROM captures WHERE is_outcome AND outcome"
        " = 'robots_denied'"
    ),
    "redirect_chains": (
        "SELECT a.url AS from_url, a.status, a.redirect_to AS to_url, b.redirect_to AS then_to,"
        " a.round_id FROM captures a LEFT JOIN captures b ON b.url = a.redirect_to AND"
        " b.redirect_to IS NOT NULL WHERE a.is_outcome AND a.redirect_to IS NOT NULL"
    ),
    "politeness_gaps": (
        "SELECT host, url, started, delay_ms, unix_millis(started) - unix_millis(lag(ended) OVER"
        " (PARTITION BY host ORDER BY started)) AS gap_ms, round_id FROM captures WHERE started IS"
        " NOT NULL"
    ),
    "traps_review": (
        "SELECT host, flag, count(*) AS pages, min(url) AS example FROM (SELECT host, url,"
        " 'many_same_shape' AS flag FROM pages WHERE array_contains(flags, 'many_same_shape') UNION"
        " ALL SELECT host, url, concat('shared_text_', cast(copies AS string)) FROM (SELECT p.host,"
        " p.url, count(*) OVER (PARTITION BY p.host, p.text_sha256) AS copies FROM pages p WHERE"
        " p.text_sha256 IS NOT NULL) WHERE copies >= 10) GROUP BY host, flag"
    ),
    "freshness": (
        "SELECT host, count(*) AS pages, avg(unix_timestamp(now()) - unix_timestamp(last_fetch)) /"
        " 86400 AS mean_age_days, count_if(next_fetch < now()) AS overdue FROM frontier WHERE"
        " n_fetch > 0 GROUP BY host"
    ),
}


def register_views(job: "Job") -> None:
    """Temporary views of all tables and of VIEWS in the job's session; `frontier` is base and live
    log reduced.
    """
    from crawlkit.stages.fold import live_log, reduce_rows

    for name in TABLES:
        job.read(name).createOrReplaceTempView(name)
    reduce_rows(
        job.read("crawldb"), live_log(job.read("crawldb_log"), job.read("buckets"))
    ).createOrReplaceTempView("frontier")
    for name, sql in VIEWS.items():
        job.spark.sql(sql).createOrReplaceTempView(name)
    cc_index(job).createOrReplaceTempView("cc_index")


def cc_index(job: "Job") -> "DataFrame":
    """Stored captures with the columns of Common Crawl's index (rules/warc/cc_index_rows.py);
    exports/cc_index.py writes them as a table.
    """
    crawl = job.cfg.crawl.id
    captures = (
        job.read("captures")
        .where("warc_filename IS NOT NULL AND status IS NOT NULL")
        .select(*CAPTURE)
    )
    pages = job.read("pages").selectExpr(
        "capture_id", *[f"{name} AS page_{name}" for name in PAGE if name != "capture_id"]
    )

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from crawlkit.exports.cc_index import SCHEMA

        for batch in batches:
            found = (
                cc_row(
                    row, {name: row[f"page_{name}"] for name in PAGE if name != "capture_id"}, crawl
                )
                for row in batch.to_pylist()
            )
            yield pa.RecordBatch.from_pylist(list(found), SCHEMA)

    return captures.join(pages, "capture_id", "left").mapInArrow(
        rows, ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    )
