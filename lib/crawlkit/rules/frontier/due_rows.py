"""Which due rows a round takes, as SQL: at most so many of each host and registered domain, and the
best of them within the round's budget (stages/generate.py).
"""

from __future__ import annotations

from crawlkit.config.whole import Config
from crawlkit.outcomes import Reason
from crawlkit.rules.frontier.lifecycle import GIVEN_BACK
from crawlkit.rules.frontier.priority import class_sql, score_sql, weight_sql
from crawlkit.rules.politeness.host_state import domain_left_sql, pages_left_sql, used_sql
from crawlkit.tables import TABLES


def select_due_sql(cfg: Config, now: float, clock_now: float, seed: int) -> str:
    """The query of `select_due`, of four parts: what is due, at most so many rows of each host, and
    of each registered domain, and the round's budget.
    """
    return f"""
        WITH {_due_sql(cfg, now, clock_now)},
        {_capped_sql(cfg)},
        {_shared_sql(cfg, clock_now)},
        {_budget_sql(cfg, seed)}
        SELECT {ROW}, {_MORE}, host_pos, left_out, left_reason,
            pos > {cfg.round.max_urls} AS explore, {_NO_DOCUMENT}
        FROM drawn WHERE left_out IS NOT NULL OR chance <= {cfg.round.max_urls}
    """


ROW = ", ".join(TABLES["crawldb"].column_names)


def _class_sql(cfg: Config) -> str:
    """The class by which rows are ordered; what a dead task gave back comes with those of class
    1.
    """
    own = class_sql(cfg)
    return f"CASE WHEN array_contains(flags, '{GIVEN_BACK}') THEN least({own}, 1) ELSE {own} END"


_MORE = "quality, class, urgent, not_before, host_delay_ms, score"


_NO_DOCUMENT = (
    "CAST(NULL AS string) AS doc_filename, CAST(NULL AS bigint) AS doc_offset,"
    " CAST(NULL AS bigint) AS doc_length"
)


def _due_sql(cfg: Config, now: float, clock_now: float) -> str:
    """Due rows with their score, what the quotas of their host let through (`of_day`, `of_cycle`)
    and its delay (`fits`), and why nothing of the host may be fetched (`barred_reason`).
    """
    budget_s = cfg.round.minutes * 60
    now_us, end_us = round(clock_now * 1e6), round((clock_now + budget_s) * 1e6)
    day, cycle = pages_left_sql(cfg.politeness, clock_now, clock_now + budget_s)
    parent, ranks = "CAST(NULL AS bigint)", ""
    if cfg.frontier.scorer == "product":
        parent, ranks = "a.inlinks", " LEFT JOIN {ranks} AS a ON r.parent_key = a.url_key"
    own_delay_ms = f"CAST({cfg.politeness.delay_s * 1e3!r} AS double)"
    return f"""
        due AS (
            SELECT /*+ BROADCAST(h, k, q, w) */ r.*,
                coalesce(q.delay_s * 1e3, greatest(coalesce(h.delay_ms, 0), {own_delay_ms}))
                    AS host_delay_ms, coalesce(q.parallel, 1) AS parallel,
                {weight_sql(cfg, "r.", "q.weight")} AS weight, {parent} AS parent_inlinks,
                h.quota_used, h.quota_day, h.cycle_used, h.cycle_day,
                q.quota_max, q.cycle_quota_max, coalesce(k.quality, 5e-1) AS quality,
                coalesce(w.class, h.class, 'generic') AS class,
                CASE WHEN unix_micros(h.next_allowed_at) > {now_us} THEN h.next_allowed_at END
                    AS not_before,
                CASE WHEN r.stopped THEN '{Reason.STOP_LIST}'
                    WHEN h.blacklisted THEN '{Reason.HOST_BLOCKED}'
                    WHEN unix_micros(h.next_allowed_at) >= {end_us} THEN '{Reason.RETRY_AFTER}'
                END AS barred_reason
            FROM {{rows}} AS r
            LEFT JOIN {{hostdb}} AS h ON r.host = h.host
            LEFT JOIN {{host_ranks}} AS k ON r.host = k.host{ranks}
            LEFT JOIN {{quotas}} AS q ON r.host = q.host
            LEFT JOIN {{classes}} AS w ON r.host = w.host
            WHERE r.next_fetch <= timestamp_micros({round(now * 1e6)})
                AND r.state NOT IN ('dead', 'refused')
        ),
        scored AS (
            SELECT {ROW}, quality, class, urgent, not_before, host_delay_ms, parallel,
                barred_reason, {score_sql(cfg, now)} AS score, {day} AS of_day, {cycle} AS of_cycle,
                CASE WHEN host_delay_ms > 0
                    THEN (floor({budget_s} * 1e3 / host_delay_ms) + 1) * parallel END AS fits
            FROM due
        )"""


