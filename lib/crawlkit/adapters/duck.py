"""A crawl's tables and views in DuckDB: answers in a second, without a JVM.

Functions of Spark's SQL that DuckDB has under other names are macros here, so that the views and docs/queries.md are one
text for both.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

import duckdb

from crawlkit.adapters.delta import Tables
from crawlkit.tables import TABLES

MACROS = ("unix_millis(t) AS epoch_us(t) // 1000", "unix_timestamp(t) AS CAST(floor(epoch(t)) AS BIGINT)", "collect_list(x) AS list(x)", "size(x) AS len(x)")


class QueryError(ValueError):
    """A statement that DuckDB does not run; the message is its own."""


def ask(tables: Tables, views: Mapping[str, str], query: str, limit: int) -> list[dict[str, Any]]:
    """At most `limit` rows of a SELECT over the tables and `views` (name -> SELECT). Raises QueryError, TableError.

    `frontier` is `crawldb`, which is whole after each round while the table is small; `cc_index` is not here.
    """
    if re.search(r"\bcc_index\b", query):
        raise QueryError("cc_index is made by Spark: leave --engine out, or write it as a table by `crawlkit export cc-index`")
    with duckdb.connect(":memory:") as db:
        db.execute("SET TimeZone = 'UTC'")
        for macro in MACROS:
            db.execute(f"CREATE MACRO {macro}")
        for name in TABLES:
            db.register(name, tables.dataset(name))
        db.execute("CREATE VIEW frontier AS SELECT * FROM crawldb")
        for name, sql in views.items():
            db.execute(f"CREATE VIEW {name} AS {sql}")
        db.execute("SET enable_external_access = false")  # a query reads the crawl's tables and no other file
        try:
            rows: list[dict[str, Any]] = []
            found = db.sql(query)
            if found is None:
                raise QueryError("it returns no rows: give a SELECT")
            for batch in found.to_arrow_reader(max(1, min(limit, 10_000))):
                rows += batch.slice(0, limit - len(rows)).to_pylist()
                if len(rows) >= limit:
                    break
            return [{name: v.replace(tzinfo=None) if isinstance(v, datetime.datetime) else v for name, v in r.items()} for r in rows]  # UTC, as Spark gives them
        except duckdb.Error as e:
            raise QueryError(str(e).splitlines()[0]) from None
