"""The object seam, on a local folder and on an S3 server: whole or not at all, and atomic
compare-and-swap.
"""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from crawlkit.adapters.store import local_objects
from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.adapters.store.objects import ObjectMissing, StoreFull
from crawlkit.adapters.store.open_store import open_objects
from crawlkit.config import S3, ConfigError

from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3_server import moto, settings, versitygw

pytestmark = pytest.mark.waits


@pytest.fixture(scope="module")
def s3():
    with (
        moto() as endpoint,
        FaultProxy(endpoint, share=0.0) as proxy,
    ):  # checks and sets one after the other
        yield proxy.url


@pytest.fixture(scope="module")
def second(tmp_path_factory):
    with versitygw(tmp_path_factory.mktemp("versitygw") / "buckets") as endpoint:
        yield endpoint


@pytest.fixture
def local(tmp_path):
    return LocalObjects(tmp_path / "store")


@pytest.fixture(params=["local", "s3", "second"])
def store(request, tmp_path):
    if request.param == "local":
        return request.getfixturevalue("local")
    return open_objects(
        f"s3://crawl/{tmp_path.name}", settings(request.getfixturevalue(request.param))
    )


def test_put_get_list_delete(store):
    assert store.put_if_absent("a/b/c.json", b"1")
    assert not store.put_if_absent("a/b/c.json", b"2")
    data, etag = store.get("a/b/c.json")
    assert data == b"1"
    store.put("a/b/c.json", b"2")
    assert store.get("a/b/c.json")[0] == b"2"
    assert store.get("a/b/c.json")[1] != etag
    store.put("a/bb", b"")
    assert store.list() == ["a/b/c.json", "a/bb"]
    assert store.list("a/b/") == ["a/b/c.json"]
    assert store.list("a/b") == ["a/b/c.json", "a/bb"]
    assert store.list("none/") == []
    store.delete("a/bb")
    store.delete("a/bb")
    assert store.list("a/bb") == []


def test_missing(store):
    for call in (store.get, store.size, store.open_range, store.modified):
        with pytest.raises(ObjectMissing):
            call("a/b")


def test_files_and_ranges(store, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(bytes(range(100)))
    assert store.put_file_if_absent("w/x.warc.gz", source)
    assert not store.put_file_if_absent("w/x.warc.gz", source)
    assert store.size("w/x.warc.gz") == 100
    assert store.open_range("w/x.warc.gz", 10, 3).read() == bytes([10, 11, 12])
    with store.open_range("w/x.warc.gz", 98) as f:
        assert f.read() == bytes([98, 99])
    with store.open_range("w/x.warc.gz", 10, 20) as f:
        assert (f.seek(5), f.read(3), f.seek(100), f.read(3)) == (5, bytes([15, 16, 17]), 100, b"")
    assert abs(store.modified("w/x.warc.gz") - time.time()) < 10


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "a/../../b", "a//b", "a/", ".", ".tmp/x", ".cas.lock", "a\0b"]
)
def test_keys_stay_inside_the_store(store, key):
    with pytest.raises(ValueError):
        store.put_if_absent(key, b"")
    assert store.list() == []


def test_compare_and_swap(store):
    first = store.compare_and_swap("l", b"1", None)
    assert first is not None
    assert store.compare_and_swap("l", b"x", None) is None
    second = store.compare_and_swap("l", b"2", first)
    assert store.compare_and_swap("l", b"3", first) is None
    assert store.get("l") == (b"2", second)


def test_compare_and_swap_loses_no_increment_between_threads(store):
    store.put("n", b"0")

    def add():
        for _ in range(25):
            while True:
                data, etag = store.get("n")
                if store.compare_and_swap("n", b"%d" % (int(data) + 1), etag):
                    break

    threads = [threading.Thread(target=add) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert store.get("n")[0] == b"100"


def test_compare_and_swap_has_one_winner_between_processes(local):
    code = (
        "import sys; from pathlib import Path;"
        " from crawlkit.adapters.store.local_objects import LocalObjects"
        " as L; print(L(Path(sys.argv[1])).compare_and_swap('k', sys.argv[2].encode(), None) is not"
        " None)"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(local.root), str(i)], stdout=subprocess.PIPE, text=True
        )
        for i in range(4)
    ]
    assert sorted(p.communicate(timeout=20)[0].strip() for p in running) == [
        "False",
        "False",
        "False",
        "True",
    ]


def test_a_full_disk_is_named_and_leaves_nothing(local, monkeypatch):
    def full(fd):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(local_objects.os, "fsync", full)
    with pytest.raises(StoreFull, match="no room left"):
        local.put_if_absent("a/b", b"1")
    monkeypatch.undo()
    assert local.list() == []
    assert os.listdir(local.root / ".tmp") == []


def test_it_travels_to_a_worker(store):
    store.put("a", b"1")
    assert pickle.loads(pickle.dumps(store)).get("a")[0] == b"1"


def test_places():
    assert open_objects("/a/b", S3()) == LocalObjects(Path("/a/b"))
    at = open_objects("s3a://bucket/a/b/", S3())
    assert (at.bucket, at.prefix, str(at)) == ("bucket", "a/b/", "s3://bucket/a/b/")
    assert open_objects("s3://bucket", S3()).prefix == ""
    for bad in ("s3://", "gs://bucket/x"):
        with pytest.raises(ConfigError, match="s3://bucket/prefix"):
            open_objects(bad, S3())


def test_what_a_killed_writer_has_left_is_removed_once_it_is_old(local):
    local.put("a", b"1")
    for name, age_s in (("old", 100), ("holder/x.warc.gz.open", 100), ("new", 0)):
        path = local.root / ".tmp" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
        os.utime(path, (time.time() - age_s,) * 2)
    assert local.abort_unfinished(time.time() - 50) == 2
    assert sorted(p.name for p in (local.root / ".tmp").iterdir()) == [
        "holder",
        "new",
    ]  # the folder has just changed
    assert local.list() == ["a"]
