"""How the promises of freshness are kept: top pages in a day, important ones in a week, news daily,
the tail in a month.

Of pages that are held. Their places are told by a histogram of in-links, so that nothing is sorted
but what is late: two passes over `crawldb`, `ranks` and `hostdb`.
"""

from __future__ import annotations

import time
from typing import Any

from crawlkit.adapters.lake.duckdb_reader import ask
from crawlkit.config import Freshness
from crawlkit.crawl.state import Crawl
from crawlkit.report.queries import Query


def promises_sql(cfg: Freshness, now: float) -> str:
    """A row for each promise: promise, within_s, pages, late, kept (share), worst_lag_s.

    now: Unix s.
    """
    return f"""
        WITH {_lagging_sql(cfg, now)}
        SELECT p.promise, p.within_s, count(l.url) AS pages,
            count(CASE WHEN l.lag_s > 0 THEN 1 END) AS late,
            1e0 - count(CASE WHEN l.lag_s > 0 THEN 1 END) / nullif(count(l.url), 0) AS kept,
            greatest(coalesce(max(l.lag_s), 0e0), 0e0) AS worst_lag_s
        FROM {_promises(cfg)} AS p LEFT JOIN lagging AS l ON p.promise = l.promise
        GROUP BY p.promise, p.within_s ORDER BY p.within_s, p.promise DESC
    """


def late_sql(cfg: Freshness, now: float, limit: int) -> str:
    """The pages that are most late: promise, url, host, age_s, lag_s."""
    return f"""
        WITH {_lagging_sql(cfg, now)}
        SELECT promise, url, host, age_s, lag_s FROM lagging WHERE lag_s > 0
        ORDER BY lag_s DESC, url LIMIT {limit}
    """


def freshness_queries(cfg: Freshness, now: float) -> dict[str, Query]:
    """The report's queries of the promises and of what is late."""
    return {
        "promises": Query("Freshness: promises and how they are kept", "", promises_sql(cfg, now)),
        "late_pages": Query("Pages that are late", "", late_sql(cfg, now, cfg.late_listed)),
    }


def read_freshness(crawl: Crawl, now: float | None, limit: int) -> dict[str, Any]:
    """`promises` and the `late` pages, without Spark. now: Unix s; None: the clock's.

    Raises TableError, StoreUnavailable.
    """
    at = time.time() if now is None else now
    cfg, tables = crawl.cfg.freshness, crawl.plain_tables()
    return {
        "at": at,
        "promises": ask(tables, {}, promises_sql(cfg, at), 4),
        "late": ask(tables, {}, late_sql(cfg, at, limit), limit),
    }


def _promises(cfg: Freshness) -> str:
    rows = {"top": cfg.top_s, "important": cfg.important_s, "news": cfg.news_s, "tail": cfg.tail_s}
    return (
        "("
        + " UNION ALL ".join(
            f"SELECT '{name}' AS promise, CAST({seconds!r} AS double) AS within_s"
            for name, seconds in rows.items()
        )
        + ")"
    )


def _lagging_sql(cfg: Freshness, now: float) -> str:
    """CTEs up to `lagging`: held pages with their promise, age_s and lag_s (above 0: late)."""
    sizes = {
        name: f"least({pages}, ceil(pages * CAST({share!r} AS double)))"
        for name, pages, share in (
            ("top", cfg.top_pages, cfg.top_share),
            ("important", cfg.important_pages, cfg.important_share),
        )
    }
    return f"""
        held AS (
            SELECT c.url, c.host, c.priority_class, coalesce(r.inlinks, 0) AS inlinks,
                coalesce(h.class, 'generic') AS class,
                ({round(now * 1e6)} - unix_micros(c.last_fetch)) / 1e6 AS age_s
            FROM crawldb AS c LEFT JOIN ranks AS r ON c.url_key = r.url_key
            LEFT JOIN hostdb AS h ON c.host = h.host
            WHERE c.state IN ('fetched', 'retrying') AND c.capture_id IS NOT NULL
                AND c.next_fetch IS NOT NULL AND coalesce(c.fetch_kind, 'page') = 'page'
        ),
        counted AS (SELECT inlinks, count(*) AS n FROM held GROUP BY inlinks),
        placed AS (
            SELECT inlinks, sum(n) OVER (ORDER BY inlinks DESC) AS place, sum(n) OVER () AS pages
            FROM counted
        ),
        promised AS (
            SELECT h.*, CASE WHEN priority_class = 0 OR place <= {sizes["top"]} THEN 'top'
                WHEN class = 'news' THEN 'news'
                WHEN priority_class = 1 OR place <= {sizes["important"]} THEN 'important'
                ELSE 'tail' END AS promise
            FROM held AS h JOIN placed AS p ON h.inlinks = p.inlinks
        ),
        lagging AS (
            SELECT l.*, age_s - within_s AS lag_s
            FROM promised AS l JOIN {_promises(cfg)} AS p ON l.promise = p.promise
        )"""
