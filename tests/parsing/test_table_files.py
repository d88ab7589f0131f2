"""What a task of parse writes itself: rows of three tables, found rows and counts, each made of the
nested rows that Spark's own explode would give.
"""

import os
import signal
from collections import Counter

import pyarrow as pa
import pytest
from crawlkit.config import Config
from crawlkit.parsing import child
from crawlkit.parsing.child import drop_known
from crawlkit.parsing.discovery import FoundRow, ParseRules, new_result
from crawlkit.parsing.schemas import PARSED_SCHEMA, WRITTEN_SCHEMA
from crawlkit.parsing.table_files import CountedBatches, flatten, write_tables
from crawlkit.tables.ddl import arrow_schema

pytestmark = pytest.mark.waits

PAGE, LINK, FOUND = (
    pa.struct([("url", pa.string()), ("links", pa.int32())]),
    pa.struct([("n", pa.int32()), ("to_url", pa.string())]),
    pa.struct([("url", pa.string()), ("depth", pa.int32())]),
)
REJECT = pa.struct([("item", pa.string()), ("reason", pa.string()), ("detail", pa.string())])
PARSED = pa.schema(
    [
        ("capture_id", pa.string()),
        ("page", PAGE),
        ("links", pa.list_(LINK)),
        ("found", pa.list_(FOUND)),
        ("rejects", pa.list_(REJECT)),
    ]
)
FILE = [
    ("path", pa.string()),
    ("bytes", pa.int64()),
    ("modified_ms", pa.int64()),
    ("partition", pa.string()),
    ("stats", pa.string()),
]
WRITTEN = pa.schema(
    [
        ("added", pa.struct([("table", pa.string()), *FILE])),
        ("counted", pa.struct([("what", pa.string()), ("reason", pa.string()), ("n", pa.int64())])),
        ("found", FOUND),
    ]
)


def item(capture: str, page: bool, links: int, found: int, reasons: list[str]) -> dict:
    return {
        "capture_id": capture,
        "page": {"url": f"u{capture}", "links": links} if page else None,
        "links": [{"n": n, "to_url": f"{capture}/{n}"} for n in range(links)],
        "found": [{"url": f"{capture}/{n}", "depth": n} for n in range(found)],
        "rejects": [{"item": f"i{n}", "reason": r, "detail": ""} for n, r in enumerate(reasons)],
    }


def found_row(key, depth, parent, kind="page", due=None, redirects=0) -> FoundRow:
    return FoundRow(key, "", "", "", 0, "link", kind, depth, redirects, parent, due, None)


ITEMS = [
    item("a", True, 3, 2, []),
    item("b", False, 0, 0, ["warc_damaged"]),
    item("c", True, 0, 0, ["scheme", "scheme", "depth"]),
    item("d", False, 1, 1, []),
    item("e", True, 2, 0, []),
]


class Kept:
    """A writer of one file that keeps what it is given."""

    def __init__(self) -> None:
        self.rows: list[dict] = []

    def add(self, batch):
        self.rows += batch.to_pylist()
        yield from ()

    def close(self):
        yield pa.RecordBatch.from_pylist(
            [
                {
                    "path": "f",
                    "bytes": len(self.rows),
                    "modified_ms": 0,
                    "partition": "{}",
                    "stats": "{}",
                }
            ],
            pa.schema(FILE),
        )


@pytest.mark.parametrize("size", [1, 2, 5])
def test_rows_files_found_and_counts(size):
    made: dict[str, Kept] = {name: Kept() for name in ("pages", "links", "rejects")}
    batches = [
        pa.RecordBatch.from_pylist(ITEMS[k : k + size], PARSED) for k in range(0, len(ITEMS), size)
    ]
    given = CountedBatches(iter(batches))
    out = [
        r
        for b in write_tables(
            iter(given), given, {name: lambda w=w: w for name, w in made.items()}, "r1", WRITTEN
        )
        for r in b.to_pylist()
    ]
    assert all(sum(v is not None for v in r.values()) == 1 for r in out)
    assert [(r["capture_id"], r["url"], r["links"], r["round_id"]) for r in made["pages"].rows] == [
        ("a", "ua", 3, "r1"),
        ("c", "uc", 0, "r1"),
        ("e", "ue", 2, "r1"),
    ]
    assert [(r["capture_id"], r["n"], r["to_url"]) for r in made["links"].rows] == [
        (i["capture_id"], x["n"], x["to_url"]) for i in ITEMS for x in i["links"]
    ]
    assert [(r["capture_id"], r["n"], r["reason"], r["stage"]) for r in made["rejects"].rows] == [
        ("b", 0, "warc_damaged", "parse"),
        ("c", 0, "scheme", "parse"),
        ("c", 1, "scheme", "parse"),
        ("c", 2, "depth", "parse"),
    ]
    assert [r["found"] for r in out if r["found"]] == [f for i in ITEMS for f in i["found"]]
    assert {r["added"]["table"]: r["added"]["bytes"] for r in out if r["added"]} == {
        "pages": 3,
        "links": 6,
        "rejects": 4,
    }
    assert {(c["what"], c["reason"]): c["n"] for c in (r["counted"] for r in out) if c} == {
        ("items", ""): 5,
        ("pages", ""): 3,
        ("others", ""): 1,
        ("links", ""): 6,
        ("rejected", "warc_damaged"): 1,
        ("refused", "scheme"): 2,
        ("refused", "depth"): 1,
    }


