"""S3 where it is not a folder: lost answers, faults, multipart uploads, unfinished ones, and errors
that name the fix.
"""

from __future__ import annotations

import hashlib
import os
import random
import threading

import pytest
from crawlkit.adapters.store import s3_calls, s3_client, s3_objects
from crawlkit.adapters.store.objects import ObjectMissing, StoreFull, StoreRefused, StoreUnavailable
from crawlkit.adapters.store.open_store import open_objects
from crawlkit.config import S3

from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3_server import moto, settings

MIB = 1 << 20

pytestmark = pytest.mark.waits


@pytest.fixture(scope="module")
def endpoint():
    with moto() as url:
        yield url


@pytest.fixture
def proxy(endpoint):
    with FaultProxy(endpoint, share=0.0, timeout_s=1.0) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch):
    monkeypatch.setattr(s3_calls, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(s3_calls, "_LAST_PAUSE_S", 0.05)


def at(url, name, **more):
    return open_objects(f"s3://crawl/{name}", settings(url, **{"timeout_s": 0.5, **more}))


class Once:
    """The proxy's faults, each for one call, in order; then none."""

    def __init__(self, proxy, *kinds):
        left = list(kinds)
        proxy._fault = lambda conditional: left.pop(0) if left else None


def test_a_put_whose_answer_is_lost_was_ours(proxy, tmp_path):
    store = at(proxy.url, tmp_path.name)
    Once(proxy, "lost")
    assert store.put_if_absent("a", b"1")
    Once(proxy, "lost", "503")
    etag = store.compare_and_swap("a", b"2", store.get("a")[1])
    assert store.get("a") == (b"2", etag)
    Once(proxy, "503", "500")
    assert not store.put_if_absent("a", b"2")  # the same content, by another put


@pytest.mark.parametrize("kind", ["409", "412", "500", "503", "reset", "timeout"])
def test_a_put_that_was_not_done_is_done_again(proxy, tmp_path, kind):
    store = at(proxy.url, tmp_path.name)
    Once(proxy, kind)
    assert store.put_if_absent("a", b"1")
    before = store.get("a")[1]
    Once(proxy, kind)
    etag = store.compare_and_swap("a", b"2", before)
    assert store.get("a") == (b"2", etag)


def test_a_file_in_parts_is_whole_or_not_there(proxy, tmp_path):
    store = at(proxy.url, tmp_path.name, part_bytes=5 * MIB)
    path = tmp_path / "file"
    path.write_bytes(random.Random(1).randbytes(11 * MIB))
    Once(proxy, None, "500", None, "reset", None, None, "lost")  # create; parts; complete
    assert store.put_file_if_absent("big", path)
    with store.open_range("big") as f:
        assert (
            hashlib.file_digest(f, "sha256").digest() == hashlib.sha256(path.read_bytes()).digest()
        )
    assert not store.put_file_if_absent("big", path)
    assert list(store.unfinished()) == []


def test_an_upload_that_fails_leaves_nothing(proxy, tmp_path):
    store = at(proxy.url, tmp_path.name, part_bytes=5 * MIB, give_up_s=0.2)
    path = tmp_path / "file"
    path.write_bytes(bytes(6 * MIB))
    Once(proxy, None, *["500"] * 30)
    with pytest.raises(StoreUnavailable, match=f"cannot upload s3://crawl/{tmp_path.name}/big"):
        store.put_file_if_absent("big", path)
    Once(proxy)
    assert store.list() == []
    left = [
        begun for _, _, begun in store.unfinished()
    ]  # its abort met the same fault: the janitor's
    assert store.abort_unfinished(min(left, default=0)) == 0
    assert store.abort_unfinished(max(left, default=0) + 1) == len(left) == 1
    assert list(store.unfinished()) == []


def test_a_listing_longer_than_a_page(endpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(s3_objects, "_PAGE", 10)
    store = at(endpoint, tmp_path.name)
    keys = sorted(f"k/{n}" for n in range(35))
    for key in keys:
        store.put(key, b"")
    assert store.list("k/") == keys


def test_a_store_that_is_down(proxy, tmp_path):
    store = at(proxy.url, tmp_path.name, give_up_s=0.2)
    proxy.down = True
    for call in (
        lambda: store.put_if_absent("a", b""),
        lambda: store.get("a"),
        store.list,
        lambda: store.size("a"),
    ):
        with pytest.raises(StoreUnavailable, match="check that the store is up"):
            call()
    proxy.down = False
    assert store.list() == []


def test_errors_name_bucket_key_and_fix(endpoint, tmp_path, monkeypatch):
    with pytest.raises(StoreRefused, match="s3://nowhere/x/a: NoSuchBucket.*create the bucket"):
        open_objects("s3://nowhere/x", settings(endpoint)).put("a", b"")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    s3_client.session_of.cache_clear()  # it holds the credentials that it has found
    with pytest.raises(StoreRefused, match="AWS_ACCESS_KEY_ID"):
        open_objects("s3://crawl/x", settings(endpoint, timeout_s=1.5)).get("a")
    assert "secret" not in repr(S3()).lower()


def test_a_full_store(proxy, tmp_path, monkeypatch):
    store = at(proxy.url, tmp_path.name)
    monkeypatch.setitem(
        __import__("tests.servers.fault_proxy", fromlist=["_CODES"])._CODES,
        "full",
        (507, "XMinioStorageFull"),
    )
    Once(proxy, "full")
    with pytest.raises(StoreFull, match="no room left in the store s3://crawl/"):
        store.put_if_absent("a", b"")


def test_reading_stops_when_the_object_is_replaced(endpoint, tmp_path):
    store = at(endpoint, tmp_path.name)
    store.put("a", b"x" * 3 * MIB)
    with store.open_range("a") as f:
        f.read(10)
        store.put("a", b"y" * 3 * MIB)
        f.seek(2 * MIB)
        with pytest.raises(ObjectMissing):
            f.read(10)


@pytest.mark.parametrize("seed", range(2))
def test_counters_and_claims_survive_every_fault(endpoint, tmp_path, seed):
    """Four writers through a proxy that fails a third of the calls: no increment is lost or made
    twice, unless the store itself cannot say; each claim has one winner.
    """
    with FaultProxy(endpoint, share=0.33, seed=seed, timeout_s=0.6) as proxy:
        store = at(proxy.url, f"{tmp_path.name}-{seed}", timeout_s=0.3, give_up_s=30)
        store.put_if_absent("n", b"0")
        won, unknown = [], []

        def work(me):
            for n in range(4):
                while True:
                    data, etag = store.get("n")
                    try:
                        if store.compare_and_swap("n", b"%d" % (int(data) + 1), etag) is not None:
                            break
                    except StoreUnavailable as e:
                        assert "not known" in str(e)
                        unknown.append(1)
                if store.put_if_absent(f"claim/{n}", b"the same content"):
                    won.append(n)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert 16 <= int(store.get("n")[0]) <= 16 + len(unknown)
        assert sorted(won) == [0, 1, 2, 3]
        assert proxy.counts["lost"] and proxy.counts["412"]


def test_a_forked_process_has_a_client_of_its_own():
    cfg = S3(region="eu-west-1")
    assert (
        s3_client.client_of(cfg, os.getpid())
        is s3_client.client_of(cfg, os.getpid())
        is not s3_client.client_of(cfg, 1)
    )
