"""The report's queries: plain SQL for people, frames for the engine."""

from __future__ import annotations

import re

from crawlkit.observe.error_queries import where_errors
from crawlkit.observe.views import VIEWS
from crawlkit.report.queries import (
    COUNTED_ERRORS,
    FRAMES,
    IS_ERROR,
    IS_MISSING,
    OF_HISTORY,
    PLOTTED,
    over_frames,
    read_queries,
)
from crawlkit.tables import TABLES


def test_what_the_page_shows_is_sql_of_the_tables():
    for name, query in read_queries("r000001", PLOTTED | OF_HISTORY).items():
        assert "{" not in query.sql, name
        over = over_frames(query.sql)
        named = set(re.findall(r"\{(\w+)\}", over))
        assert named <= set(FRAMES) and named - {"errors"} <= set(TABLES)
        assert not re.search(rf"\b(FROM|JOIN) ({'|'.join(FRAMES)})\b", over), name


def test_errors_are_those_of_the_view_and_of_the_command():
    assert VIEWS["errors"] == f"SELECT * FROM captures WHERE {IS_ERROR}"
    default = where_errors(None, None, None, all_kinds=False)
    assert default == f"NOT ({IS_MISSING})"
    assert COUNTED_ERRORS.startswith(f"(SELECT * FROM errors WHERE NOT ({IS_MISSING}))")
