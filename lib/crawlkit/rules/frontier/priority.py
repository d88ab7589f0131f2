"""What is fetched first: the points scorer, as a function and as the same thing in SQL."""

from __future__ import annotations

CLASS_WORDS = {"critical": 0, "immediate": 0, "high": 1, "normal": 2, "low": 3}
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
    """`points` as SQL over quality, depth, last_fetch, interval_s, class, source, url, boost."""
    age_s = f"greatest({round(now_s * 1e6)} - unix_micros(last_fetch), 0) / 1e6"
    freshness = (
        f"CASE WHEN last_fetch IS NULL OR coalesce(interval_s, 0e0) = 0e0 THEN {FRESHNESS}e0"
        f" ELSE least({FRESHNESS}e0, {FRESHNESS}e0 * ({age_s}) / interval_s) END"
    )
    return (
        f"least(100e0, greatest(0e0, {AUTHORITY}e0 * quality"
        f" + greatest(0e0, {DEPTH}e0 - 2 * depth) + {freshness}"
        f" + CASE WHEN class = 'news' THEN {NEWS}e0 ELSE 0e0 END"
        f" + CASE WHEN source = 'sitemap' THEN {SITEMAP}e0 ELSE 0e0 END"
        f" - CASE WHEN contains(url, '?') THEN {QUERY_PENALTY}e0 ELSE 0e0 END"
        " + coalesce(boost, 0e0)))"
    )
