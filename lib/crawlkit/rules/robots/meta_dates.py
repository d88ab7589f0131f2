"""Dates as `unavailable_after` gives them: ISO 8601, RFC 822 and RFC 850 (Google, robots meta tag
specification).
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone

_MONTHS = {m: n for n, m in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
# RFC 822, 5.1, in hours from UTC
_ZONES = {
    "z": 0,
    "ut": 0,
    "utc": 0,
    "gmt": 0,
    "est": -5,
    "edt": -4,
    "cst": -6,
    "cdt": -5,
    "mst": -7,
    "mdt": -6,
    "pst": -8,
    "pdt": -7,
}

_TIME = r"(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2})(?:[.,]\d{1,9})?)?"
_ZONE = r"(?:[ ]?(?P<zone>[+-]\d{2}:?\d{2}|[+-]\d{2}|UTC?|GMT|[ECMP][SD]T|Z)(?![A-Za-z0-9]))?"
_ISO = re.compile(
    r"(?P<y>\d{4})(?:-?W(?P<week>\d{2})-?(?P<wday>\d)|-(?P<doy>\d{3})|-(?P<mon>\d{2})-(?P<d>"
    r"\d{2})|(?P<mon2>\d{2})(?P<d2>\d{2}))(?!\d)(?:[Tt"
    rf" ]{_TIME}{_ZONE})?",
    re.I | re.ASCII,
)
_RFC = re.compile(
    r"(?:[A-Za-z]{3,9}[, ] ?)?(?P<d>\d{1,2})[ -](?P<name>[A-Za-z]{3})[a-z]{0,6}["
    rf" -](?P<y>\d{{4}}|\d{{2}})(?!\d)(?:,? {_TIME}{_ZONE})?",
    re.I | re.ASCII,
)
_ASCTIME = re.compile(
    rf"[A-Za-z]{{3}} (?P<name>[A-Za-z]{{3}}) {{1,2}}(?P<d>\d{{1,2}}) {_TIME} (?P<y>\d{{4}})(?!\d)"
)


def date_at(text: str, pos: int = 0) -> tuple[str, int] | None:
    """A date that starts at `pos`: (`2025-12-31` or `2025-12-31T23:59:59Z`, end position).

    None if there is none.

    A time without a zone is taken as UTC.
    """
    for pattern in (_ISO, _RFC, _ASCTIME):
        m = pattern.match(text, pos)
        value = _value(m.groupdict()) if m else None
        if m and value:
            return value, m.end()
    return None


def has_passed(value: str, iso_now: str) -> bool:
    """Whether a date (its first moment) or UTC time of `date_at` is not after now
    (YYYY-MM-DDTHH:MM:SSZ).
    """
    return value <= iso_now[: len(value)]


def _value(part: dict[str, str | None]) -> str | None:
    try:
        day = _day(part)
        if part.get("h") is None:
            return day.isoformat()
        hour, minute, second = (int(part.get(k) or 0) for k in "hms")
        if hour > 24 or minute > 59 or second > 60 or (hour == 24 and (minute or second)):
            return None
        moment = datetime(day.year, day.month, day.day, tzinfo=timezone.utc) + timedelta(
            hours=hour, minutes=minute, seconds=min(second, 59)
        )
        return (moment - _offset(part.get("zone"))).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        return None


def _day(part: dict[str, str | None]) -> date:
    year = int(part["y"] or 0)
    if len(part["y"] or "") == 2:
        year += 2000 if year < 70 else 1900
    if part.get("week"):
        return date.fromisocalendar(year, int(part["week"] or 0), int(part["wday"] or 0))
    if part.get("doy"):
        found = date(year, 1, 1) + timedelta(days=int(part["doy"] or 0) - 1)
        if found.year != year:
            raise ValueError("no such day of the year")
        return found
    name = part.get("name")
    month = _MONTHS.get(name.lower(), 0) if name else int(part.get("mon") or part.get("mon2") or 0)
    return date(year, month, int(part.get("d") or part.get("d2") or 0))


def _offset(zone: str | None) -> timedelta:
    if not zone:
        return timedelta()
    if zone[0] not in "+-":
        return timedelta(hours=_ZONES[zone.lower()])
    digits = zone[1:].replace(":", "").ljust(4, "0")
    span = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -span if zone[0] == "-" else span
