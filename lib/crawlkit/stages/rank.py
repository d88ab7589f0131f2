"""rank: in-links of pages, host quality and proposed parameter rules, into tables of their own.

Contract: each table is written whole; generate and dedup join them.
"""

from __future__ import annotations

from itertools import groupby

import pyarrow as pa

from crawlkit.engine.frame import Batches, Frame, Tasks
from crawlkit.rules.duplicates.clusters import IS_COPY
from crawlkit.rules.requisites.page_requisites import KINDS_SQL
from crawlkit.rules.url.canonical import host_sql
from crawlkit.rules.url.params import Seen, propose_params
from crawlkit.tables.ddl import arrow_schema

READS = (
    "captures",
    "domain_authority",
    "duplicates",
    "hostdb",
    "links",
    "pages",
)
WRITES = ("host_ranks", "param_rules", "ranks")

PARAM_PAGES = 20_000  # of one host, the first by key


_FROM_HOST = host_sql("from_url")


def page_ranks(links: Frame, round_no: int) -> Frame:
    """`ranks`: distinct pages and hosts that link to each URL; a page's links to itself do not
    count.
    """
    query = f"""
        SELECT to_key AS url_key, count(DISTINCT from_key) AS inlinks,
            count(DISTINCT {_FROM_HOST}) AS inlink_hosts, {round_no} AS round_no
        FROM {{links}}
        WHERE refused IS NULL AND to_key IS NOT NULL AND from_key <> to_key
            AND kind NOT IN ({KINDS_SQL})
        GROUP BY to_key
    """
    return links.engine.query(query, links=links)


_HOST_RANKS = f"""
    WITH ranked AS (
        SELECT domain, max(authority) AS authority FROM {{authority}} GROUP BY domain
    ),
    linked AS (
        SELECT to_host AS host, count(DISTINCT from_host) AS inlink_hosts
        FROM (
            SELECT to_host, {_FROM_HOST} AS from_host FROM {{links}}
            WHERE refused IS NULL AND to_host IS NOT NULL AND kind NOT IN ({KINDS_SQL})
        ) AS named
        WHERE from_host <> to_host GROUP BY to_host
    ),
    errors AS (
        SELECT host,
            avg(CASE WHEN outcome = 'failed' OR status >= 500 THEN 1e0 ELSE 0e0 END)
            AS error_share
        FROM {{captures}} WHERE is_outcome AND kind = 'page' AND started IS NOT NULL
        GROUP BY host
    ),
    copies AS (
        SELECT {host_sql("url")} AS host, count(*) AS aliases
        FROM {{duplicates}} WHERE {IS_COPY} GROUP BY 1
    ),
    joined AS (
        SELECT h.host, coalesce(l.inlink_hosts, 0) AS inlink_hosts, h.pages,
            coalesce(r.authority, 0e0) AS authority,
            coalesce(e.error_share, 0e0) AS error_share,
            CASE WHEN h.pages > 0 THEN least(1e0, coalesce(c.aliases, 0) / h.pages)
                ELSE 0e0 END AS duplicate_share
        FROM {{hostdb}} AS h
        LEFT JOIN ranked AS r ON h.domain = r.domain
        LEFT JOIN linked AS l ON h.host = l.host
        LEFT JOIN errors AS e ON h.host = e.host
        LEFT JOIN copies AS c ON h.host = c.host
    )
    SELECT host, inlink_hosts, pages, error_share, duplicate_share,
        greatest(0e0, least(1e0, 5e-1 + least(3e-1, 1e-1 * log10(1e0 + inlink_hosts))
            + 2e-1 * authority - 3e-1 * error_share - 2e-1 * duplicate_share)) AS quality,
        $round_no AS round_no
    FROM joined
"""


def host_ranks(
    links: Frame,
    captures: Frame,
    duplicates: Frame,
    hostdb: Frame,
    authority: Frame,
    round_no: int,
) -> Frame:
    """`host_ranks`: quality 0..1 = 0.5 + 0.1 log10(1 + in-link hosts), at most +0.3, + 0.2
    authority of its domain (the most that a list gives it), - 0.3 error share - 0.2 duplicate
    share.

    Ranks by the link graph come later; a host that nothing is known of has 0.5.
    """
    query = _HOST_RANKS.replace("$round_no", str(round_no))
    frames = {"captures": captures, "duplicates": duplicates, "hostdb": hostdb}
    return links.engine.query(query, links=links, authority=authority, **frames)


def param_rules(pages: Frame, round_no: int) -> Frame:
    """`param_rules`: what the newest pages of each host with query strings say about their
    parameters (REQUIREMENTS C3).

    Of a host at most PARAM_PAGES pages are looked at, those with the smallest keys; `pages` says
    how many.
    """
    query = f"""
        WITH asking AS (
            SELECT host FROM {{pages}} WHERE contains(url, '?') GROUP BY host HAVING count(*) >= 5
        ),
        newest AS (
            SELECT p.host, p.url_key, p.url, p.canonical, p.text_sha256,
                row_number() OVER (PARTITION BY p.host, p.url_key ORDER BY p.round_id DESC) AS n
            FROM {{pages}} AS p SEMI JOIN asking AS a ON p.host = a.host
        ),
        numbered AS (
            SELECT *, row_number() OVER (PARTITION BY host ORDER BY url_key) AS place
            FROM newest WHERE n = 1
        )
        SELECT host, url_key, url, canonical, text_sha256
        FROM numbered WHERE place <= {PARAM_PAGES}
    """
    seen = pages.engine.query(query, pages=pages)
    rules = seen.map_batches(_propose, _PARAMS_DDL, Tasks(by=("host",), order=("url_key",)))
    return rules.select("*", f"{round_no} AS round_no")


def _propose(batches: Batches) -> Batches:
    """Proposed rules of each host, whose pages come one after the other."""
    rows = (row for batch in batches for row in batch.to_pylist())
    for host, of_host in groupby(rows, lambda row: row["host"]):
        seen = [Seen(r["url"], r["canonical"], r["text_sha256"]) for r in of_host]
        proposed = [
            {"host": host, **p._asdict(), "examples": list(p.examples), "pages": len(seen)}
            for p in propose_params(seen)
        ]
        if proposed:
            yield pa.RecordBatch.from_pylist(proposed, _PARAMS)


_PARAMS_DDL = (
    "host string, name string, canonical_for bigint, canonical_against bigint, text_for bigint,"
    " text_against bigint, examples array<string>, pages bigint"
)
_PARAMS = arrow_schema(_PARAMS_DDL)
