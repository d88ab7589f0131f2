"""The Delta commits: partitions replaced, statistics that never exclude a row, nothing visible
before the commit.
"""

import datetime
import json

import pyarrow as pa
import pyarrow.parquet
import pytest
from crawlkit.adapters.lake import parquet as delta_files
from crawlkit.adapters.lake.delta import Tables
from crawlkit.adapters.lake.table_reader import TableError
from crawlkit.engine.spark_engine import SparkEngine
from crawlkit.tables import TABLES, Table
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, strategies as st

from tests.examples import examples
from tests.frames import collect


def tables(root) -> Tables:
    return Tables(lambda: pytest.fail("no session is wanted"), str(root))


def reject(round_id: str, stage: str, n: int, **more) -> dict:
    return {
        "round_id": round_id,
        "stage": stage,
        "n": n,
        "item": f"item {n}",
        "reason": "scheme",
        **more,
    }


def seen(root, name: str) -> list[dict]:
    return DeltaTable(str(root / name)).to_pyarrow_table().to_pylist()


def test_a_write_replaces_its_own_partitions_only(tmp_path):
    t = tables(tmp_path)
    t.replace(
        "rejects",
        [reject("r1", "parse", 1), reject("r1", "parse", 2)],
        {"round_id": ["r1"], "stage": ["parse"]},
    )
    t.replace("rejects", [reject("r1", "inject", 3)], {"round_id": ["r1"], "stage": ["inject"]})
    for _ in range(2):  # a repeat changes nothing
        t.replace("rejects", [reject("r1", "parse", 4)], {"round_id": ["r1"], "stage": ["parse"]})
        assert sorted((r["stage"], r["n"]) for r in seen(tmp_path, "rejects")) == [
            ("inject", 3),
            ("parse", 4),
        ]
    t.replace("rejects", [], {"round_id": ["r1"], "stage": ["parse"]})
    assert [r["n"] for r in seen(tmp_path, "rejects")] == [3]
    assert t.count("rejects") == 1 and t.count("rejects", {"stage": ["parse"]}) == 0
    t.replace("rejects", [])
    assert seen(tmp_path, "rejects") == [] and t.bytes("rejects") == 0


def test_many_partitions_in_one_write(tmp_path):
    t = tables(tmp_path)
    rows = [{"host": f"h{n}.example", "host_bucket": n % 5, "updated_no": n} for n in range(50)]
    t.replace("hostdb", rows, {"host_bucket": range(5)})
    t.replace(
        "hostdb",
        [r | {"updated_no": 99} for r in rows if r["host_bucket"] in (1, 3)],
        {"host_bucket": [1, 3]},
    )
    got = {r["host"]: r["updated_no"] for r in seen(tmp_path, "hostdb")}
    assert got == {r["host"]: 99 if r["host_bucket"] in (1, 3) else r["updated_no"] for r in rows}
    assert len(DeltaTable(str(tmp_path / "hostdb")).file_uris()) == 5
    assert {r["host"] for r in t.rows("hostdb", ["host"], {"host_bucket": [2]})} == {
        r["host"] for r in rows if r["host_bucket"] == 2
    }


def write_log(t, *rounds):
    """As many rows for each round as its number."""
    for no in rounds:
        t.replace(
            "crawldb_log",
            [
                {
                    "url_key": bytes([k]),
                    "host_bucket": 0,
                    "updated_no": no,
                    "round_id": f"r{no}",
                    "writer": "parse",
                }
                for k in range(no)
            ],
            {"round_id": [f"r{no}"], "writer": ["parse"]},
        )


def test_files_without_a_row_above_a_value_are_not_counted(tmp_path):
    t = tables(tmp_path)
    write_log(t, 3, 5, 8)
    assert [t.count("crawldb_log", above=("updated_no", n)) for n in (2, 3, 4, 5, 7, 8)] == [
        16,
        13,
        13,
        8,
        8,
        0,
    ]
    assert t.count("crawldb_log", {"round_id": ["r5"]}, ("updated_no", 3)) == 5
    assert t.count("crawldb_log", above=("no_such_column", 1)) == 16


