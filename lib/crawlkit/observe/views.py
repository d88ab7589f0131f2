"""The views over the tables (docs/queries.md): plain SQL for any engine that reads the tables."""

from __future__ import annotations

from crawlkit.report.queries import IS_ERROR
from crawlkit.rules.requisites.page_requisites import KINDS_SQL
from crawlkit.tables import TABLES

VIEWS: dict[str, str] = {
    "errors": f"SELECT * FROM captures WHERE {IS_ERROR}",
    "latest_capture": (
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY url_key ORDER BY started DESC) AS"
        " newest FROM captures WHERE kind = 'page' AND outcome IN ('fetched', 'not_modified') AND"
        " started IS NOT NULL) WHERE newest = 1"
    ),
    "latest_page": (
        "SELECT * FROM (SELECT p.*, row_number() OVER (PARTITION BY p.url_key ORDER BY c.started"
        " DESC, p.capture_id DESC) AS newest FROM pages p LEFT JOIN captures c ON c.capture_id ="
        " p.capture_id) WHERE newest = 1"
    ),
    "linkdb": (
        "SELECT to_url, to_key, from_url, from_key, anchor, rel, kind, capture_id, round_id FROM"
        f" links WHERE refused IS NULL AND kind NOT IN ({KINDS_SQL})"
    ),
    "variants": (
        "SELECT url, variant_url, kind, hreflang FROM (SELECT l.from_url AS url, l.to_url AS"
        " variant_url, CASE l.kind WHEN 'alternate' THEN 'hreflang' WHEN 'amphtml' THEN 'amp' WHEN"
        " 'next' THEN 'page' WHEN 'prev' THEN 'page' ELSE l.kind END AS kind, l.hreflang,"
        " row_number() OVER (PARTITION BY l.from_key, l.to_key, l.kind, l.hreflang ORDER BY"
        " l.round_id DESC) AS newest FROM links l JOIN latest_page p ON l.capture_id ="
        " p.capture_id WHERE (l.kind IN ('mobile', 'amphtml', 'next', 'prev') OR l.kind ="
        " 'alternate' AND l.hreflang <> '') AND l.to_key IS NOT NULL AND l.to_key <> l.from_key)"
        " WHERE newest = 1"
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
    "cloaked": (
        "SELECT host, url, cloaking AS reason, static_similarity AS similarity, text_bytes,"
        " static_text_bytes, links, static_links, capture_id, round_id FROM pages WHERE cloaking IS"
        " NOT NULL"
    ),
    "freshness": (
        "SELECT host, count(*) AS pages, avg(unix_timestamp(now()) - unix_timestamp(last_fetch)) /"
        " 86400 AS mean_age_days, count_if(next_fetch < now()) AS overdue FROM frontier WHERE"
        " n_fetch > 0 GROUP BY host"
    ),
}
RELATIONS = ("frontier", *TABLES, *VIEWS, "cc_index")  # every name that a query may use
