"""Tables in S3 without Spark: commits done once whatever is lost on the way, writers that meet,
errors that name the fix.
"""

from __future__ import annotations

import os
import threading
from collections import Counter

import boto3
import pytest
from crawlkit.adapters.lake.delta import Tables
from crawlkit.adapters.lake.table_reader import TableError
from crawlkit.adapters.store import s3_client
from crawlkit.adapters.store.objects import StoreRefused, StoreUnavailable

from tests.adapters.lake.test_delta import reject
from tests.servers.fault_proxy import ALWAYS, FaultProxy
from tests.servers.s3_server import BUCKET, KEYS, moto, settings, versitygw

pytestmark = pytest.mark.waits
ONE = {"round_id": ["r1"], "stage": ["parse"]}


@pytest.fixture(scope="module", params=["moto", "versitygw"])
def endpoint(request, tmp_path_factory):
    with (
        moto() if request.param == "moto" else versitygw(tmp_path_factory.mktemp("gw") / "files")
    ) as url:
        yield url


@pytest.fixture
def proxy(endpoint):
    with FaultProxy(endpoint, share=0.0, timeout_s=1.0) as proxy:
        yield proxy


def tables(url: str, folder, guard=lambda: None, **more: float) -> Tables:
    return Tables(
        lambda: pytest.fail("no session is wanted"),
        f"s3://{BUCKET}/{folder.name}/tables",
        guard,
        settings(url, **more),
        folder / "spool",
    )


def numbers(t: Tables) -> Counter[int]:
    return Counter(r["n"] for r in t.rows("rejects", ["n"]))


class Faults:
    """The proxy's faults for conditional puts of the log, each for one, in order; then none."""

    def __init__(self, proxy: FaultProxy, *kinds: str) -> None:
        self.left, proxy.only = list(kinds), "/_delta_log/"
        proxy._fault = lambda conditional: self.left.pop(0) if conditional and self.left else None


def test_partitions_are_replaced_and_repeats_change_nothing(endpoint, tmp_path):
    t = tables(endpoint, tmp_path)
    assert not t.exists("rejects") and t.rows("rejects", ["n"]) == [] and t.count("rejects") == 0
    for n in (1, 1, 2):
        t.replace("rejects", [reject("r1", "parse", n), reject("r1", "parse", 10 * n)], ONE)
    t.replace(
        "rejects", [reject("r:2+1 a", "inject", 3)], {"round_id": ["r:2+1 a"], "stage": ["inject"]}
    )
    assert numbers(t) == Counter([2, 20, 3])
    assert t.rows("rejects", ["n", "item"], {"round_id": ["r:2+1 a"]}) == [
        {"n": 3, "item": "item 3"}
    ]
    assert t.count("rejects", ONE) == 2 and t.bytes("rejects") > 0
    t.compact("rejects", 0)
    assert numbers(tables(endpoint, tmp_path)) == Counter([2, 20, 3])
    stored = [
        o["Key"]
        for o in boto3.client("s3", endpoint_url=endpoint).list_objects_v2(
            Bucket=BUCKET, Prefix=f"{tmp_path.name}/tables/rejects/"
        )["Contents"]
    ]
    assert sum(k.endswith(".parquet") for k in stored) == 2  # what is replaced is gone
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize(
    "kinds",
    [("lost",), ("reset",), ("503", "lost"), ("412",), ("409", "500"), ("reset", "reset", "lost")],
    ids="-".join,
)
def test_a_commit_is_done_once_whatever_is_lost(proxy, tmp_path, kinds):
    t = tables(proxy.url, tmp_path)
    for n, write in enumerate(
        [
            lambda: t.replace("rejects", [reject("r1", "parse", 1)], ONE),
            lambda: t.replace("rejects", [reject("r1", "parse", 2)], ONE),
            lambda: t.append("rejects", [reject("r1", "parse", 3)]),
        ]
    ):
        faults = Faults(proxy, *kinds)
        write()
        assert faults.left == []
        assert t._log("rejects").version() == n
    assert numbers(t) == Counter([2, 3])


@pytest.mark.slow
def test_many_writes_through_a_bad_store(endpoint, tmp_path):
    with FaultProxy(
        endpoint, share=0.15, seed=5, timeout_s=0.3, kinds=(*ALWAYS, "409", "412")
    ) as proxy:
        t = tables(proxy.url, tmp_path, timeout_s=0.5, give_up_s=60)
        for n in range(12):
            t.replace("rejects", [reject("r1", "parse", n)], ONE)
            t.append("rejects", [reject("r2", "parse", 100 + n)])
        assert sum(proxy.counts[k] for k in ALWAYS) > 10, proxy.counts
    assert numbers(tables(endpoint, tmp_path)) == Counter([11, *range(100, 112)])


def in_threads(n: int, work) -> list[BaseException | None]:
    """`work(i)` in n threads that begin at once; what each raised."""
    gate, out = threading.Barrier(n), [None] * n

    def run(i: int) -> None:
        gate.wait()
        try:
            work(i)
        except BaseException as e:
            out[i] = e

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return out