def test_a_table_whose_files_kept_other_statistics_is_read_whole_until_its_files_are_new(
    tmp_path, monkeypatch
):
    t = tables(tmp_path)
    with monkeypatch.context() as before:
        before.setattr(Table, "stats", ["url", "host"])
        write_log(t, 3, 5)
    assert t.count("crawldb_log", above=("updated_no", 4)) == 8
    write_log(t, 8)
    assert [t.count("crawldb_log", above=("updated_no", n)) for n in (4, 8)] == [16, 8]
    write_log(t, 3, 5)
    assert [t.count("crawldb_log", above=("updated_no", n)) for n in (2, 4, 8)] == [16, 13, 0]


def test_rows_of_another_partition_are_refused_before_the_commit(tmp_path):
    t = tables(tmp_path)
    t.replace("hostdb", [{"host": "a.example", "host_bucket": 1}], {"host_bucket": [1, 2]})
    with pytest.raises(TableError, match="nothing was committed"):
        t.replace("hostdb", [{"host": "b.example", "host_bucket": 3}], {"host_bucket": [1, 2]})
    assert [r["host"] for r in seen(tmp_path, "hostdb")] == ["a.example"]


def test_rows_of_another_partition_than_the_only_one_are_refused_too(tmp_path):
    t = tables(tmp_path)
    t.replace("hostdb", [{"host": "a.example", "host_bucket": 1}], {"host_bucket": [1]})
    with pytest.raises(TableError, match="nothing was committed"):
        t.replace(
            "hostdb",
            [{"host": "a.example", "host_bucket": 1}, {"host": "b.example", "host_bucket": 2}],
            {"host_bucket": [1]},
        )
    assert [(r["host"], r["host_bucket"]) for r in seen(tmp_path, "hostdb")] == [("a.example", 1)]


def test_the_guard_is_asked_before_each_commit_and_stops_it(tmp_path):
    class Lost(Exception):
        pass

    def lost():
        raise Lost

    tables(tmp_path).replace("rejects", [reject("r1", "parse", 1)])
    t = Tables(lambda: pytest.fail("no session"), str(tmp_path), lost)
    for rows in ([reject("r1", "parse", 2)], []):
        with pytest.raises(Lost):
            t.replace("rejects", rows)
    assert [r["n"] for r in seen(tmp_path, "rejects")] == [1]


def test_a_commit_that_another_writer_overtakes_fails(tmp_path, monkeypatch):
    t = tables(tmp_path)
    t.replace("rejects", [reject("r1", "parse", 1)])
    stale = DeltaTable(str(tmp_path / "rejects"))
    tables(tmp_path).replace("rejects", [reject("r1", "parse", 2)])
    monkeypatch.setattr(t, "_log", lambda name: stale)
    with pytest.raises(TableError, match="at the same time"):
        t.replace("rejects", [reject("r1", "parse", 3)])
    assert [r["n"] for r in seen(tmp_path, "rejects")] == [2]


