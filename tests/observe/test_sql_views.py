"""Every query of docs/queries.md in Spark and in DuckDB, over a whole crawl whose right answer is
known.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from crawlkit.adapters.lake.duckdb_reader import QueryError, ask
from crawlkit.config import ConfigError
from crawlkit.exports.cc_index import cc_table
from crawlkit.exports.source import Source
from crawlkit.observe.sql_views import register_views
from crawlkit.observe.views import VIEWS
from crawlkit.round.job import Job

from tests.cli.call import call
from tests.engines import run_on

pytestmark = [pytest.mark.spark, pytest.mark.rounds]
on = run_on("local")
TEXT = (Path(__file__).parents[2] / "docs" / "queries.md").read_text("utf-8")
QUERIES = dict(
    zip(
        re.findall(r"^## (\d+)", TEXT, re.MULTILINE),
        re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL),
        strict=True,
    )
)
NOW_MATTERS = {"7", "26"}  # they count what is due at this moment


def plain(value):
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, bytearray):
        return bytes(value)
    return (
        sorted(value)
        if isinstance(value, list)
        else round(value, 9)
        if isinstance(value, float)
        else value
    )


@pytest.fixture(scope="module")
def asked(known_crawl, spark):
    """ask(number) -> rows by Spark and by DuckDB; and the right answer."""
    web, job, log, answer = known_crawl
    register_views(Job(job.crawl, quick=True, spark=spark))
    url = next(
        u
        for u, r in answer.rows.items()
        if r.state == "fetched" and any(u in c for c in answer.clusters)
    )

    def both(n: str) -> tuple[list[dict], list[dict]]:
        sql = QUERIES[n].replace("{url}", url).replace("{host}", url.split("/")[2].split(":")[0])
        made = {"cc_index": lambda: cc_table(Source(job.crawl.data, job.cfg))}
        there = ask(job.tables, VIEWS, sql, 100_000, made)
        here = [r.asDict() for r in spark.sql(sql).collect()]
        return tuple([{k: plain(v) for k, v in r.items()} for r in rows] for rows in (here, there))

    return both, answer, 1000 * job.cfg.politeness.delay_s


def test_there_are_enough():
    assert len(QUERIES) >= 25 and list(QUERIES) == [str(n + 1) for n in range(len(QUERIES))]


@pytest.mark.parametrize("n", QUERIES)
def test_two_engines_agree(asked, n):
    here, there = asked[0](n)
    if n in NOW_MATTERS:
        assert len(here) == len(there) > 0
    else:
        assert here == there
    assert here or n in (
        "11",
        "18",
        "21",
        "23",
        "30",
        "31",
    ), "no rows: the crawl does not show what the query is for"


def test_the_answers_are_right(asked):
    both, answer, delay_ms = asked

    def rows(n: str) -> list[dict]:
        return both(n)[0]

    known = answer.rows
    assert {r["depth"]: r["urls"] for r in rows("19")} == Counter(r.depth for r in known.values())
    assert max(r["members"] for r in rows("27")) == max(map(len, answer.clusters))
    fetched = {u for u, r in known.items() if r.state == "fetched"}
    assert {r["url"] for r in rows("23")} <= fetched
    assert all(r["least_gap_ms"] >= delay_ms - 1 for r in rows("25"))  # both ends are cut to the ms
    assert {r["url"] for r in rows("17") if r["noindex"]} <= {
        u for u, r in known.items() if not r.has_text
    }
    assert sum(r["pages"] for r in rows("14")) >= len(fetched)


def test_a_query_reads_the_crawl_and_nothing_else(known_crawl, tmp_path):
    tables = known_crawl[1].tables
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for sql in (
        f"SELECT * FROM '{tmp_path}/secret.csv'",
        f"COPY crawldb TO '{tmp_path}/out.csv'",
        "SELECT * FROM nothing",
        "SELECT * FROM cc_index",
        "SELEC",
    ):
        with pytest.raises(QueryError):
            ask(tables, VIEWS, sql, 10)
    assert not (tmp_path / "out.csv").exists()
    assert len(ask(tables, VIEWS, "SELECT url FROM crawldb", 3)) == 3


def test_the_verb_asks_duckdb_unless_spark_is_asked_for(known_crawl, monkeypatch):
    asked = []

    def stream_spark(*_):
        asked.append("spark")
        return [pa.RecordBatch.from_pylist([{"n": 1}])]

    monkeypatch.setattr("crawlkit.cli.verbs.sql.stream_spark", stream_spark)
    sql = "SELECT subset, count(*) AS n FROM cc_index GROUP BY 1 ORDER BY 1"
    given = ("sql", sql, "--data", known_crawl[1].crawl.data, "--json")
    for more in ((), ("--engine", "local"), ("--engine", "duckdb"), ("--set", "engine.name=spark")):
        done = call(*given, *more)
        assert done.code == 0 and '{"rows": [{"subset": "crawldiagnostics", "n": ' in done.out
    assert not asked
    assert call(*given, "--engine", "spark").code == 0
    assert asked == ["spark"]


def test_spark_is_asked_and_writes_nothing(known_crawl, spark):
    from crawlkit.cli.verbs.sql import only_reads
    from pyspark.errors import ParseException

    job = known_crawl[1]
    place = f"delta.`{job.crawl.tables_root}/pages`"
    for sql in (
        "SELECT 1",
        "  -- why\n with x AS (SELECT 1 AS a) SELECT a FROM x ORDER BY a LIMIT 1 -- end",
        "VALUES (1), (2)",
        "(SELECT 1) UNION (SELECT 2)",
        "FROM pages SELECT url",
        "TABLE pages",
        "SHOW TABLES",
        "describe pages",
        "EXPLAIN SELECT 1",
        "SELECT ')' AS a",
    ):
        assert only_reads(spark, sql), sql
    for sql in (
        f"DELETE FROM {place}",
        f"/* SELECT */ DELETE FROM {place}",
        f"INSERT INTO {place} SELECT * FROM pages",
        f"UPDATE {place} SET url = ''",
        f"WITH x AS (SELECT 1) INSERT INTO {place} SELECT * FROM x",
        f"FROM pages INSERT INTO {place} SELECT *",
        f"DROP TABLE {place}",
        f"VACUUM {place} RETAIN 0 HOURS",
        f"OPTIMIZE {place}",
        "CREATE TABLE t (a INT)",
        "SET a = b",
        "CACHE TABLE pages",
    ):
        assert not only_reads(spark, sql), sql
    for sql in (
        "SELEC",
        "",
        "SELECT 1; SELECT 2",
        "SELECT 1) x CROSS JOIN (SELECT 2",
        "SELECT 1) -- ",
    ):
        with pytest.raises(ParseException, match="PARSE_"):
            only_reads(spark, sql)


def test_two_rounds_side_by_side(known_crawl):
    from crawlkit.observe.diff import FIGURES, diff, render

    job = known_crawl[1]
    first, last = job.crawl.round_ids()[0], job.crawl.round_ids()[-1]
    rows = diff(job.crawl, first, last)
    assert {r["group"] for r in rows} >= set(FIGURES) - {"rejects"}
    by = {(r["group"], r["name"]): r for r in rows}
    for column, round_id in (("before", first), ("after", last)):
        planned = job.read("fetchlist").where(f"round_id = '{round_id}'").count()
        assert (
            by["totals", "planned"][column]
            == planned
            == sum(r[column] for r in rows if r["group"] == "outcomes")
        )
        assert (
            sum(r[column] for r in rows if r["group"] == "links")
            == job.read("links").where(f"round_id = '{round_id}'").count()
        )
        free = job.read("links").where(f"round_id = '{round_id}' AND refused IS NULL").count()
        assert free and by["links", "links that may be crawled"][column] == free
    assert not [name for _, name in by if name.endswith(": ")]
    assert all(r["change"] == r["after"] - r["before"] for r in rows)
    page = render(
        "a<b",
        first,
        last,
        [
            *rows,
            {"group": "status", "name": "<script>", "before": 0.0, "after": 1.0, "change": 1.0},
        ],
    )
    assert "<script>" not in page and "a&lt;b" in page
    with pytest.raises(ConfigError, match="no round r9: there are"):
        diff(job.crawl, first, "r9")
