"""How long a stored answer may be used without asking again (RFC 9111 4.2, as a private cache)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from crawlkit.model import header_list
from crawlkit.rules.http.retry_after import http_date

MAX_FRESH_S = 30 * 86_400.0
_MAX_HEURISTIC_S = 86_400.0
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age[ \t]*=[ \t]*\"?([0-9]{1,9})", re.IGNORECASE)
_NO_STORE = re.compile(r"(?:^|[\s,])no-store(?:$|[\s,])", re.IGNORECASE)
_NO_CACHE = re.compile(r"(?:^|[\s,])no-(?:store|cache)(?:$|[\s,=])", re.IGNORECASE)


def max_age_s(cache_control: str) -> int | None:
    """The least max-age of a Cache-Control field, 0 if it forbids use without asking; None: it
    says neither.
    """
    if _NO_CACHE.search(cache_control):
        return 0
    return min((int(age) for age in _MAX_AGE.findall(cache_control)), default=None)


def fresh_until(headers: Iterable[tuple[str, str]], received_at: float) -> float | None:
    """Unix s until which an answer may be used; None: it may not be stored at all.

    By max-age, else Expires, else a tenth of its age when it was sent, a day at most (4.2.2);
    never more than MAX_FRESH_S.
    """
    fields = list(headers)
    control = header_list(fields, "cache-control") or ""
    if _NO_STORE.search(control) or "*" in (header_list(fields, "vary") or ""):
        return None
    sent_at = _date(fields, "date", received_at) or received_at
    lifetime_s: float | None = max_age_s(control)
    if lifetime_s is None and header_list(fields, "expires") is not None:
        lifetime_s = (_date(fields, "expires", received_at) or sent_at) - sent_at
    if lifetime_s is None:
        modified = _date(fields, "last-modified", received_at)
        old_s = 0.0 if modified is None else sent_at - modified
        lifetime_s = min(0.1 * old_s, _MAX_HEURISTIC_S)
    age = header_list(fields, "age") or ""
    age_s = float(age) if age.isascii() and age.isdigit() and len(age) < 10 else 0.0
    return received_at + min(max(lifetime_s - age_s, 0.0), MAX_FRESH_S)


def _date(headers: list[tuple[str, str]], name: str, now: float) -> float | None:
    value = header_list(headers, name)
    return None if value is None else http_date(value, now)
