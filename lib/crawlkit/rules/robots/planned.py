"""The robots rows of a fetch list: one for each origin, and for each to which a robots.txt leads.

A robots.txt may redirect to another registered domain (RFC 9309 2.3.1.2). Only the task that paces
a host may ask it, so the domain that asks and the one it leads to go into one slot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from crawlkit.rules.url.canonical import host_of
from crawlkit.rules.url.domains import host_bucket, registered_domain

ORIGIN = r"^(https?://[^/?#]+)"


# of the pages and of the leads, each once
_ORIGINS = """asked AS (
            SELECT origin, host, domain, host_bucket, slot, region, score FROM pages
            UNION ALL
            SELECT l.origin, l.host, l.domain, l.host_bucket, s.slot, s.region,
                CAST(0 AS double)
            FROM {led_to} AS l JOIN {slots} AS s ON l.domain = s.domain
        ),
        origins AS (
            SELECT origin, host, domain, host_bucket, slot, region, max(score) AS score,
                origin || '/robots.txt' AS url
            FROM asked GROUP BY origin, host, domain, host_bucket, slot, region
        )"""


class Lead(NamedTuple):
    """The robots.txt of a host in `asking` (a domain) leads to `origin`, which is another's."""

    asking: str
    origin: str
    host: str
    domain: str
    host_bucket: int


def leads_sql(end: float) -> str:
    """Domains of due rows whose newest robots.txt led elsewhere and is asked again before `end`
    (Unix s), with `leads_to`.
    """
    return f"""
        WITH origins AS (
            SELECT DISTINCT domain, regexp_extract(url, '{ORIGIN}', 1) AS origin
            FROM {{due}} WHERE left_reason IS NULL
        ),
        copies AS (
            SELECT /*+ BROADCAST(o) */ o.domain, r.leads_to, r.expires,
                row_number() OVER (PARTITION BY r.origin ORDER BY r.fetched_at DESC) AS n
            FROM {{robots}} AS r JOIN origins AS o ON r.origin = o.origin
        )
        SELECT domain, leads_to FROM copies
        WHERE n = 1 AND size(leads_to) > 0 AND unix_micros(expires) < {round(end * 1e6)}
    """


def find_leads(
    rows: Iterable[Mapping[str, Any]], buckets: int, taken: Collection[int]
) -> list[Lead]:
    """The leads of `leads_sql` whose bucket no other round has claimed: those wait for it."""
    out = set()
    for r in rows:
        for origin in r["leads_to"]:
            host = host_of(origin + "/")
            domain = registered_domain(host)
            out.add(Lead(r["domain"], origin, host, domain, host_bucket(domain, buckets)))
    return sorted(lead for lead in out if lead.host_bucket not in taken)


def join_leads(
    domains: Iterable[Mapping[str, Any]],
    ips: Mapping[str, Sequence[str]],
    leads: Sequence[Lead],
) -> list[dict[str, Any]]:
    """Domains of a round with `ips`, what they share with others: addresses, and a name for each
    domain to which a robots.txt leads.

    A domain without pages of its own in the round has a row too. Leads whose asking domain is not
    among `domains` count nothing.
    """
    rows = {r["domain"]: dict(r) for r in domains}
    shared = {name: {*ips.get(name, ())} for name in rows}
    for lead in [lead for lead in leads if lead.asking in rows]:
        if lead.domain not in rows:
            own = {"domain": lead.domain, "host_bucket": lead.host_bucket, "n": 1, "cost_s": 0.0}
            rows[lead.domain] = own
            shared[lead.domain] = {*ips.get(lead.domain, ())}
        for name in (lead.asking, lead.domain):
            shared[name].add(f"robots.txt of {lead.domain}")
    return [{**r, "ips": sorted(shared[name])} for name, r in rows.items()]


def robots_rows_sql(own: Sequence[str]) -> str:
    """The query of a fetch list (stages/generate.py). own: columns that pages alone have."""
    of_page = ", ".join(own)
    nulls = ", ".join("NULL" for _ in own)
    return f"""
        WITH pages AS (
            SELECT /*+ BROADCAST(s) */ p.*, s.slot, s.region,
                CASE WHEN p.doc_filename IS NOT NULL THEN 'render'
                    ELSE coalesce(p.fetch_kind, 'page') END AS kind,
                regexp_extract(p.url, '{ORIGIN}', 1) AS origin
            FROM {{pages}} AS p JOIN {{slots}} AS s ON p.domain = s.domain
        ),
        {_ORIGINS},
        copies AS (
            SELECT * FROM (
                SELECT /*+ BROADCAST(o) */ r.origin, r.status AS robots_status,
                    r.body AS robots_body, r.fetched_at AS robots_fetched_at,
                    r.expires AS robots_expires,
                    row_number() OVER (PARTITION BY r.origin ORDER BY r.fetched_at DESC) AS n
                FROM {{robots}} AS r SEMI JOIN origins AS o ON r.origin = o.origin
            ) AS newest WHERE n = 1
        ),
        listed AS (
            SELECT url_key, url, host, domain, host_bucket, slot, region, kind, score, host_pos,
                fetch_kind, origin, {of_page}, CAST(NULL AS int) AS robots_status,
                CAST(NULL AS binary) AS robots_body, CAST(NULL AS timestamp) AS robots_fetched_at,
                CAST(NULL AS timestamp) AS robots_expires, CAST(NULL AS string) AS host_state
            FROM pages
            UNION ALL
            SELECT unhex(substring(sha2(o.url, 256), 1, 32)), o.url, o.host, o.domain,
                o.host_bucket, o.slot, o.region, 'robots', o.score, 0, NULL, o.origin, {nulls},
                c.robots_status, c.robots_body, c.robots_fetched_at, c.robots_expires, h.state_json
            FROM origins AS o
            LEFT JOIN copies AS c ON o.origin = c.origin
            LEFT JOIN {{hostdb}} AS h ON o.host = h.host
        )
        SELECT *, CAST(row_number() OVER (PARTITION BY slot ORDER BY
            CASE WHEN kind = 'robots' THEN 0 ELSE 1 END, host_pos, score DESC, kind, url_key)
            AS int) AS `rank`
        FROM listed
    """
