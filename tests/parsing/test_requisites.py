"""Which requisites of pages and style sheets go into the frontier, and as what."""

from __future__ import annotations

import pytest
from crawlkit.config import parse_config
from crawlkit.parsing.discovery import ParseRules, add_links, new_result
from crawlkit.rules.page.links import Link

PAGE = {"kind": "page", "depth": 3, "redirects": 1, "quality": 0.5, "url": "http://site.test/"}
SHEET = PAGE | {"kind": "requisite"}
OWN, FOREIGN = "http://site.test/2.css", "http://cdn.example/1985/01/02/3.png"


def add(setting: str, item: dict, *urls: str, kind: str = "requisite"):
    """Found rows and reasons of refusal for what an item loads."""
    sets = (f"scope.requisites={setting}", "scope.hosts=[site.test]", "scope.max_depth=3")
    rules = ParseRules(parse_config("", "test", (*sets, "fetch.max_redirects=2")), 1.7e9)
    out = new_result("c")
    add_links(out, item | {"url_key": b"k"}, [Link(kind, url) for url in urls], rules)
    found = [(f.url, f.fetch_kind, f.source, f.depth, f.redirects) for f in out["found"]]
    return found, [row[10] for row in out["links"]]


@pytest.mark.parametrize(
    ("setting", "reasons"),
    [
        ("any", [None, "scope_date_range"]),  # of the scope's rules only the names do not hold
        ("scope", [None, "scope_host"]),
        ("none", ["media_not_crawled", "media_not_crawled"]),
    ],
)
def test_the_setting_decides(setting, reasons):
    assert add(setting, PAGE, OWN, FOREIGN)[1] == reasons


@pytest.mark.parametrize("kind", ["image", "media", "requisite"])
def test_a_requisite_is_as_deep_as_its_page(kind):
    assert add("any", PAGE, OWN, kind=kind) == ([(OWN, "requisite", "requisite", 3, 0)], [None])


def test_sheets_that_load_each_other_without_end_come_to_one():
    assert add("any", SHEET, OWN) == ([(OWN, "requisite", "requisite", 3, 2)], [None])
    assert add("any", SHEET | {"redirects": 2}, OWN) == ([], ["scope_depth"])


def test_links_and_requisites_have_a_cap_each():
    rules = ParseRules(parse_config("", "test", ("scope.requisites=any", "parse.outlinks=1")), 0)
    out = new_result("c")
    for kind in ("a", "requisite"):
        links = [Link(kind, f"http://site.test/{kind}{n}") for n in range(2)]
        add_links(out, PAGE | {"url_key": b"k"}, links, rules)
    assert [(row[0], row[10]) for row in out["links"]] == [
        *((0, None), (1, "outlink_cap"), (2, None), (3, "outlink_cap")),
    ]