def _capped_sql(cfg: Config) -> str:
    """No more rows of a host than are let through, and one more that represents those left out."""
    caps = {
        Reason.HOST_DAY_QUOTA: "of_day",
        Reason.HOST_CYCLE_QUOTA: "of_cycle",
        Reason.HOST_ROUND_QUOTA: f"{cfg.round.urls_per_host}",
        Reason.ROUND_TIME: "fits",
    }
    why = " ".join(f"WHEN {sql} = fits_all THEN '{reason}'" for reason, sql in caps.items())
    return f"""
        limited AS (
            SELECT *, least({", ".join(caps.values())}) AS fits_all FROM scored
        ),
        numbered AS (
            SELECT *, CASE WHEN barred_reason IS NULL THEN fits_all ELSE 0 END AS cap,
                count(*) OVER (PARTITION BY host) AS of_host,
                row_number() OVER (PARTITION BY host ORDER BY
                    urgent DESC, {_class_sql(cfg)}, score DESC, depth, url_key) AS host_pos
            FROM limited
        ),
        capped AS (
            SELECT {ROW}, {_MORE}, CAST(host_pos AS int) AS host_pos,
                CASE WHEN host_pos > cap THEN CAST(of_host - cap AS bigint) END AS left_out,
                CASE WHEN host_pos > cap THEN coalesce(barred_reason, CASE {why} END) END
                    AS left_reason
            FROM numbered WHERE host_pos <= cap + 1
        )"""


def _shared_sql(cfg: Config, clock_now: float) -> str:
    """Rows that the quotas of their registered domain let through; the others are left out."""
    day_used, cycle_used = used_sql(cfg.politeness, clock_now)
    until = clock_now + cfg.round.minutes * 60
    day, cycle = domain_left_sql(cfg.politeness, clock_now, until)
    return f"""
        ordered_quotas AS (
            SELECT domain, max(quota_max) AS quota_max, max(cycle_quota_max) AS cycle_quota_max
            FROM {{quotas}} GROUP BY domain
        ),
        used_quotas AS (
            SELECT domain, sum({day_used}) AS day_used, sum({cycle_used}) AS cycle_used
            FROM {{hostdb}} GROUP BY domain
        ),
        placed AS (
            SELECT /*+ BROADCAST(u, o) */ c.*, u.day_used, u.cycle_used, o.quota_max,
                o.cycle_quota_max,
                row_number() OVER (PARTITION BY c.domain ORDER BY left_out IS NOT NULL,
                    urgent DESC, {_class_sql(cfg)}, score DESC, depth, url_key) AS domain_pos
            FROM capped AS c
            LEFT JOIN used_quotas AS u ON c.domain = u.domain
            LEFT JOIN ordered_quotas AS o ON c.domain = o.domain
        ),
        shared AS (
            SELECT {ROW}, {_MORE}, host_pos,
                CASE WHEN left_out IS NOT NULL THEN left_out
                    WHEN domain_pos > least({day}, {cycle}) THEN CAST(1 AS bigint) END AS left_out,
                CASE WHEN left_out IS NOT NULL THEN left_reason
                    WHEN domain_pos > {day} THEN '{Reason.DOMAIN_DAY_QUOTA}'
                    WHEN domain_pos > {cycle} THEN '{Reason.DOMAIN_CYCLE_QUOTA}' END AS left_reason
            FROM placed
        )"""


def _budget_sql(cfg: Config, seed: int) -> str:
    """The order of the budget: the best by class and score, then a share by chance (of the seed)
    among the rest; rows that represent others come behind all.
    """
    best = int(cfg.round.max_urls * (1 - cfg.frontier.explore))
    return f"""
        ordered AS (
            SELECT *, row_number() OVER (ORDER BY left_out IS NOT NULL, urgent DESC,
                {_class_sql(cfg)}, score DESC, depth, url_key) AS pos
            FROM shared
        ),
        drawn AS (
            SELECT *, row_number() OVER (ORDER BY left_out IS NOT NULL,
                CASE WHEN pos <= {best} THEN 0 ELSE 1 END,
                md5('{seed}' || hex(url_key))) AS chance
            FROM ordered
        )"""
