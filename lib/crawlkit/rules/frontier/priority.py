"""What is fetched first: the points scorer (REQUIREMENTS B5), as a function and as the same thing
in SQL.
"""

from __future__ import annotations

CLASS_WORDS = {"critical": 0, "high": 1, "normal": 2, "low": 3}
AUTHORITY, DEPTH, FRESHNESS, NEWS, SITEMAP, QUERY_PENALTY = 40.0, 20.0, 20.0, 20.0, 15.0, 5.0


def parse_priority(value: str) -> int:
    """A priority class from a number 0..3 or a word. Raises ValueError that names the choices."""
    word = value.strip().lower()
    if word in CLASS_WORDS:
        return CLASS_WORDS[word]
    if word in ("0", "1", "2", "3"):
        return int(word)
    raise ValueError(f"priority {value!r:.40}: expected 0, 1, 2, 3 or {', '.join(CLASS_WORDS)}")


def points(
    quality: float,
    depth: int,
    age_s: float | None,
    interval_s: float | None,
    news: bool,
    sitemap: bool,
    has_query: bool,
    boost: float,
) -> float:
    """Score 0..100: authority 40, depth 20 falling by 2 a level, freshness need 20, news +20,
    sitemap +15, boost, query string -5.

    quality: host quality 0..1. age_s: time since the last fetch; None: never fetched (full need).
    interval_s: expected time between changes.
    """
    freshness = (
        FRESHNESS
        if age_s is None or not interval_s
        else min(FRESHNESS, FRESHNESS * max(age_s, 0.0) / interval_s)
    )
    score = (
        AUTHORITY * quality
        + max(0.0, DEPTH - 2.0 * depth)
        + freshness
        + NEWS * news
        + SITEMAP * sitemap
        - QUERY_PENALTY * has_query
        + boost
    )
    return min(100.0, max(0.0, score))


def points_sql(now_s: float) -> str:
    """`points` as a Spark SQL expression over quality, depth, last_fetch, interval_s, class,
    source, url, boost.
    """
    age = f"greatest({now_s!r}D - double(last_fetch), 0D)"
    freshness = (
        f"CASE WHEN last_fetch IS NULL OR coalesce(interval_s, 0) = 0 THEN {FRESHNESS}D ELSE"
        f" least({FRESHNESS}D, {FRESHNESS}D * {age} / interval_s) END"
    )
    return (
        f"least(100D, greatest(0D, {AUTHORITY}D * quality + greatest(0D, {DEPTH}D - 2 * depth) +"
        f" {freshness} + if(class = 'news', {NEWS}D, 0D) + if(source = 'sitemap', {SITEMAP}D, 0D) -"
        f" if(contains(url, '?'), {QUERY_PENALTY}D, 0D) + coalesce(boost, 0D)))"
    )
