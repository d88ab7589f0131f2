"""Rows as CSV, JSON Lines and Parquet: what other readers make of the files."""

from __future__ import annotations

import csv
import datetime
import json
import math
import os
import threading
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crawlkit.exports.row_files import Limited, csv_line, plain, write_rows
from deltalake import DeltaTable

from tests.cli.call import call

pytestmark = pytest.mark.waits
AT = datetime.datetime(2024, 4, 1, 12, 0, 0, 500_000, datetime.UTC)
HOSTILE = ["", None, "a,b", 'say "x"', "line\nline\r", "\r", "=1+1", "é\u2028\x00", " x ", "null"]


def table() -> pa.Table:
    n = range(len(HOSTILE))
    return pa.table(
        {
            "text": HOSTILE,
            "n": pa.array([2**60 + i for i in n], "int64"),
            "at": pa.array([AT] * len(n), pa.timestamp("us", "UTC")),
            "key": [b"\x00\xff"] * len(n),
            "names": [["a", 'b"c', None]] * len(n),
            "ok": [True] * len(n),
        }
    )


def test_csv(tmp_path):
    assert write_rows(table().to_batches(3), "csv", tmp_path / "x.csv") == len(HOSTILE)
    raw = (tmp_path / "x.csv").read_bytes()
    assert raw.startswith(b'text,n,at,key,names,ok\n"",1152921504606846976,2024-04-01T12:00:00.500')
    with (tmp_path / "x.csv").open(encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f))
    assert [r["text"] for r in rows] == [h or "" for h in HOSTILE]
    assert [int(r["n"]) for r in rows] == [2**60 + i for i in range(len(HOSTILE))]
    assert {r["at"] for r in rows} == {"2024-04-01T12:00:00.500000Z"}
    assert {(r["key"], r["ok"]) for r in rows} == {("00ff", "true")}
    assert {r["names"] for r in rows} == {'["a", "b\\"c", null]'}


def test_duckdb_tells_null_and_an_empty_text_apart(tmp_path):
    write_rows(table().select(["text", "n"]).slice(0, 4).to_batches(), "csv", tmp_path / "x.csv")
    sql = f"SELECT text FROM read_csv('{tmp_path}/x.csv', allow_quoted_nulls=false)"
    with duckdb.connect() as db:  # of its own: another test may have left a result in the default
        assert [r[0] for r in db.execute(sql).fetchall()] == HOSTILE[:4]


def test_json_lines(tmp_path):
    write_rows(table().to_batches(4), "jsonl", tmp_path / "x.jsonl")
    rows = [
        json.loads(line) for line in (tmp_path / "x.jsonl").open(encoding="utf-8", newline="\n")
    ]
    assert [r["text"] for r in rows] == HOSTILE
    assert rows[0] == {
        "text": "",
        "n": 2**60,
        "at": "2024-04-01T12:00:00.500000Z",
        "key": "00ff",
        "names": ["a", 'b"c', None],
        "ok": True,
    }


def test_parquet(tmp_path):
    write_rows(table().to_batches(4), "parquet", tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet") == table()


def test_values():
    for value, shown in (
        (math.nan, None),
        (-math.inf, None),
        (Decimal(7), 7),
        (Decimal("1.50"), 1.5),
        (datetime.date(2020, 1, 2), "2020-01-02"),
        ([("k", b"\x01")], [["k", "01"]]),
        ({"a": Decimal("1E+2")}, {"a": 100}),
        (datetime.timedelta(days=1), "1 day, 0:00:00"),
    ):
        assert plain(value) == shown
    assert csv_line([None]) == '""\n' and csv_line([None, ""]) == ',""\n'


def test_columns_of_one_name(tmp_path):
    batch = pa.RecordBatch.from_arrays([pa.array([i]) for i in range(4)], ["a", "a", "a_2", "a"])
    write_rows([batch], "jsonl", tmp_path / "x")
    assert json.loads((tmp_path / "x").read_text()) == {"a": 0, "a_3": 1, "a_2": 2, "a_4": 3}


@pytest.mark.parametrize(("limit", "rows", "more"), [(None, 10, False), (4, 4, True)])
def test_limits(limit, rows, more):
    found = Limited(table().to_batches(4), limit)
    assert sum(b.num_rows for b in found) == found.rows == rows and found.more is more
    exact = Limited(table().to_batches(4), 10)
    assert sum(b.num_rows for b in exact) == 10 and not exact.more
    edge = Limited(table().to_batches(5), 5)  # the limit falls between two batches
    assert [b.num_rows for b in edge] == [5, 0] and edge.more


def test_the_verb_writes_the_table(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    right = DeltaTable(str(data / "tables/links")).to_pyarrow_table().to_pylist()
    done = call("export", "jsonl", "links", "--data", data, "--out", "links.jsonl")
    assert json.loads(done.out) == {"file": "links.jsonl", "rows": len(right)}
    rows = [json.loads(line) for line in open("links.jsonl")]
    assert sorted(r["to_url"] for r in rows) == sorted(r["to_url"] for r in right)
    assert {r["from_key"] for r in rows} == {r["from_key"].hex() for r in right}
    asked = ("--query", "SELECT url FROM captures WHERE status = 404")
    assert call("export", "csv", *asked, "--data", data, "--out", "x.csv").code == 0
    assert (tmp_path / "x.csv").read_text() == "url\nhttp://site.test/none\n"
    for wrong, words in (
        ((), "name of a table"),
        (("pages", *asked), "name of a table"),
        (("pagez",), "no table 'pagez'"),
        (("--query", "SELEC"), "SQL: "),
        (("--query", f"COPY pages TO '{tmp_path}/y'"), "SQL: "),
    ):
        done = call("export", "csv", *wrong, "--data", data, "--out", "y.csv")
        assert done.code == 2 and words in done.err, wrong
    assert sorted(p.name for p in tmp_path.iterdir()) == ["links.jsonl", "x.csv"]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_pipe_is_written_to_and_not_replaced(tmp_path, form):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_rows(table().to_batches(4), form, pipe)
    reader.join(20)
    write_rows(table().to_batches(4), form, tmp_path / "file")
    assert pipe.is_fifo()
    assert read == [(tmp_path / "file").read_bytes()]


def test_an_export_is_no_file_named_minus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call("export", "csv", "pages", "--out", "-")
    assert (done.code, list(tmp_path.iterdir())) == (2, [])
    assert "standard output" in done.err
