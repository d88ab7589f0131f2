"""Sums over a table by DuckDB: the same on a folder and in S3, whatever is in the table."""

from __future__ import annotations

import pytest
from crawlkit.adapters.lake.delta import Tables
from crawlkit.adapters.lake.duckdb_reader import QueryError, aggregate, ask, frontier_counts
from crawlkit.adapters.lake.table_reader import TableError
from crawlkit.observe.sql_views import VIEWS
from crawlkit.tables import TABLES

from tests.servers.s3_server import moto, new_bucket, settings

NOW = 1_790_000_000.25


@pytest.fixture(scope="module")
def endpoint():
    with moto() as url:
        yield url


@pytest.fixture(params=["folder", pytest.param("S3", marks=pytest.mark.waits)])
def tables(request, tmp_path):
    if request.param == "folder":
        return Tables(lambda: None, str(tmp_path / "tables"))
    endpoint = request.getfixturevalue("endpoint")
    return Tables(
        lambda: None, f"s3://{new_bucket(endpoint)}/tables", s3=settings(endpoint), spool=tmp_path
    )


def known(bucket: int, n: int, state: str, next_fetch: float | None) -> dict:
    return {
        "url_key": f"{bucket} {n}".encode(),
        "url": f"http://{bucket}.example/{n}",
        "host_bucket": bucket,
        "state": state,
        "next_fetch": next_fetch,
    }


def test_known_and_due(tables):
    assert frontier_counts(tables, NOW) == ({}, 0)
    tables.replace(
        "crawldb",
        [
            known(0, 0, "queued", NOW),
            known(0, 1, "queued", NOW + 1e-3),
            known(0, 2, "dead", NOW - 1),
            known(3, 0, "refused", NOW - 1),
            known(3, 1, "fetched", NOW - 9e6),
            known(3, 2, "robots_skipped", None),
        ],
    )
    assert frontier_counts(tables, NOW) == (
        {"queued": 2, "dead": 1, "refused": 1, "fetched": 1, "robots_skipped": 1},
        2,
    )
    tables.replace(
        "crawldb", [known(3, 1, "retrying", NOW - 1)], {"host_bucket": [3]}
    )  # the files that it replaced are there still
    assert frontier_counts(tables, NOW) == ({"queued": 2, "dead": 1, "retrying": 1}, 2)


def test_some_partitions(tables):
    for round_id, n in (("r1", 3), ("r2", 5)):
        tables.replace(
            "rejects",
            [
                {"round_id": round_id, "stage": "parse", "item": str(i), "reason": "x"}
                for i in range(n)
            ],
            {"round_id": [round_id], "stage": ["parse"]},
        )
    for part, n in (
        (None, 8),
        ({"round_id": ["r2"]}, 5),
        ({"round_id": ["r1", "r2"]}, 8),
        ({"round_id": ["r3"]}, 0),
        ({"round_id": []}, 0),
    ):
        assert aggregate(
            tables,
            "rejects",
            "SELECT count(*), count(*) FILTER (WHERE reason = ?) FROM t",
            ["x"],
            part,
        ) == [(n, n)], part


def test_a_query_finds_the_tables_and_views_that_it_names(tables):
    tables.replace("crawldb", [known(0, 0, "queued", NOW), known(0, 1, "dead", NOW)])
    assert ask(tables, VIEWS, "SELECT url FROM overdue", 9) == [
        {"url": "http://0.example/0"}
    ]  # by frontier, by crawldb
    assert ask(
        tables,
        VIEWS,
        'WITH x AS (SELECT * FROM "crawldb") SELECT count(*) AS n FROM x, Captures',
        9,
    ) == [{"n": 0}]
    assert {r["name"] for r in ask(tables, VIEWS, "SHOW TABLES", 99)} == {
        *TABLES,
        *VIEWS,
        "frontier",
    }
    with pytest.raises(QueryError, match="nowhere"):
        ask(tables, VIEWS, "SELECT 1 FROM nowhere", 9)


def test_a_damaged_file_is_named(tmp_path):
    tables = Tables(lambda: None, str(tmp_path))
    tables.replace("crawldb", [known(0, 0, "queued", NOW)])
    for file in (tmp_path / "crawldb").rglob("*.parquet"):
        file.write_bytes(b"not Parquet")
    with pytest.raises(
        TableError, match="table crawldb at .* cannot be read: .*restore the folder"
    ):
        frontier_counts(tables, NOW)
