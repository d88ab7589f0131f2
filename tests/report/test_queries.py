"""The report's queries: plain SQL for people, frames for the engine."""

from __future__ import annotations

import re

from crawlkit.report.queries import VIEWS, over_frames, read_queries


def test_what_the_page_shows_is_sql_of_the_tables():
    for name, query in read_queries("r000001").items():
        assert "{" not in query.sql, name
        over = over_frames(query.sql)
        assert set(re.findall(r"\{(\w+)\}", over)) <= set(VIEWS)
        assert not re.search(rf"\b(FROM|JOIN) ({'|'.join(VIEWS)})\b", over), name
