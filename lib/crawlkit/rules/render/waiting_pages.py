"""Which waiting pages a round renders, as SQL; and whether renders are worth it, by host and by
folder.

A page waits as long as its frontier row has the flag `render` (rules/frontier/lifecycle.py).
"""

from __future__ import annotations

from crawlkit.config import Config
from crawlkit.rules.render.folders import MIN_GAINS, PROBES, folder_sql

# of a host in a round before it has PROBES, and of a folder: they tell whether, and what it asks
FIRST_RENDERS = 2
HOST_PROBES = 3 * PROBES  # renders after which a host must have gained by some
GAIN_CHARS = 200  # more text than the stored page has


def worth_sql(host: str, url: str) -> str:
    """Whether a page is to be rendered: condition over its host's row of hostdb, named `host`."""
    renders, gains = f"coalesce({host}.renders, 0)", f"coalesce({host}.render_gains, 0)"
    is_worth = f"{renders} < {HOST_PROBES} OR {gains} >= CAST({MIN_GAINS} AS double) * {renders}"
    is_off = f"coalesce(array_contains({host}.render_off, {folder_sql(url)}), false)"
    return f"(({is_worth}) AND NOT {is_off})"


def gained_sql(page: str) -> str:
    """Whether a rendered page has more than the stored one: condition over a row of pages."""
    text = f"{page}.text_bytes >= coalesce({page}.static_text_bytes, 0) + {GAIN_CHARS}"
    return f"({page}.rendered AND ({text} OR {page}.links > coalesce({page}.static_links, 0)))"


def gains_sql() -> str:
    """What {captures} and {pages} of a round tell of each host: CTEs named needs, and brought with
    lines for `add_folders`.
    """
    return f"""needs AS (
            SELECT host, max(CASE WHEN needs_js IS NOT NULL THEN 1 ELSE 0 END) AS has_needed
            FROM {{pages}} GROUP BY host
        ),
        folders AS (
            SELECT c.host, {folder_sql("c.url")} AS folder, count(*) AS n,
                count(CASE WHEN {gained_sql("p")} THEN 1 END) AS gains
            FROM {{captures}} AS c LEFT JOIN {{pages}} AS p ON c.capture_id = p.capture_id
            WHERE c.kind = 'render' AND c.is_outcome AND c.outcome <> 'deferred'
            GROUP BY c.host, {folder_sql("c.url")}
        ),
        brought AS (
            SELECT host, CAST(sum(n) AS bigint) AS new_renders,
                CAST(sum(gains) AS bigint) AS new_gains,
                array_sort(collect_set(concat(CAST(n AS string), ' ', CAST(gains AS string), ' ',
                    folder))) AS new_folders
            FROM folders GROUP BY host
        )"""


def waits_sql(row: str, host: str) -> str:
    """Whether a row of the frontier waits to be rendered, and is worth it: condition over the row
    and its host's of hostdb (all null: not known yet).
    """
    return f"""(array_contains({row}.flags, 'render') AND {row}.state = 'fetched'
        AND {row}.capture_id IS NOT NULL AND NOT coalesce({host}.blacklisted, false)
        AND {worth_sql(host, f"{row}.url")})"""


def due_sql(row: str, host: str | None) -> str:
    """When a row of the frontier is due. host: as in `waits_sql`; None: pages are not rendered."""
    if host is None:
        return f"{row}.next_fetch"
    waits = waits_sql(row, host)
    return f"CASE WHEN {waits} THEN {row}.last_fetch ELSE {row}.next_fetch END"


def renders_sql(  # noqa: PLR0913 - the parts of one query
    cfg: Config, now: float, clock_now: float, score: str, weight: str, row: str
) -> str:
    """Rows of {rows} (with stopped, urgent) to be rendered, with what the fetch list needs.

    now: nominal time, clock_now: real time (Unix s). score: SQL of the priority score, weight: of
    an operator's weight. row: the columns of crawldb.
    """
    end_us = round((clock_now + cfg.round.minutes * 60) * 1e6)
    return f"""
        WITH waiting AS (
            SELECT /*+ BROADCAST(h, k) */ r.*, coalesce(h.delay_ms, 0) AS host_delay_ms,
                coalesce(k.quality, 5e-1) AS quality, 'generic' AS class,
                coalesce(h.renders, 0) AS renders, {weight} AS weight,
                CAST(NULL AS bigint) AS parent_inlinks, {folder_sql("r.url")} AS folder,
                coalesce(array_contains(h.render_on, {folder_sql("r.url")}), false) AS is_on
            FROM {{rows}} AS r
            LEFT JOIN {{hostdb}} AS h ON r.host = h.host
            LEFT JOIN {{host_ranks}} AS k ON r.host = k.host
            WHERE {waits_sql("r", "h")} AND NOT r.stopped
                AND (h.next_allowed_at IS NULL OR unix_micros(h.next_allowed_at) < {end_us})
                AND coalesce(r.next_fetch > timestamp_micros({round(now * 1e6)}), true)
        ),
        numbered AS (
            SELECT *, {score} AS score, row_number() OVER (
                PARTITION BY host ORDER BY urgent DESC, priority_class, {score} DESC, url_key
            ) AS host_pos, row_number() OVER (
                PARTITION BY host, folder
                ORDER BY urgent DESC, priority_class, {score} DESC, url_key
            ) AS folder_pos
            FROM waiting
        ),
        ordered AS (
            SELECT *, row_number() OVER (
                ORDER BY urgent DESC, priority_class, score DESC, url_key) AS pos
            FROM numbered WHERE host_pos <= CASE WHEN renders < {PROBES}
                THEN {FIRST_RENDERS} ELSE {cfg.round.urls_per_host} END
                AND (is_on OR folder_pos <= {FIRST_RENDERS})
        )
        SELECT {row}, quality, class, urgent, CAST(NULL AS timestamp) AS not_before,
            host_delay_ms, score,
            CAST(host_pos AS int) AS host_pos, false AS explore
        FROM ordered WHERE pos <= {int(cfg.render.share * cfg.round.max_urls)}
    """


DOCUMENTS = (
    "capture_id string, warc_filename string, warc_record_offset bigint, warc_record_length bigint"
)


def documents_sql() -> str:
    """The rows of {wanted} with where their stored document is, of {captures}; an empty name: it
    is gone.
    """
    return """
        SELECT w.*, coalesce(c.warc_filename, '') AS doc_filename,
            c.warc_record_offset AS doc_offset, c.warc_record_length AS doc_length
        FROM {wanted} AS w LEFT JOIN {captures} AS c ON w.capture_id = c.capture_id
    """


def origins_sql() -> str:
    """Domains with pages to be rendered, and the origins (`leads_to`) that their hosts' pages ask
    for.
    """
    return """
        SELECT DISTINCT d.domain, h.render_origins AS leads_to
        FROM {due} AS d JOIN {hostdb} AS h ON d.host = h.host
        WHERE d.doc_filename IS NOT NULL AND size(h.render_origins) > 0
    """
