"""Dates of sitemaps and feeds: W3C date and time (RFC 3339 and its shorter forms) and RFC 822."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_tz

_W3C = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})(?:[Tt"
    r" ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,12}))?)?["
    r" ]?(?:([Zz])|([+-])([0-9]{2}):?([0-9]{2})?)?)?)?)?"
)
_LONGEST = 64


def w3c_date(text: str) -> float | None:
    """Unix seconds of a W3C date and time (a date alone is midnight; no zone is UTC); None for
    anything else.
    """
    match = _W3C.fullmatch(text.strip()) if len(text) <= _LONGEST * 4 else None
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, _, sign, zone_hours, zone_minutes = (
        match.groups()
    )
    offset = timedelta(hours=int(zone_hours or 0), minutes=int(zone_minutes or 0))
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    try:
        when = datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            micros,
            timezone(-offset if sign == "-" else offset),
        )
        return when.timestamp()
    except (ValueError, OverflowError):
        return None


def rfc822_date(text: str) -> float | None:
    """Unix seconds of an RFC 822 date as feeds write it (four-digit years, names of zones, missing
    parts).
    """
    text = text.strip()
    if len(text) > _LONGEST:
        return None
    try:
        parts = parsedate_tz(text if ":" in text else text + " 00:00:00")
        if parts is None:
            return None
        return datetime(*parts[:6], tzinfo=UTC).timestamp() - (parts[9] or 0)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


def feed_date(text: str) -> float | None:
    """Unix seconds of a date in either form."""
    when = w3c_date(text)
    return rfc822_date(text) if when is None else when
