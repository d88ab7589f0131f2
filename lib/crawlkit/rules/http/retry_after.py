"""HTTP dates and `Retry-After` (RFC 9110 5.6.7 and 10.2.3)."""

from __future__ import annotations

import calendar
import math
import re

_MONTHS = {m: i for i, m in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}
_TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2})"
# IMF-fixdate and the RFC 850 form, and what servers make of them: short days, dashes, other names
# of GMT, offsets
_DATE = re.compile(
    rf"(?:[A-Z]{{3,9}}, ?)?([0-9]{{1,2}})[ -]([A-Z]{{3}})[ -]([0-9]{{4}}|[0-9]{{2}}) {_TIME}"
    r" (?:GMT|UTC|UT|Z|([+-])([0-9]{2}):?([0-9]{2}))",
    re.IGNORECASE | re.ASCII,
)
_ASCTIME = re.compile(
    rf"[A-Z]{{3}} ([A-Z]{{3}}) ([0-9 ][0-9]) {_TIME} ([0-9]{{4}})", re.IGNORECASE | re.ASCII
)
_SECONDS = re.compile(r"([0-9]+)(\.[0-9]+)?")
_LONGEST = 64  # no form of the field is longer


def http_date(text: str, now: float) -> float | None:
    """Unix seconds of an HTTP-date in any of its three forms, read robustly (RFC 9110 5.6.7), or
    None.

    `now` (Unix s) decides the century of a two-digit year: a date more than 50 years ahead is of
    the past.
    """
    text = text.strip()
    if len(text) > _LONGEST:
        return None
    offset_s = 0
    if m := _DATE.fullmatch(text):
        day, month, year, *clock, sign, hours, minutes = m.groups()
        if sign:
            offset_s = (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1)
        if len(year) == 2:
            this_year = 1970 + int(now // 31_556_952)
            full = this_year - this_year % 100 + int(year)
            if full > this_year + 50:
                full -= 100
            elif full <= this_year - 50:
                full += 100
            year = str(full)
    elif m := _ASCTIME.fullmatch(text):
        month, day, *clock, year = m.groups()
    else:
        return None
    month_n, day_n = _MONTHS.get(month.capitalize()), int(day)
    hour, minute, second = (int(c) for c in clock)
    if month_n is None or int(year) < 1601 or hour > 23 or minute > 59 or second > 60:
        return None
    if not 1 <= day_n <= calendar.monthrange(int(year), month_n)[1]:
        return None
    return float(calendar.timegm((int(year), month_n, day_n, hour, minute, second)) - offset_s)


def retry_after_s(
    value: str | None, now: float, max_s: float, date: str | None = None
) -> float | None:
    """Seconds to wait that a Retry-After field asks for, 0 to `max_s`; None if it says nothing
    usable.

    A date counts from the answer's own `date` (Date field) when that is readable, so that a wrong
    clock at either end does not matter; else from `now`. A fraction, which the grammar forbids, is
    rounded up.
    """
    if value is None:
        return None
    value = value.strip()
    if m := _SECONDS.fullmatch(value):
        if len(m[1]) > 15:
            return max_s
        whole = int(m[1])
        return min(float(whole + 1 if m[2] and m[2].strip(".0") else whole), max_s)
    until = http_date(value, now)
    if until is None:
        return None
    sent = http_date(date, now) if date else None
    return min(max(math.ceil(until - (now if sent is None else sent)), 0.0), max_s)
