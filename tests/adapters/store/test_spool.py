"""The spool: nothing is lost, doubled or out of order while the store fails, and it has bounds
(REQUIREMENTS F4).
"""

from __future__ import annotations

import threading
import time

import pytest
from crawlkit.adapters.store import spool as spool_module
from crawlkit.adapters.store.lease import LeaseLost
from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.adapters.store.objects import StoreFull, StoreUnavailable
from crawlkit.adapters.store.open_store import open_objects
from crawlkit.adapters.store.spool import Spool
from crawlkit.adapters.warc.writer import Finished
from crawlkit.config import S3
from crawlkit.model import Capture
from crawlkit.slot.inputs import SlotIO
from crawlkit.slot.run import run_slot

from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3_server import moto, settings
from tests.slot.slotweb import SlotWeb, kept, page, plan, told


class Store(LocalObjects):
    """A folder that does not answer while `down`; `log`: what was stored, in order; `lose`: so many
    answers are lost.
    """

    down, lose, fail = False, 0, None

    def _put(self, real, key, what):
        if self.__class__.fail:
            raise self.__class__.fail
        if self.__class__.down:
            raise StoreUnavailable("the store is down")
        done = real(key, what)
        if done:
            self.__class__.log.append(key)
        if self.__class__.lose:
            self.__class__.lose -= 1
            raise StoreUnavailable("the answer is lost")
        return done

    def put_if_absent(self, key, data):
        return self._put(super().put_if_absent, key, data)

    def put_file_if_absent(self, key, path):
        return self._put(super().put_file_if_absent, key, path)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(spool_module, "_PAUSE_S", 0.02)


@pytest.fixture
def store(tmp_path):
    Store.down, Store.lose, Store.fail, Store.log = False, 0, None, []
    return Store(tmp_path / "store")


def opened(store, tmp_path, check=lambda: None, max_bytes=10_000, max_s=5.0):
    return Spool(store, store, tmp_path / "spool", check, max_bytes=max_bytes, max_s=max_s)


def warc(tmp_path, n, size=1000):
    path = tmp_path / "spool" / f"{n}.warc.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes([n]) * size)
    return Finished(path, path.name, size, 1)


ORDER = ["0.warc.gz", "p/0", "p/1", "2.warc.gz", "p/2"]


def fill(spool, tmp_path):
    return [
        spool.ship("p/0", b"0", warc(tmp_path, 0)),
        spool.ship("p/1", b"1", None),
        spool.ship("p/2", b"2", warc(tmp_path, 2)),
    ]


@pytest.mark.waits
def test_what_waits_is_stored_in_order_when_the_store_is_back(store, tmp_path):
    Store.down = True
    spool = opened(store, tmp_path)
    shipped = fill(spool, tmp_path)
    time.sleep(0.1)
    assert store.list() == []
    assert spool.waiting_bytes == 2003
    assert not any(f.done() for f in shipped)
    Store.down = False
    spool.drain()
    assert Store.log == ORDER
    assert all(f.done() for f in shipped)
    assert list((tmp_path / "spool").iterdir()) == []
    spool.close()


@pytest.mark.waits
def test_lost_answers_are_no_second_writer(store, tmp_path):
    Store.lose = 3
    spool = opened(store, tmp_path)
    fill(spool, tmp_path)
    spool.drain()
    spool.close()
    assert Store.log == ORDER


@pytest.mark.waits
def test_another_writer_of_the_same_names_is_an_error(store, tmp_path):
    store.put_if_absent("0.warc.gz", b"another's")
    spool = opened(store, tmp_path)
    shipped = spool.ship("p/0", b"0", warc(tmp_path, 0))
    with pytest.raises(FileExistsError, match="0.warc.gz"):
        spool.drain()
    with pytest.raises(FileExistsError):
        spool.ship("p/1", b"1", None)
    assert isinstance(shipped.exception(), FileExistsError)
    spool.close()
    assert store.list() == ["0.warc.gz"]


@pytest.mark.waits
def test_more_bytes_than_allowed(store, tmp_path):
    Store.down = True
    spool = opened(store, tmp_path, max_bytes=2500)
    spool.ship("p/0", b"0", warc(tmp_path, 0))
    spool.ship("p/1", b"1", warc(tmp_path, 1))
    with pytest.raises(StoreUnavailable, match="2500 bytes wait"):
        for _ in range(100):  # at first it is not known to be down
            spool.ship("p/2", b"2", warc(tmp_path, 2))
    spool.close()
    assert store.list() == []


@pytest.mark.waits
def test_a_store_that_is_only_slow_makes_the_slot_wait(store, tmp_path, monkeypatch):
    gate = threading.Event()
    real = Store._put
    monkeypatch.setattr(Store, "_put", lambda self, *a: (gate.wait(10), real(self, *a))[1])
    spool = opened(store, tmp_path, max_bytes=1500)
    spool.ship("p/0", b"0", warc(tmp_path, 0))
    threading.Timer(0.2, gate.set).start()
    started = time.monotonic()
    spool.ship("p/1", b"1", warc(tmp_path, 1))
    assert time.monotonic() - started > 0.1
    spool.drain()
    spool.close()
    assert len(Store.log) == 4


@pytest.mark.waits
def test_down_for_longer_than_allowed(store, tmp_path):
    Store.down = True
    spool = opened(store, tmp_path, max_s=0.1)
    shipped = fill(spool, tmp_path)
    with pytest.raises(StoreUnavailable):
        spool.drain()
    assert all(isinstance(f.exception(1), StoreUnavailable) for f in shipped)
    Store.down = False
    spool.close()
    assert store.list() == []