def test_rows_cut_from_a_larger_batch_keep_their_own():
    whole = pa.RecordBatch.from_pylist(ITEMS, PARSED)
    cut = flatten(whole.slice(2, 3), "r")
    assert [r["capture_id"] for r in cut["links"].to_pylist()] == ["d", "e", "e"] and [
        r["n"] for r in cut["rejects"].to_pylist()
    ] == [0, 1, 2]
    assert Counter(r["capture_id"] for r in cut["pages"].to_pylist()) == {"c": 1, "e": 1}


def test_a_found_row_is_told_again_only_when_it_is_better():
    def row(url, depth, parent, kind="page", due=None, redirects=0):
        return found_row(url, depth, parent, kind, due, redirects)

    told = {}
    first = drop_known(
        {
            "found": [
                row(b"x", 3, b"p"),
                row(b"x", 3, b"p"),
                row(b"x", 3, b"a"),
                row(b"x", 2, b"z"),
                row(b"x", 5, b"a"),
            ]
        },
        told,
    )["found"]
    assert [(f.depth, f.parent_key) for f in first] == [(3, b"p"), (3, b"a"), (2, b"z")]
    again = drop_known(
        {
            "found": [
                row(b"x", 2, b"z"),
                row(b"x", 9, None, "feed"),
                row(b"x", 9, b"q", "page", 5.0),
                row(b"y", 9, b"q"),
            ]
        },
        told,
    )["found"]
    assert [(f.url_key, f.fetch_kind, f.due_at) for f in again] == [
        (b"x", "feed", None),
        (b"x", "page", 5.0),
        (b"y", "page", None),
    ]


@pytest.mark.parametrize("places", [(), (0,), (4,), (1, 2), (3, 8)])
def test_pages_that_kill_their_parser_take_no_other_page_s_rows_with_them(monkeypatch, places):
    """Page n links to the URLs n to n + 3; each of a page that is read is told, whichever child
    read it, and the counts add up.
    """

    def hostile(row, read, rules):
        if row["n"] in places:
            os.kill(os.getpid(), signal.SIGKILL)
        out = new_result(str(row["n"]))
        out["page"] = {"url": row["url"]}
        out["links"] = [(0, b"", "", None, "", None, "", "", None, "a", None, None)]
        near = range(row["n"], row["n"] + 4)
        out["found"] = [found_row(bytes([k]), row["n"] % 3, b"p") for k in near]
        return out

    monkeypatch.setattr(child, "parse_item", hostile)
    made: dict[str, Kept] = {name: Kept() for name in ("pages", "links", "rejects")}
    rows = [
        {"n": n, "capture_id": str(n), "url": f"u{n}", "file": "f", "offset": n} for n in range(9)
    ]
    given = CountedBatches(iter([pa.RecordBatch.from_pylist(rows)]))

    def batches():
        for batch in given:
            yield from child.parse_isolated(
                [batch.slice(k, 3) for k in range(0, 9, 3)],
                lambda *_: ([], b""),
                ParseRules(Config(), 0.0),
                arrow_schema(PARSED_SCHEMA),
            )

    out = [
        r
        for b in write_tables(
            batches(),
            given,
            {name: lambda w=w: w for name, w in made.items()},
            "r1",
            arrow_schema(WRITTEN_SCHEMA),
        )
        for r in b.to_pylist()
    ]
    counts = {(c["what"], c["reason"]): c["n"] for c in (r["counted"] for r in out) if c}
    assert counts["items", ""] == 9 == counts["pages", ""] + counts.get(
        ("rejected", "parse_crash"), 0
    ) and counts.get(("rejected", "parse_crash"), 0) == len(places)
    assert (
        [r["capture_id"] for r in made["pages"].rows]
        == [r["capture_id"] for r in made["links"].rows]
        == [str(n) for n in range(9) if n not in places]
    )
    best: dict[bytes, int] = {}
    for f in (r["found"] for r in out if r["found"]):
        best[f["url_key"]] = min(f["depth"], best.get(f["url_key"], 9))
    assert best == {
        bytes([k]): min(n % 3 for n in range(max(0, k - 3), min(9, k + 1)) if n not in places)
        for k in range(12)
        if any(n not in places for n in range(max(0, k - 3), min(9, k + 1)))
    }
