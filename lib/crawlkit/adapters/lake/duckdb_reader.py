"""A crawl's tables and views in DuckDB: queries in a second, without a JVM.

Functions of Spark's SQL that DuckDB has under other names are macros here, so that the views and
docs/queries.md are one text for both.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import duckdb
import pyarrow as pa

from crawlkit.adapters.lake.delta import Tables
from crawlkit.adapters.lake.table_reader import Part, TableError
from crawlkit.engine.local_engine import prepare
from crawlkit.tables import TABLES

_NONE: Mapping[str, Callable[[], pa.Table]] = MappingProxyType({})


class QueryError(ValueError):
    """A statement that DuckDB does not run; the message is its own."""

    exit_code = 2


def ask(
    tables: Tables,
    views: Mapping[str, str],
    query: str,
    limit: int,
    made: Mapping[str, Callable[[], pa.Table]] = _NONE,
) -> list[dict[str, Any]]:
    """At most `limit` rows of a SELECT over the tables, `views` (name -> SELECT) and tables that
    are `made` when a query names them; times are UTC, as Spark gives them.

    Raises QueryError, TableError.
    """
    rows: list[dict[str, Any]] = []
    with connect(tables, views, query, made) as db:
        lock(db)
        for batch in stream(db, query, max(1, min(limit, 10_000))):
            rows += batch.slice(0, limit - len(rows)).to_pylist()
            if len(rows) >= limit:
                break
    return [
        {
            name: v.replace(tzinfo=None) if isinstance(v, datetime.datetime) else v
            for name, v in r.items()
        }
        for r in rows
    ]


def connect(
    tables: Tables,
    views: Mapping[str, str],
    query: str,
    made: Mapping[str, Callable[[], pa.Table]] = _NONE,
) -> duckdb.DuckDBPyConnection:
    """A connection that has the tables and views which a query names, as they are now.

    `frontier` is `crawldb`, which is whole after each round while the table is small. Raises
    TableError.
    """
    # a name in a query is a table's, never that of a variable of Python
    db = duckdb.connect(":memory:", config={"python_enable_replacements": False})
    try:
        prepare(db)
        views = {"frontier": "SELECT * FROM crawldb", **views}
        # of a query that names none (SHOW TABLES): all
        used = _tables_of(query, views) or _tables_of(" ".join([*TABLES, *views]), views)
        for name in TABLES:
            if name in used:  # to open one in S3 costs several calls
                db.register(name, tables.dataset(name))
        for name, make in made.items():
            if re.search(rf"\b{name}\b", query, re.IGNORECASE):
                db.register(name, make())
        for name, sql in used.items():
            if sql:
                db.execute(f"CREATE VIEW {name} AS {sql}")
    except BaseException:
        db.close()
        raise
    return db


def lock(db: duckdb.DuckDBPyConnection) -> None:
    """From here on a query reads the crawl's tables and no other file, and writes none."""
    db.execute("SET enable_external_access = false")


def find(db: duckdb.DuckDBPyConnection, query: str) -> duckdb.DuckDBPyRelation:
    """The relation of a SELECT. Raises QueryError, TableError."""
    try:
        found = db.sql(query)
    except duckdb.Error as e:
        raise _refusal(e) from None
    if found is None:
        raise QueryError("it returns no rows: give a SELECT")
    return found


def stream(
    db: duckdb.DuckDBPyConnection, query: str, batch_rows: int = 10_000
) -> Iterator[pa.RecordBatch]:
    """The rows of a SELECT in batches, at least one (which tells the columns).

    Raises QueryError, TableError.
    """
    found = find(db, query)
    try:
        reader, is_empty = found.to_arrow_reader(batch_rows), True
        for batch in reader:
            is_empty = False
            yield batch
        if is_empty:
            yield pa.RecordBatch.from_pylist([], reader.schema)
    except duckdb.Error as e:
        raise _refusal(e) from None


# how DuckDB says that Arrow could not read the files of a table
_UNREAD = re.compile(
    r"reading the stream registered as '(\w+)' failed: (?:Invalid: |IOError: )?(.*)"
)


def _refusal(e: duckdb.Error) -> QueryError | TableError:
    """Of the query, or of a table whose files are damaged."""
    text = (str(e).splitlines() or [type(e).__name__])[0]
    if (m := _UNREAD.search(text)) is None:
        return QueryError(text)
    return TableError(
        f"table {m[1]} cannot be read: {m[2]:.300}; restore its folder tables/{m[1]} from a copy"
    )


def _tables_of(query: str, views: Mapping[str, str]) -> dict[str, str]:
    """The tables ("") and views (SELECT) that a query names or may name, each after those that it
    names itself.
    """
    found: dict[str, str] = {}
    for name in re.findall(r"\w+", query.lower()):
        if name in views and name not in found:
            found |= {n: s for n, s in _tables_of(views[name], views).items() if n not in found} | {
                name: views[name]
            }
        elif name in TABLES:
            found.setdefault(name, "")
    return found


def aggregate(
    tables: Tables, name: str, query: str, values: Sequence[Any] = (), part: Part | None = None
) -> list[tuple[Any, ...]]:
    """Rows of a SELECT over a table, or some partitions of it.

    query: names the table `t`; values: of its `?`. Only the columns that it names are read, and
    what it adds up never is in memory as a whole. Not for columns that a later version added, nor
    for partition columns. Raises TableError, StoreUnavailable.
    """
    files = tables.local_files(name, part)
    try:
        with duckdb.connect(":memory:") as db:
            db.execute("SET TimeZone = 'UTC'")
            if files:
                db.read_parquet(files, hive_partitioning=False).create_view("t")
            else:
                db.register("t", tables.dataset(name, part))
            return db.execute(query, list(values)).fetchall()
    except duckdb.Error as e:
        raise tables.unreadable(name, e) from None


def frontier_counts(tables: Tables, now: float) -> tuple[dict[str, int], int]:
    """Known URLs by state, and how many are due at `now` (Unix s).

    Raises TableError, StoreUnavailable.
    """
    rows = aggregate(
        tables,
        "crawldb",
        "SELECT state, count(*), count(*) FILTER (WHERE next_fetch <= make_timestamptz(?) AND state"
        " NOT IN ('dead', 'refused')) FROM t GROUP BY state",
        [round(now * 1e6)],
    )
    return {state: n for state, n, _ in rows}, sum(due for _, _, due in rows)