@pytest.mark.waits
def test_a_full_store_ends_it_at_once(store, tmp_path):
    Store.fail = StoreFull(28, "no room left")
    spool = opened(store, tmp_path)
    spool.ship("p/0", b"0", None)
    with pytest.raises(StoreFull):
        spool.drain()
    spool.close()


@pytest.mark.waits
def test_nothing_is_written_after_the_lease(store, tmp_path):
    Store.down, held = True, [True]

    def check():
        if not held[0]:
            raise LeaseLost("gone")

    spool = opened(store, tmp_path, check)
    fill(spool, tmp_path)
    time.sleep(0.05)
    held[0], Store.down = False, False
    with pytest.raises(LeaseLost):
        spool.drain()
    spool.close()
    assert store.list() == []


@pytest.mark.waits
def test_closing_does_not_wait_for_a_store_that_is_down(store, tmp_path):
    Store.down = True
    spool = opened(store, tmp_path, max_s=1000)
    shipped = fill(spool, tmp_path)
    started = time.monotonic()
    spool.close()
    assert time.monotonic() - started < 100
    assert all(f.exception() for f in shipped)


# -- a whole slot on S3

CONFIG = {
    "politeness": {"delay_s": 0.05, "domain_delay_s": 0.0, "ip_delay_s": 0.0},
    "lease": {"ttl_s": 12.0, "renew_s": 0.3, "margin_s": 0.2},
    "fetch": {"timeout_s": 2.0},
    "warc": {"roll_bytes": 3000},
}
PAGES = [f"http://{h}/{i}" for i in range(30) for h in ("a.test", "b.test")]


@pytest.fixture(scope="module")
def endpoint():
    with moto() as url:
        yield url


def on_s3(url, tmp_path, **more):
    cfg: S3 = settings(url, **{"timeout_s": 0.4, "give_up_s": 0.5, **more})
    return SlotIO(
        open_objects(f"s3://crawl/{tmp_path.name}/state", cfg),
        open_objects(f"s3://crawl/{tmp_path.name}/warc", cfg),
        tmp_path / "spool",
    )


def web_of_60(at_10=lambda: None):
    """Thirty pages of two hosts; `at_10` is called when one of them is asked for its page 10."""
    return SlotWeb(
        {
            h: (
                {f"/{i}": page(f"{h} {i}" * 100) for i in range(30)}
                | {"/10": lambda _, h=h: (at_10(), page(f"{h} 10" * 100))[1]}
            )
            for h in ("a.test", "b.test")
        }
    )


def assert_whole(io, web):
    assert set(told(io).values()) == {("fetched", None)}
    assert sorted(told(io)) == sorted(PAGES)
    named = {c.warc_filename for c in _captures(io)}
    assert named <= set(io.warcs.list())


def _captures(io):
    return kept(io, Capture)


@pytest.mark.waits
def test_a_slot_fetches_on_while_the_store_is_down(endpoint, tmp_path):
    at_return = []

    def outage():
        if not proxy.down and not at_return:
            proxy.down = True
            threading.Timer(
                2.5, lambda: (at_return.append(len(web.log)), setattr(proxy, "down", False))
            ).start()

    with FaultProxy(endpoint, share=0.0) as proxy, web_of_60(outage) as web:
        io = on_s3(proxy.url, tmp_path)
        run_slot(plan(PAGES), web.config(**CONFIG), io)
        assert_whole(io, web)
        assert len(web.log) == 62  # nothing twice
        assert at_return[0] > 40  # it did not stand still


@pytest.mark.waits
def test_down_for_longer_the_urls_are_given_back(endpoint, tmp_path):
    over = []
    with (
        FaultProxy(endpoint, share=0.0) as proxy,
        web_of_60(lambda: setattr(proxy, "down", not over)) as web,
    ):
        io = on_s3(proxy.url, tmp_path)
        cfg = web.config(
            **CONFIG
            | {
                "lease": {"ttl_s": 4.0, "renew_s": 0.3, "margin_s": 0.2},
                "politeness": CONFIG["politeness"] | {"delay_s": 0.3},
            },
            storage={"spool_s": 0.5},
        )
        with pytest.raises(
            (StoreUnavailable, LeaseLost)
        ):  # whichever ends first, the wait or the lease
            run_slot(plan(PAGES), cfg, io)
        first = len(web.log)
        assert 20 <= first < 62
        assert not any((tmp_path / "spool").iterdir())
        over.append(True)
        proxy.down = False
        counts = run_slot(plan(PAGES), cfg, io)
        assert_whole(io, web)
        assert (
            len(web.log) - first <= 62 - counts["done_before"] + 2
        )  # what was stored is not fetched again (robots may be)


@pytest.mark.waits
@pytest.mark.parametrize("seed", range(2))
def test_a_slot_behind_faults(endpoint, tmp_path, seed):
    with FaultProxy(endpoint, share=0.05, seed=seed, timeout_s=0.6) as proxy, web_of_60() as web:
        io = on_s3(proxy.url, tmp_path, give_up_s=5.0)
        run_slot(plan(PAGES), web.config(**CONFIG), io)
        assert sum(proxy.counts.values()) > proxy.counts["calls"]
        proxy.share = 0.0
        assert_whole(io, web)
        assert len(web.log) == 62
        assert sorted(io.warcs.list()) == sorted({c.warc_filename for c in _captures(io)})
        assert list(io.warcs.unfinished()) == []
