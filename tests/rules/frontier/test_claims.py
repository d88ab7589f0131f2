"""How far a host's dates are believed: the rule and its SQL."""

from __future__ import annotations

import duckdb
import pytest
from crawlkit.rules.frontier.claims import HALF_LIFE_S, MOST, Claims, believed_sql

NOW = 1_767_225_600.0


def believed(true: float | None, false: float | None, age: float | None) -> bool:
    """By the SQL; age in half-lives, None: nothing is known."""
    at = (
        "CAST(NULL AS timestamp)"
        if age is None
        else f"make_timestamp({round((NOW - age * HALF_LIFE_S) * 1e6)})"
    )
    query = believed_sql(NOW).replace("unix_micros", "epoch_us")
    columns = f"{at} AS dates_at, CAST(? AS double) AS dates_true, CAST(? AS double) AS dates_false"
    return duckdb.execute(f"SELECT {query} FROM (SELECT {columns})", [true, false]).fetchall()[0][0]


@pytest.mark.parametrize(
    ("true", "false", "age", "expected"),
    [
        (None, None, None, True),
        (0, 1, 0, True),
        (0, 2, 0, True),
        (0, 3, 0, False),
        (0, 3, 1, True),  # half of it is forgotten
        (0, 12, 1, False),
        (0, 12, 3, True),
        (9, 9, 0, True),
        (3, 20, 0, False),
        (64, 64, 9, True),
        (0, 3, -2, False),  # a clock that was put back
    ],
)
def test_a_host_is_believed_until_its_dates_are_mostly_wrong(true, false, age, expected):
    assert believed(true, false, age) is expected


def test_counts_fade_and_are_bounded():
    once = Claims().after(2, 1, NOW)
    assert once == Claims(2, 1, NOW)
    assert once.after(0, 0, NOW + 9e9) is once  # nothing was learned
    assert once.after(0, 1, NOW + HALF_LIFE_S) == Claims(1, 1.5, NOW + HALF_LIFE_S)
    assert once.after(1, 0, NOW - 5) == Claims(3, 1, NOW - 5)
    assert Claims().after(1000, 1000, NOW) == Claims(MOST, MOST, NOW)
