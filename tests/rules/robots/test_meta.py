from __future__ import annotations

import json

import pytest
from crawlkit.rules.page.markup import read_html
from crawlkit.rules.robots.meta import header_directives, meta_directives, robots_directives
from crawlkit.rules.robots.meta_dates import date_at, has_passed
from hypothesis import given, strategies as st

from tests.shared_data import shared


def rows(name):
    return [
        json.loads(line)
        for line in shared(f"suites/x_robots_tag/{name}.jsonl").read_text("utf-8").splitlines()
    ]


def test_directives_suite():
    wrong = []
    cases = rows("directives")
    for row in cases:
        agent = row["agent"] or "nobody"
        if "header" in row:
            found = header_directives(row["header"], agent)
        else:
            attributes = read_html(row["meta"]).metas[0][0]
            found = meta_directives(
                attributes.get("name", ""), attributes.get("content", ""), agent
            )
        if [sorted(found[0]), sorted(found[1])] != [row["for_all"], row["for_agent"]]:
            wrong.append((row["id"], found))
    assert len(cases) == 57 and wrong == []


@pytest.mark.parametrize(
    ("value", "passed"),
    [
        ("2026-01-01", True),
        ("2026-01-02", True),
        ("2026-01-03", False),
        ("2026-01-02T11:59:59Z", True),
        ("2026-01-02T12:00:00Z", True),
        ("2026-01-02T12:00:01Z", False),
    ],
)
def test_a_date_has_passed(value, passed):
    assert has_passed(value, "2026-01-02T12:00:00Z") is passed


def test_unavailable_after_suite():
    cases = rows("unavailable_after")
    assert len(cases) == 39
    for row in cases:
        value, end = date_at(row["text"])
        assert (value, row["text"][end:]) == (row["value"], row["rest"]), row["id"]


@pytest.mark.parametrize(
    "text,value",
    [
        ("Friday, 25-Jun-10 15:00:00 GMT", "2010-06-25T15:00:00Z"),  # RFC 850
        ("Fri Jun 25 15:00:00 2010", "2010-06-25T15:00:00Z"),  # asctime
        ("25 Jun 2010 15:00:00 PST", "2010-06-25T23:00:00Z"),
        ("25 Jun 2010 15:00:00 Pſt", "2010-06-25T15:00:00Z"),  # no zone of RFC 822
        ("2024-02-29", "2024-02-29"),
        ("2023-02-29", None),
        ("2025-12-31T24:00:00Z", "2026-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59-10:00", None),
        ("tomorrow", None),
    ],
)
def test_dates(text, value):
    found = date_at(text)
    assert (found and found[0]) == value


def of(metas=(), headers=(), agent="crawlkit"):
    return robots_directives(metas, headers, agent)


def test_the_most_restrictive_holds():
    assert of([("robots", "index"), ("ROBOTS", "noindex")]).noindex
    assert of([("robots", "index,follow"), ("crawlkit", "none")]).nofollow
    assert not of([("otherbot", "none")]).noindex
    assert of([("robots", "noindex nofollow")]).nofollow  # spaces instead of commas
    assert (
        of(
            headers=[
                ("X-Robots-Tag", "unavailable_after: 2025-12-31"),
                ("x-robots-tag", "unavailable_after: 2024-01-01"),
            ]
        ).unavailable_after
        == "2024-01-01"
    )


def test_opt_outs_of_ai_use_are_recorded():
    found = of(
        [
            ("robots", "noai"),
            ("tdm-reservation", "1"),
            ("tdm-policy", "https://site.example/tdm.json"),
        ],
        [("Content-Usage", "train-ai=n"), ("TDM-Reservation", "0")],
    )
    assert found.ai_signals == ("noai", "content-usage: train-ai=n")
    assert (found.tdm_reservation, found.tdm_policy) == (1, "https://site.example/tdm.json")
    assert not found.noindex and not found.nofollow


@given(st.text(alphabet="ab:,- \tunavailable_after0123456789TZnoindex\u0130", max_size=200))
def test_never_raises(value):
    header_directives(value, "crawlkit")
    meta_directives("robots", value, "crawlkit")
    date_at(value)


def test_long_fields_are_bounded():
    found = of(headers=[("X-Robots-Tag", ",".join(f"d{n}" for n in range(10**5)))])
    assert len(found.directives) <= 64


def test_robots_may_be_named_with_a_version_and_directives_parted_by_semicolons():
    assert of(headers=[("X-Robots-Tag", "CrawlKit/1.0: noindex; nofollow")]).directives == (
        "nofollow",
        "noindex",
    )
