"""`crawlkit sql`: forms of the answer, files, and rows that were cut."""

from __future__ import annotations

import csv
import io
import json
import shutil

import pyarrow.parquet as pq
import pytest

from tests.cli.call import call
from tests.reading.conftest import data  # noqa: F401 - a fixture

pytestmark = pytest.mark.waits
URLS = "SELECT url, status FROM captures WHERE round_id = 'r000001' ORDER BY url"


def sql(data, *words):
    return call("sql", *words, "--data", data)


def test_forms(data):
    lines = sql(data, URLS, "--format", "jsonl").out.splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 10 and rows[0] == {"url": "http://127.0.0.9/%C3%A9~x", "status": 200}
    read = list(csv.DictReader(io.StringIO(sql(data, URLS, "--format", "csv").out)))
    assert [(r["url"], int(r["status"])) for r in read] == [(r["url"], r["status"]) for r in rows]
    for json_ in (("--json",), ("--format", "json")):
        assert json.loads(sql(data, URLS, *json_).out) == {"rows": rows}
    table = sql(data, URLS).out.splitlines()
    assert table[0].split() == ["url", "status"] and len(table) == 12
    assert sql(data, f"SELECT * FROM ({URLS}) WHERE FALSE", "--format", "csv").out == "url,status\n"


def test_rows_that_were_cut_are_told(data):
    done = sql(data, URLS, "--limit", 3)
    assert len(done.out.splitlines()) == 5
    assert done.err == "crawlkit: 3 of more rows shown: --limit\n"
    assert sql(data, URLS, "--limit", 10).err == ""
    many = "SELECT * FROM range(1001)"
    assert sql(data, many, "--format", "csv").err == "crawlkit: 1000 of more rows shown: --limit\n"
    assert len(sql(data, many, "--format", "csv").out.splitlines()) == 1001


def test_files_have_all_rows(data, tmp_path):
    many = "SELECT * FROM range(1001) AS t(n)"
    for name, form in (("a.csv", ()), ("a.jsonl", ()), ("a.txt", ("--format", "csv"))):
        done = sql(data, many, "--out", tmp_path / name, *form)
        assert (done.code, done.out) == (0, "") and done.err == (
            f"crawlkit: 1001 rows in {tmp_path / name}\n"
        )
        assert len((tmp_path / name).read_text().splitlines()) in (1001, 1002)
    assert sql(data, many, "--out", tmp_path / "a.parquet", "--limit", 7).code == 0
    assert pq.read_table(tmp_path / "a.parquet").to_pydict() == {"n": list(range(7))}
    assert sql(data, URLS, "--out", tmp_path / "a.json").code == 0
    assert len(json.loads((tmp_path / "a.json").read_text())["rows"]) == 10


def test_bad_input(data, tmp_path):
    for words, said in (
        (("SELEC",), "SQL: "),
        ((URLS, "--format", "parquet"), "give --out FILE"),
        (("SET threads = 2; SELEC",), "SQL: "),
        ((f"SELECT * FROM '{data}/tables/pages/*'",), "SQL: "),
    ):
        done = sql(data, *words)
        assert done.code == 2 and said in done.err and "\n" not in done.err[:-1], words
    done = call("sql", URLS, "--data", tmp_path / "none")
    assert done.code == 2 and "no crawl there" in done.err


def test_a_terminal_is_not_steered_by_a_table(data):
    shown = sql(data, "SELECT 'a' || chr(27) || '[2J' || chr(10) || 'b' AS x").out
    assert shown.splitlines()[2] == "a\\x1b[2J\\nb"


def test_an_unknown_table_is_told_with_those_that_are_there(data):
    done = sql(data, "SELECT * FROM page")
    assert done.code == 2 and "crawldb_log, domain_authority" in done.err and "pages" in done.err


def test_values_of_a_table_are_for_people(data):
    done = sql(data, "SELECT 1.0936346194605786 AS ms, ['a', 'b'] AS names, [] AS none")
    assert done.out.splitlines()[2].split("  ") == ["1.09363", "a, b"]


def test_what_is_no_url_cannot_be_explained(data):
    done = call("explain", "nonsense", "--data", data)
    assert done.code == 2 and "refused: url_invalid" in done.out


def test_a_damaged_file_of_a_table_is_named_as_one(data, tmp_path):
    copy = tmp_path / "site"
    shutil.copytree(data, copy)
    for file in (copy / "tables/captures").rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[:-8] + bytes(8))  # its footer
    for words in (("sql", URLS), ("export", "csv", "captures", "--out", tmp_path / "x.csv")):
        done = call(*words, "--data", copy)
        assert done.code == 2 and "SQL" not in done.err, done.err
        assert done.err.startswith("crawlkit: table captures cannot be read: ")
        assert "restore its folder tables/captures from a copy" in done.err