def test_comments_and_settings_are_in_the_log(tmp_path):
    tables(tmp_path).replace("rejects", [reject("r1", "parse", 1)])
    log = DeltaTable(str(tmp_path / "rejects"))
    assert {f.name: f.metadata["comment"] for f in log.schema().fields} == {
        c.name: c.comment for c in TABLES["rejects"].columns
    }
    assert log.metadata().partition_columns == ["round_id", "stage"]
    assert (log.protocol().min_reader_version, log.protocol().min_writer_version) <= (
        1,
        2,
    )  # other engines read it


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@examples(60)
@given(
    st.lists(st.none() | text, min_size=1, max_size=8),
    st.lists(
        st.none() | st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2100, 1, 1)),
        min_size=1,
        max_size=8,
    ),
)
def test_statistics_bound_every_value(tmp_path_factory, urls, times):
    t = TABLES["crawldb"]
    n = max(len(urls), len(times))
    urls, times = (
        urls + [None] * (n - len(urls)),
        [x and x.replace(tzinfo=datetime.UTC) for x in times] + [None] * (n - len(times)),
    )
    path = tmp_path_factory.mktemp("s") / "x.parquet"
    columns = {
        c.name: pa.nulls(n, delta_files.ARROW[c.type]) for c in t.columns if c.name != "host_bucket"
    }
    pa.parquet.write_table(
        pa.table(
            columns
            | {
                "capture_id": pa.array(urls, pa.string()),
                "next_fetch": pa.array(times, pa.timestamp("us", "UTC")),
            }
        ),
        path,
    )
    stats = json.loads(json.dumps(delta_files.statistics(t, pa.parquet.read_metadata(path))))
    assert (
        stats["numRecords"] == n
        and stats["nullCount"]["capture_id"] == urls.count(None)
        and stats["nullCount"]["next_fetch"] == times.count(None)
    )
    for u in filter(lambda u: u is not None, urls):
        assert stats["minValues"].get("capture_id", "").encode() <= u.encode()
        assert u.encode() <= stats["maxValues"].get("capture_id", "\U0010ffff" * 99).encode()
    for x in filter(None, times):
        assert (
            datetime.datetime.fromisoformat(stats["minValues"]["next_fetch"])
            <= x
            <= datetime.datetime.fromisoformat(stats["maxValues"]["next_fetch"])
        )


def earlier(monkeypatch, name: str, *without: str) -> None:
    """The table as a version of the program knew it that had not these columns."""
    monkeypatch.setitem(
        TABLES,
        name,
        TABLES[name]._replace(
            columns=tuple(c for c in TABLES[name].columns if c.name not in without)
        ),
    )


def test_a_table_of_an_earlier_version_is_read_and_widened(tmp_path, monkeypatch):
    t = tables(tmp_path)
    with monkeypatch.context() as before:
        earlier(before, "rejects", "detail", "item")
        t.replace("rejects", [reject("r1", "parse", 1), reject("r2", "parse", 2)])
    read = t.rows("rejects", ["n", "item", "reason", "detail"])
    assert sorted((r["n"], r["item"], r["reason"], r["detail"]) for r in read) == [
        (1, None, "scheme", None),
        (2, None, "scheme", None),
    ]
    assert (
        "detail" not in DeltaTable(str(tmp_path / "rejects")).to_pyarrow_table().column_names
    )  # a look changes nothing
    t.replace("rejects", [reject("r2", "parse", 3, detail="seen")], {"round_id": ["r2"]})
    assert sorted((r["n"], r["item"], r["detail"]) for r in seen(tmp_path, "rejects")) == [
        (1, None, None),
        (3, "item 3", "seen"),
    ]
    version = DeltaTable(str(tmp_path / "rejects")).version()
    t.replace("rejects", [reject("r2", "parse", 4)], {"round_id": ["r2"]})
    assert DeltaTable(str(tmp_path / "rejects")).version() == version + 1  # widened once
    t.compact("rejects", 0)
    assert sorted(r["n"] for r in t.rows("rejects", ["n"])) == [1, 4]


def test_a_table_without_our_keys_is_refused(tmp_path):
    write_deltalake(str(tmp_path / "rejects"), pa.table({"other": [1]}))
    with pytest.raises(TableError, match="has no column round_id, stage"):
        tables(tmp_path).rows("rejects", ["n"])


@pytest.mark.spark
@pytest.mark.parametrize("direct", [True, False])
def test_spark_reads_a_table_of_an_earlier_version(tmp_path, monkeypatch, spark, direct):
    t = Tables(lambda: SparkEngine(spark), str(tmp_path))
    with monkeypatch.context() as before:
        earlier(before, "rejects", "detail")
        t.replace("rejects", [reject("r1", "parse", 1), reject("r2", "parse", 2)])
    if not direct:
        monkeypatch.setattr("crawlkit.adapters.lake.delta.DIRECT_FILES", 0)
    frame = t.read("rejects", {"round_id": ["r2"]})
    assert [(r.n, r.detail) for r in collect(frame)] == [(2, None)]
    assert sorted(frame.columns) == sorted(TABLES["rejects"].column_names)
