"""How far a host is believed: the dates that its sitemaps and feeds give for its pages, the pings
and pushes about them (hints), and how long its pages say that they stay true (Cache-Control).

A date after our copy, or a hint, makes a page due. The visit shows whether it was true: the page
has changed, or it has not. A host's counts of both lose half of their weight in `HALF_LIFE_S`, so a
host whose dates or hints were refuted is tried again, ever more seldom while they stay wrong.
"""

from __future__ import annotations

from typing import NamedTuple

HALF_LIFE_S = 30 * 86_400.0
LEAST_PRECISION = 0.3  # below it pages keep their own interval
FRESH_PRECISION = 0.9  # of what pages say of themselves: below it they keep their own interval
FRESH_TESTS = 2.0  # visits within the time that found no change, at least
HINT_SOURCES = ("indexnow", "websub")  # of hints that others than operators give
HINTED = "hinted"  # flag: such a hint made the page due before its time
MOST = 64.0  # of each count: it is forgotten in a few half-lives


def kept_share(at: float | None, now: float, half_life_s: float) -> float:
    """What is left at `now` of the weight of a count as of `at` (Unix s; None: there is none)."""
    return 0.0 if at is None else float(0.5 ** (max(now - at, 0.0) / half_life_s))


class Claims(NamedTuple):
    """Visits that a claim made due: the page had changed (`true`) or not, as of `at` (Unix s)."""

    true: float = 0.0
    false: float = 0.0
    at: float | None = None

    def after(self, true: int, false: int, now: float) -> Claims:
        """The counts after some more visits."""
        if not true and not false:
            return self
        kept = kept_share(self.at, now, HALF_LIFE_S)
        return Claims(min(self.true * kept + true, MOST), min(self.false * kept + false, MOST), now)

    def is_believed(self, now: float) -> bool:
        """Whether a further one makes a page due: as `believed_sql`."""
        kept = kept_share(self.at, now, HALF_LIFE_S)
        tested = (self.true + self.false) * kept
        return self.true * kept + 1.0 >= LEAST_PRECISION * (tested + 1.0)


def believed_sql(now: float) -> str:
    """Whether a row of hostdb (or none) lets dates make pages due at `now` (Unix s): its precision,
    with one true date for a start.
    """
    age_s = f"greatest({now!r} - coalesce(unix_micros(dates_at) / 1e6, {now!r}), 0e0)"
    kept = f"power(5e-1, {age_s} / {HALF_LIFE_S!r})"
    true, false = "coalesce(dates_true, 0e0)", "coalesce(dates_false, 0e0)"
    return f"({true} * {kept} + 1e0) >= {LEAST_PRECISION!r} * (({true} + {false}) * {kept} + 1e0)"


def fresh_believed_sql(row: str, now: float) -> str:
    """Whether the pages of a host are left alone at `now` (Unix s) for as long as they say that
    they stay true: by its row of hostdb (or none), named `row`. Only who was tested is believed.
    """
    age_s = f"greatest({now!r} - coalesce(unix_micros({row}.fresh_at) / 1e6, {now!r}), 0e0)"
    kept = f"power(5e-1, {age_s} / {HALF_LIFE_S!r})"
    true, false = (f"coalesce({row}.fresh_{name}, 0e0)" for name in ("true", "false"))
    return (
        f"({true} * {kept} >= {FRESH_TESTS!r}"
        f" AND {true} >= {FRESH_PRECISION!r} * ({true} + {false}))"
    )


def fresh_tested_sql(row: str, new: str, now: float) -> str:
    """Whether a visit tested that a page stays true: it was read again within that time.

    row, new: as in `tested_sql`.
    """
    return (
        f"{row}.state = 'fetched' AND {new}.state = 'fetched' AND {new}.n_fetch > {row}.n_fetch"
        f" AND unix_micros({row}.fresh_until) > {round(now * 1e6)}"
    )


def tested_sql(row: str, new: str, now: float) -> str:
    """Whether a visit tested a date: a fetched page was due before its own interval was over, and
    not by a hint or an order of this round.

    row, new: names of its crawldb row before the visit and after it.
    """
    own_us = f"unix_micros({row}.last_fetch) + {row}.interval_s * 1e6"
    return (
        f"{row}.state = 'fetched' AND coalesce({row}.fetch_kind, 'page') = 'page'"
        f" AND {new}.state = 'fetched' AND unix_micros({row}.next_fetch) < {own_us} - 1e6"
        f" AND unix_micros({row}.next_fetch) <> {round(now * 1e6)}"
        f" AND NOT {_hinted_sql(row)}"
    )


def hint_tested_sql(row: str, new: str) -> str:
    """Whether a visit tested a hint: it had made a fetched page due. row, new: of `tested_sql`."""
    return (
        f"{row}.state = 'fetched' AND coalesce({row}.fetch_kind, 'page') = 'page'"
        f" AND {new}.state = 'fetched' AND {_hinted_sql(row)}"
    )


def _hinted_sql(row: str) -> str:
    return f"coalesce(array_contains({row}.flags, '{HINTED}'), false)"
