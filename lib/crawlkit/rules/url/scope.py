"""Scope: which URLs the crawl wants at all, as a list of named rules in a fixed order
(docs/rules/urls.md).

It judges a canonical URL alone; what needs evidence about its host (one shape everywhere, equal
bodies) is not built.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.url.canonical import SESSION_PARAMS, split
from crawlkit.rules.url.compiled_scope import Candidate, Scope
from crawlkit.rules.url.linear_patterns import is_found
from crawlkit.rules.url.policy import SESSION_PARAMS_BY_VALUE
from crawlkit.rules.url.session_values import is_session_value

__all__ = ["RULES", "Candidate", "Scope", "check_seed", "scope_reason"]

# Dates as calendars write them: a whole date anywhere; a month after "=", or in a path that names a
# calendar. Years and months alone are too often just numbers (/topic/2451/10).
_FOUR_DIGITS = re.compile(r"[0-9]{4}")  # in all of them: one quick look spares most URLs the others
_DAY = re.compile(
    r"(?<![0-9A-Za-z-])([0-9]{4})(?:/(?:0[1-9]|1[0-2])/(?:0[1-9]|[12][0-9]|3[01])|-(?:0[1-9]"
    r"|1[0-2])-(?:0[1-9]|[12][0-9]|3[01]))(?![0-9A-Za-z-])"
)
_MONTH = re.compile(r"[=/]([0-9]{4})[-/](?:0?[1-9]|1[0-2])(?![0-9A-Za-z-])")
_CALENDAR = re.compile(
    r"calendar|kalender|calendrier|agenda|event|schedule|month|archive|(?<![a-z])date|cal(?![a-z])",
    re.IGNORECASE,
)
_YEAR_PARAM = re.compile(r"[?&](?:year|yr|y)=([0-9]{4})(?![^&])", re.IGNORECASE)
_SESSION_PATH = re.compile(
    r"/\([0-9a-z]{24}\)/|/\((?:[A-Z]\([0-9a-z]{8,64}\)){1,4}\)/|;(?:jsessionid|phpsessid|sid"
    r"|sessionid)=|/(?:jsessionid|phpsessid|sessionid)[=/][0-9a-z]{16,}",
    re.IGNORECASE,
)
_SESSION_NAMES = frozenset(name for name in SESSION_PARAMS if not name.endswith("*"))


def _outside_names(scope: Scope, c: Candidate) -> Reason | None:
    if not (scope.hosts or scope.domains or scope.prefixes):
        return None
    if (
        c.host in scope.hosts
        or ("." + c.host).endswith(scope.domains)
        or any(prefix.covers(c) for prefix in scope.prefixes)
    ):
        return None
    return (
        Reason.SCOPE_HOST
        if scope.hosts
        else Reason.SCOPE_DOMAIN
        if scope.domains
        else Reason.SCOPE_PREFIX
    )


def _match_exclude(scope: Scope, c: Candidate) -> Reason | None:
    found = scope.exclude is not None and is_found(scope.exclude, c.url)
    return Reason.SCOPE_PATTERN if found else None


def _too_deep(scope: Scope, c: Candidate) -> Reason | None:
    return Reason.SCOPE_DEPTH if c.depth > scope.config.max_depth else None


def _too_long(scope: Scope, c: Candidate) -> Reason | None:
    return Reason.SCOPE_PATH_LENGTH if len(c.url) > scope.config.max_url_bytes else None


def _repeats(scope: Scope, c: Candidate) -> Reason | None:
    # Numbers repeat by nature (dates, tiles); a calendar without end is the business of the next
    # rule.
    names = [segment for segment in c.path.split("/") if segment and not segment.isdigit()]
    most = scope.config.max_repeated_segments
    if len(names) <= most:
        return None
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return Reason.SCOPE_REPEATED_SEGMENTS if max(counts.values()) > most else None


def _date_range(scope: Scope, c: Candidate) -> Reason | None:
    text = f"{c.path}?{c.query}" if c.query else c.path
    if not _FOUR_DIGITS.search(text):
        return None
    years = [
        int(year)
        for year in (
            *_DAY.findall(text),
            *_YEAR_PARAM.findall(text),
            *(_MONTH.findall(text) if _CALENDAR.search(text) else ()),
        )
    ]
    if not years:
        return None
    last = c.now_year + scope.config.max_years_ahead
    return (
        Reason.SCOPE_DATE_RANGE
        if any(not scope.config.min_year <= year <= last for year in years)
        else None
    )


def _session(scope: Scope, c: Candidate) -> Reason | None:
    if _SESSION_PATH.search(c.path) or (
        c.query and any(map(_is_session, c.query.lower().split("&"), c.query.split("&")))
    ):
        return Reason.SCOPE_SESSION_ID
    return None


def _is_session(low: str, piece: str) -> bool:
    name = low.partition("=")[0]
    if name in _SESSION_NAMES:
        return True
    return name in SESSION_PARAMS_BY_VALUE and is_session_value(piece[len(name) + 1 :])


def _file_type(scope: Scope, c: Candidate) -> Reason | None:
    _, dot, end = c.path[c.path.rindex("/") + 1 :].rpartition(".")
    if not dot or not c.page:
        return None
    end = end.lower()
    return (
        Reason.MEDIA_NOT_CRAWLED
        if end in scope.media_extensions
        else Reason.SCOPE_EXTENSION
        if end in scope.skip_extensions
        else None
    )


Rules = tuple[tuple[str, Callable[[Scope, Candidate], Reason | None]], ...]
RULES: Rules = (
    ("named hosts, domains, prefixes", _outside_names),
    ("length", _too_long),
    ("depth", _too_deep),
    ("file type", _file_type),
    ("repeated segments", _repeats),
    ("date range", _date_range),
    ("session id", _session),
    ("excluded patterns", _match_exclude),
)


# What an operator names is fetched whatever it looks like; these rules hold for it too.
FOR_SEEDS = tuple(
    rule for rule in RULES if rule[1] in (_outside_names, _too_long, _too_deep, _match_exclude)
)


def check_seed(url: str, depth: int, scope: Scope) -> None:
    """Raises Refused if a canonical URL that an operator names is too long or not in scope."""
    most = scope.config.max_url_bytes
    if len(url) > most:
        raise Refused(Reason.URL_TOO_LONG, f"{len(url)} bytes, scope.max_url_bytes is {most}")
    reason = scope_reason(url, depth, scope, 0, rules=FOR_SEEDS)
    if reason is not None:
        raise Refused(reason, _WIDEN if reason in _NAMED else "")


_NAMED = (Reason.SCOPE_HOST, Reason.SCOPE_DOMAIN, Reason.SCOPE_PREFIX)
_WIDEN = "not in scope: `crawlkit crawl URL --scope domain` adds its domain (--save keeps that)"


def scope_reason(
    url: str,
    depth: int,
    scope: Scope,
    now_year: int,
    page: bool = True,
    rules: Rules = RULES,
) -> Reason | None:
    """Why a canonical URL found `depth` links from a seed is not wanted, by the first rule that
    says so; None: it is.

    `now_year` (UTC) bounds calendars. `page=False` for sitemaps and feeds, whose file type does not
    matter. rules: FOR_SEEDS for what an operator names.
    """
    _, host, _, path_query = split(url)
    path, _, query = path_query.partition("?")
    candidate = Candidate(url, host, path, query, depth, now_year, page)
    for _, rule in rules:
        reason = rule(scope, candidate)
        if reason is not None:
            return reason
    return None
