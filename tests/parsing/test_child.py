"""Pages that kill or stall their parser: each is a reject, every other page is parsed, and no child
is left.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pyarrow as pa
import pytest
from crawlkit.config import Config
from crawlkit.parsing import child
from crawlkit.parsing.capture import parse_item
from crawlkit.parsing.discovery import ParseRules
from crawlkit.parsing.schemas import ITEM_COLUMNS, PARSED_SCHEMA
from crawlkit.tables.ddl import arrow_schema

pytestmark = pytest.mark.waits

SCHEMA = arrow_schema(PARSED_SCHEMA)


def hostile(row, read, rules):
    if row["does"] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if row["does"] == "exhausts":
        raise MemoryError
    if row["does"] == "stalls":
        time.sleep(60)
    return {
        "capture_id": row["capture_id"],
        "page": {"text": "x" * row["size"]},
        "links": [],
        "found": [],
        "rejects": [],
    }


def rows(does: list[str], size: int = 1) -> list[dict[str, object]]:
    return [
        {
            "capture_id": str(n),
            "url": f"http://a.example/{n}",
            "file": "f",
            "offset": n,
            "does": d,
            "size": size,
        }
        for n, d in enumerate(does)
    ]


batch = pa.RecordBatch.from_pylist


def children() -> set[str]:
    """Processes of this one, ended but not waited for among them."""
    return {
        pid
        for task in Path("/proc/self/task").iterdir()
        for pid in (task / "children").read_text().split()
    }


def run(monkeypatch, does: list[str], size: int = 1) -> dict[str, str]:
    """What became of each row: read, or the reason of its reject."""
    monkeypatch.setattr(child, "parse_item", hostile)
    before = children()
    cfg = Config.model_validate({"parse": {"page_timeout_s": 0.3}})
    given = rows(does, size)
    groups = [batch(given[i : i + 4]) for i in range(0, len(given), 4)]
    out = [
        r
        for made in child.parse_isolated(groups, lambda *_: ([], b""), ParseRules(cfg, 0.0), SCHEMA)
        for r in made.to_pylist()
    ]
    assert [r["capture_id"] for r in out] == [r["capture_id"] for r in given]  # each once, in order
    assert children() <= before
    return {r["capture_id"]: r["rejects"][0]["reason"] if r["rejects"] else "read" for r in out}


def test_all_are_read(monkeypatch):
    assert set(run(monkeypatch, ["reads"] * 11, size=300_000).values()) == {
        "read"
    }  # more than a pipe holds


@pytest.mark.parametrize(
    "bad, reason",
    [("dies", "parse_crash"), ("exhausts", "parse_crash"), ("stalls", "parse_timeout")],
)
@pytest.mark.parametrize("places", [(0,), (5,), (11,), (4, 6), (0, 11)])
def test_only_the_hostile_page_is_lost(monkeypatch, bad, reason, places):
    does = [bad if n in places else "reads" for n in range(12)]
    assert run(monkeypatch, does) == {str(n): reason if n in places else "read" for n in range(12)}


def test_a_caller_that_stops_leaves_no_child(monkeypatch):
    monkeypatch.setattr(child, "parse_item", hostile)
    before = children()
    results = child.parse_isolated(
        [batch([r]) for r in rows(["reads", "stalls"])],
        lambda *_: ([], b""),
        ParseRules(Config(), 0.0),
        SCHEMA,
    )
    next(results)
    results.close()
    assert children() <= before


def test_a_sitemap_is_read_in_the_charset_that_counts():
    """Of several Content-Types the last one's (Fetch Standard), as for pages."""
    row = dict.fromkeys(c.split(" ", 1)[0] for c in ITEM_COLUMNS) | {
        "capture_id": "",
        "kind": "sitemap",
        "url": "http://site.example/s.xml",
        "outcome": "fetched",
        "depth": 0,
        "redirects": 0,
        "quality": 0.5,
    }
    row["content_type"] = "text/xml;charset=utf-8, text/xml;charset=windows-1251"
    body = (
        "<urlset"
        " xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>"
        "http://site.example/ж</loc></url></urlset>".encode("cp1251")
    )
    assert [
        found.url
        for found in parse_item(row, lambda *_: ([], body), ParseRules(Config(), 0.0))["found"]
    ] == ["http://site.example/%D0%B6"]
