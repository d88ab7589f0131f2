"""What is fetched first: the scorers, as SQL, and the class that a score is worth."""

from __future__ import annotations

from crawlkit.config import Config
from crawlkit.rules.frontier.schedule import setting_sql

CLASS_WORDS = {"critical": 0, "immediate": 0, "high": 1, "normal": 2, "low": 3}
AUTHORITY, DEPTH, FRESHNESS, NEWS, SITEMAP, QUERY_PENALTY = 40.0, 20.0, 20.0, 20.0, 15.0, 5.0
TRAP_PENALTY, TRAP_FACTOR = 20.0, 0.1
MANY_INLINKS = 1000  # of a page whose priority as a parent is 1
NORMAL = 2  # the class of what nobody gave another one
LEAST_SCORE = (75.0, 50.0, 25.0)  # of the classes 0, 1, 2


def parse_priority(value: str) -> int:
    """A priority class from a number 0..3 or a word. Raises ValueError that names the choices."""
    word = value.strip().lower()
    if word in CLASS_WORDS:
        return CLASS_WORDS[word]
    if word in ("0", "1", "2", "3"):
        return int(word)
    raise ValueError(f"priority {value!r:.40}: expected 0, 1, 2, 3 or {', '.join(CLASS_WORDS)}")


def score_sql(cfg: Config, now_s: float) -> str:
    """The score 0..100 of a row by the scorer that is set, times the operator's weight.

    Over quality (of its host, 0..1), depth, last_fetch, interval_s, class, source, url, boost,
    flags, weight and parent_inlinks (of the page on which it was found; product only).
    """
    score = _points_sql(cfg, now_s) if cfg.frontier.scorer == "points" else _product_sql(cfg)
    home = "length(url) - length(replace(url, '/', '')) = 3 AND right(url, 1) = '/'"
    boosts = f"CASE WHEN {home} THEN {cfg.frontier.home_boost!r} ELSE 0e0 END"
    return (
        f"least(100e0, greatest(0e0, weight * ({score} + CAST({boosts} AS double)"
        " + coalesce(boost, 0e0))))"
    )


def weight_sql(cfg: Config, row: str, ordered: str) -> str:
    """An operator's weight of a row: `ordered` of its host, else as set, else 1."""
    given = {k: f"CAST({v!r} AS double)" for k, v in cfg.frontier.weights.items()}
    named = setting_sql(given, row) or "CAST(NULL AS double)"
    return f"coalesce({ordered}, {named}, 1e0)"


def class_sql(cfg: Config) -> str:
    """The class of a row over priority_class and score: as given, or by the score
    (frontier.classes) where it is `normal`.
    """
    if cfg.frontier.classes == "given":
        return "priority_class"
    whens = " ".join(f"WHEN score >= {least} THEN {c}" for c, least in enumerate(LEAST_SCORE))
    return f"CASE WHEN priority_class <> {NORMAL} THEN priority_class {whens} ELSE 3 END"


def class_of(priority_class: int, score: float | None, cfg: Config) -> int:
    """`class_sql` of one row; score: None where it is not known any more."""
    if cfg.frontier.classes == "given" or priority_class != NORMAL or score is None:
        return priority_class
    return next((c for c, least in enumerate(LEAST_SCORE) if score >= least), 3)


def _is_trap_sql(cfg: Config) -> str:
    """Whether a URL looks like a trap: its page had too many links of one shape, or an operator
    named it (frontier.traps).
    """
    named = setting_sql(dict.fromkeys(cfg.frontier.traps, "true")) or "false"
    flagged = "coalesce(array_contains(flags, 'many_same_shape'), false)"
    return f"({flagged} OR coalesce({named}, false))"


def _points_sql(cfg: Config, now_s: float) -> str:
    """Authority 40, depth 20 falling by 2 a level, freshness need 20 (full if never fetched), news
    +20, sitemap +15, query string -5, trap -20.
    """
    age_s = f"greatest({round(now_s * 1e6)} - unix_micros(last_fetch), 0) / 1e6"
    freshness = (
        f"CASE WHEN last_fetch IS NULL OR coalesce(interval_s, 0e0) = 0e0 THEN {FRESHNESS}e0"
        f" ELSE least({FRESHNESS}e0, {FRESHNESS}e0 * ({age_s}) / interval_s) END"
    )
    return (
        f"{AUTHORITY}e0 * quality + greatest(0e0, {DEPTH}e0 - 2 * depth) + {freshness}"
        f" + CASE WHEN class = 'news' THEN {NEWS}e0 ELSE 0e0 END"
        f" + CASE WHEN source = 'sitemap' THEN {SITEMAP}e0 ELSE 0e0 END"
        f" - CASE WHEN contains(url, '?') THEN {QUERY_PENALTY}e0 ELSE 0e0 END"
        f" - CASE WHEN {_is_trap_sql(cfg)} THEN {TRAP_PENALTY}e0 ELSE 0e0 END"
    )


def _product_sql(cfg: Config) -> str:
    """100 x 0.5 x quality x sqrt(parent) / (1 + depth), x 0.1 for a trap.

    parent: 0..1, the logarithm of the in-links of the page on which it was found (1 for
    MANY_INLINKS); 1 where nothing links to it.
    """
    scale = f"ln(1e0 + {MANY_INLINKS})"
    parent = (
        "CASE WHEN parent_key IS NULL THEN 1e0 ELSE least(1e0,"
        f" ln(1e0 + greatest(coalesce(parent_inlinks, 0), 1)) / {scale}) END"
    )
    return (
        f"50e0 * quality * sqrt({parent}) / (1 + depth)"
        f" * CASE WHEN {_is_trap_sql(cfg)} THEN {TRAP_FACTOR} ELSE 1e0 END"
    )
