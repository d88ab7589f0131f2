"""Rows of tables, views and queries in each form that a program may ask for."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest
from crawlkit.adapters.lake.duckdb_reader import QueryError
from crawlkit.reading.rows import MissingPackage
from deltalake import DeltaTable

pytestmark = pytest.mark.waits
COLUMNS = ["url", "status", "started", "body_bytes"]


def stored(data, table: str, columns: list[str]) -> list[dict]:
    """The rows as delta-rs reads them, without anything of ours."""
    found = DeltaTable(str(data / "tables" / table)).to_pyarrow_table(columns=columns)
    return sorted(found.to_pylist(), key=str)


def test_each_form_has_the_rows_of_the_table(crawl, data):
    right = stored(data, "captures", COLUMNS)
    rows = crawl.captures(COLUMNS)
    assert len(right) == 12 == rows.count()
    assert rows.columns == COLUMNS
    assert sorted(rows, key=str) == right
    assert sorted(rows.arrow().to_pylist(), key=str) == right
    assert sorted(rows.polars().to_dicts(), key=str) == right
    assert sorted(b.num_rows for b in rows.batches(5)) == [2, 5, 5]
    frame = rows.pandas()
    assert list(frame.columns) == COLUMNS and str(frame["started"].dt.tz) == "UTC"
    assert sorted(frame["url"]) == sorted(r["url"] for r in right)
    relation = rows.duckdb()
    del rows
    assert relation.filter("status = 404").project("url").fetchall() == [("http://site.test/none",)]


def test_what_is_asked_for(crawl):
    one = crawl.pages(["title", "url"], where="url LIKE '%/b?%' -- by name", limit=5)
    assert list(one) == [{"title": "Moorings é", "url": "http://www.site.test/b?z=1&a=2"}]
    assert crawl.links(["anchor"], limit=0).arrow() == pa.table({"anchor": pa.array([], "string")})
    assert crawl.query("SELECT state, count(*) AS n FROM frontier GROUP BY 1 -- all").arrow() == (
        pa.table({"state": ["fetched"], "n": pa.array([10], "int64")})
    )
    assert crawl.table("pages", ['a"; DROP TABLE x; --'], limit=1).sql.startswith('SELECT "a""; D')


def test_names_and_statements_that_are_none(crawl, data, tmp_path):
    (tmp_path / "secret.csv").write_text("a\n1\n")
    wrong = {
        "SELECT * FROM nothing": "nothing does not exist",
        "SELEC": "syntax error",
        f"SELECT * FROM '{tmp_path}/secret.csv'": "disabled",
        f"COPY pages TO '{tmp_path}/out.csv'": "disabled",
        "SELECT * FROM data": "data does not exist",  # a variable of Python is no table
        "SELECT CAST(url AS INT) FROM pages": "Could not convert",
    }
    for sql, words in wrong.items():
        with pytest.raises(QueryError, match=words):
            crawl.query(sql).arrow()
    assert not (tmp_path / "out.csv").exists()


def test_a_package_that_is_missing_is_named_with_its_extra(crawl, monkeypatch):
    for package, extra in (("polars", "polars"), ("pandas", "pandas"), ("pyspark", "spark")):
        monkeypatch.setitem(sys.modules, package, None)
        form = "spark" if package == "pyspark" else package
        with pytest.raises(MissingPackage, match=rf"{package} .*pip install 'crawlkit\[{extra}\]'"):
            getattr(crawl.pages(), form)()


def test_the_first_rows_as_text(crawl):
    shown = repr(crawl.query("SELECT 'a' || chr(27) || '[2Jb' AS x, NULL AS y, repeat('é', 99) z"))
    assert shown.splitlines()[2] == f"a\\x1b[2Jb     {'é' * 57}..."
    assert repr(crawl.query("SELECT 1 AS a WHERE FALSE")).splitlines() == ["a", "-"]
    many = repr(crawl.query("SELECT * FROM range(50) AS t(n)")).splitlines()
    assert len(many) == 23 and many[-1] == "..."