@pytest.mark.slow
def test_writers_that_meet_lose_nothing(proxy, tmp_path):
    """Without the commit lock: of two that replace at once one fails and says so; additions all
    stand.
    """
    done: list[int] = []
    tables(proxy.url, tmp_path).replace("rejects", [], ONE)
    for n in range(0, 40, 4):
        told = in_threads(
            4,
            lambda i, n=n: tables(proxy.url, tmp_path).replace(
                "rejects",
                [reject(f"r{i}", "parse", n + i)],
                {"round_id": [f"r{i}"], "stage": [f"{n + i}", "parse"]},
            ),
        )
        assert all(
            e is None or isinstance(e, TableError) and "another process" in str(e) for e in told
        ), told
        assert any(e is None for e in told)
        done = [x for x in done if x % 4 not in [i for i, e in enumerate(told) if e is None]] + [
            n + i for i, e in enumerate(told) if e is None
        ]
        assert numbers(tables(proxy.url, tmp_path)) == Counter(done)
    told = in_threads(
        3,
        lambda i: [
            tables(proxy.url, tmp_path).append("rejects", [reject("a", "parse", 1000 + 10 * i + n)])
            for n in range(4)
        ],
    )
    assert told == [None] * 3
    assert {n: c for n, c in numbers(tables(proxy.url, tmp_path)).items() if n >= 1000} == {
        1000 + 10 * i + n: 1 for i in range(3) for n in range(4)
    }


def test_the_guard_stops_a_commit_and_its_repeat(proxy, tmp_path):
    class Lost(Exception):
        pass

    asked = []

    def guard() -> None:
        asked.append(1)
        if len(asked) > 1:
            raise Lost

    t = tables(proxy.url, tmp_path, guard)
    Faults(proxy, "412")
    with pytest.raises(Lost):
        t.replace("rejects", [reject("r1", "parse", 1)])
    assert not t.exists("rejects") and len(asked) == 2


@pytest.mark.slow
def test_a_store_that_is_down_is_told_as_that(proxy, tmp_path):
    t = tables(proxy.url, tmp_path, give_up_s=1.0)
    t.replace("rejects", [reject("r1", "parse", 1)])
    proxy.down = True
    for call in (
        lambda: t.rows("rejects", ["n"]),
        lambda: t.replace("rejects", []),
        lambda: t.count("rejects"),
        lambda: t.compact("rejects", 1),
        lambda: tables(proxy.url, tmp_path, give_up_s=1.0).exists("rejects"),
    ):
        with pytest.raises(StoreUnavailable, match="check that the store is up"):
            call()
    proxy.down = False
    assert numbers(t) == Counter([1])


def test_files_that_a_killed_writer_left_on_this_machine_go(endpoint, tmp_path):
    t = tables(endpoint, tmp_path)
    (tmp_path / "spool").mkdir()
    left, young, other = (
        tmp_path / "spool" / name
        for name in ("a" * 32 + ".parquet", "b" * 32 + ".parquet", "mine.parquet")
    )
    for file in (left, young, other):
        file.write_bytes(b"PAR1")
    for file in (left, other):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    assert t.abort_unfinished(1_700_000_100) == 1
    assert not left.exists() and young.exists() and other.exists()


def test_what_is_wrong_is_named_with_its_fix(endpoint, tmp_path, monkeypatch):
    gone = Tables(
        lambda: None,
        "s3://no-such-bucket/tables",
        s3=settings(endpoint, give_up_s=2.0),
        spool=tmp_path,
    )
    with pytest.raises(StoreRefused, match="create the bucket"):
        gone.replace("rejects", [reject("r1", "parse", 1)])
    t = tables(endpoint, tmp_path)
    t.replace("rejects", [reject("r1", "parse", 1)])
    boto3.client("s3", endpoint_url=endpoint).put_object(
        Bucket=BUCKET,
        Key=f"{tmp_path.name}/tables/rejects/_delta_log/{1:020}.json",
        Body=b"{nonsense",
    )
    with pytest.raises(
        TableError, match="table rejects at s3://.* cannot be read: .*; restore it from a copy"
    ):
        t.rows("rejects", ["n"])


@pytest.fixture
def no_credentials(monkeypatch, tmp_path):
    """A process without any credentials."""
    for name in KEYS:
        if name != "AWS_EC2_METADATA_DISABLED":
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for cached in (s3_client.session_of, s3_client.client_of):
        cached.cache_clear()
    yield
    for cached in (s3_client.session_of, s3_client.client_of):
        cached.cache_clear()


def test_credentials_come_from_the_whole_chain_and_go_nowhere(
    endpoint, tmp_path, no_credentials, monkeypatch
):
    for look in (
        lambda: tables(endpoint, tmp_path).replace("rejects", []),
        lambda: s3_client.delta_options(settings(endpoint)),
    ):
        with pytest.raises(StoreRefused, match="set credentials by the AWS chain"):
            look()
    key, secret = KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"]
    (tmp_path / "credentials").write_text(
        f"[crawler]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "crawler")
    for cached in (s3_client.session_of, s3_client.client_of):
        cached.cache_clear()
    t = tables(endpoint, tmp_path)
    t.replace("rejects", [reject("r1", "parse", 1)])
    t.append("rejects", [reject("r1", "parse", 2)])
    assert numbers(t) == Counter([1, 2])
    options = s3_client.delta_options(settings(endpoint))
    assert options["aws_secret_access_key"] == secret and options["aws_access_key_id"] == key
    client = boto3.session.Session().client("s3", endpoint_url=endpoint)
    stored = [
        client.get_object(Bucket=BUCKET, Key=o["Key"])["Body"].read()
        for o in client.list_objects_v2(Bucket=BUCKET, Prefix=tmp_path.name)["Contents"]
    ]
    assert len(stored) >= 4 and not [s for s in stored if secret.encode() in s or key.encode() in s]
