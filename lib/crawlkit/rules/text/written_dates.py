"""Days as people write them: in numbers, or with the name of a month in one of 14 languages."""

from __future__ import annotations

import datetime as dt
import re

MAX_TEXT_CHARS = 400  # of a text that is looked at
_FIRST_YEAR = 1990  # of the web: an earlier one is not a page's date
# Names of months and their usual short forms, January to December (Unicode CLDR's languages).
_MONTHS = """
january february march april may june july august september october november december
jan feb mar apr may jun jul aug sep oct nov dec
jan feb mar apr may june july aug sept oct nov dec
januar februar märz april mai juni juli august september oktober november dezember
jän feb mär apr mai jun jul aug sep okt nov dez
janvier février mars avril mai juin juillet août septembre octobre novembre décembre
janv févr mars avr mai juin juil août sept oct nov déc
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
ene feb mar abr may jun jul ago sep oct nov dic
janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
jan fev mar abr mai jun jul ago set out nov dez
gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
gen feb mar apr mag giu lug ago set ott nov dic
januari februari maart april mei juni juli augustus september oktober november december
jan feb mrt apr mei jun jul aug sep okt nov dec
januari februari mars april maj juni juli augusti september oktober november december
januar februar mars april mai juni juli august september oktober november desember
januar februar marts april maj juni juli august september oktober november december
stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia
ledna února března dubna května června července srpna září října listopadu prosince
января февраля марта апреля мая июня июля августа сентября октября ноября декабря
января февраля марта апреля мая июня июля августа сентября октября ноября декабря
ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık
"""


def _fold(name: str) -> str:
    """Letters that IGNORECASE takes for one another as one: i, ı, İ; s, ſ; k, the Kelvin sign."""
    return name.casefold().replace("\u0307", "").replace("ı", "i")


_NUMBER = {
    _fold(name): number
    for line in _MONTHS.strip().splitlines()
    for number, name in enumerate(line.split(), 1)
}
_NAME = "|".join(sorted(map(re.escape, _NUMBER), key=len, reverse=True))
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_SOME_YEAR = re.compile(_YEAR)
_DAY = r"(?P<day>\d{1,2})"
_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"(?<!\d){_YEAR}(?P<sep>[-/.]|\s?年\s?|년\s?)(?P<month>\d{{1,2}})"
        rf"(?:(?P=sep)|\s?月\s?|월\s?){_DAY}(?!\d)",
        rf"(?<![\w.]){_DAY}(?:st|nd|rd|th|er|º)?\.?(?:\s|-)(?:de\s|of\s)?(?P<name>{_NAME})"
        rf"\.?,?(?:\s|-)(?:de\s)?{_YEAR}(?!\d)",
        rf"(?<!\w)(?P<name>{_NAME})\.?\s{_DAY}(?:st|nd|rd|th)?,?\s{_YEAR}(?!\d)",
        rf"(?<![\d.,/-])(?P<first>\d{{1,2}})(?P<sep>[-/.])\s?(?P<second>\d{{1,2}})"
        rf"(?P=sep)\s?{_YEAR}(?!\.?\d)",
    )
)
_MONTH_FIRST = frozenset(("", "us", "ph"))  # regions that write 12/31/2025


def read_day(text: str, language: str | None = None) -> str | None:
    """The first day that a text names, as YYYY-MM-DD; None: it names none from 1990 on.

    `language`: the page's (BCP 47). 1/2/2025 is January 2 in English without a region and in that
    of the United States, else February 1; 1.2.2025 is always February 1.
    """
    text = text[:MAX_TEXT_CHARS]
    if not _SOME_YEAR.search(text):
        return None
    found = [m for form in _FORMS if (m := form.search(text))]
    for match in sorted(found, key=lambda m: m.start()):
        if day := _day_of(match.groupdict(), (language or "en").lower()):
            return day
    return None


def _day_of(part: dict[str, str | None], language: str) -> str | None:
    if first := part.get("first"):
        month, day = int(first), int(part["second"] or 0)
        if not _is_month_first(part["sep"] or "", month, day, language):
            month, day = day, month
    else:
        name = part.get("name")
        month = _NUMBER[_fold(name)] if name else int(part["month"] or 0)
        day = int(part["day"] or 0)
    year = int(part["year"] or 0)
    try:
        return dt.date(year, month, day).isoformat() if year >= _FIRST_YEAR else None
    except ValueError:
        return None


def _is_month_first(separator: str, first: int, second: int, language: str) -> bool:
    if first > 12 or second > 12:
        return second > 12
    tag, _, region = language.replace("_", "-").partition("-")
    return separator != "." and tag == "en" and region in _MONTH_FIRST
