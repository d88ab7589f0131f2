"""A crawl's state in S3: rounds, claims, marks and locks as on a folder; one holder at a time, and
a killed one's lock runs out.
"""

from __future__ import annotations

import pytest
from crawlkit.adapters.store.flock import LockHeld
from crawlkit.adapters.store.lease import LeaseLock
from crawlkit.config import Config
from crawlkit.crawl.state import Crawl, CrawlError
from crawlkit.round.job import Job

from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3_server import moto

pytestmark = pytest.mark.waits


@pytest.fixture(scope="module")
def endpoint():
    with moto() as url:
        yield url


def crawl(url, tmp_path):
    place = f"s3://crawl/{tmp_path.name}"
    cfg = Config.model_validate(
        {
            "storage": {"state": f"{place}/state", "warc": f"{place}/warc"},
            "s3": {"endpoint_url": url, "path_style": True, "timeout_s": 1.0, "give_up_s": 5.0},
            "fetch": {"timeout_s": 0.5},
            "lease": {"ttl_s": 1.5, "renew_s": 0.2, "margin_s": 0.1},
        }
    )
    return Crawl(tmp_path, cfg)


def test_a_round_from_open_to_closed(endpoint, tmp_path):
    with FaultProxy(endpoint, share=0.1, seed=3, timeout_s=1.2) as proxy:
        one = crawl(proxy.url, tmp_path)
        one.check()
        first = one.open_round(1000.0)
        assert one.open_round(2000.0, first.id) == first
        with one.lock:
            one.claim(first, [0, 3])
        two = crawl(proxy.url, tmp_path)
        assert two.claims() == {0: first.id, 3: first.id}
        second = two.open_round(1001.0)
        with two.lock, pytest.raises(CrawlError, match="claimed"):
            two.claim(second, [3, 4])
        assert two.pin(first, "commit", ["a"]) == one.pin(first, "commit", ["b"]) == ["a"]
        one.set_mark(first, "fetch", {"planned": 3})
        assert two.mark(first, "fetch") == {"planned": 3}
        one.close(first)
        one.close(first)
        assert [r.id for r in two.open_rounds()] == [second.id]
        assert two.round(first.id).state == "closed"
        assert not (tmp_path / "state").exists()


def test_one_holds_the_lock(endpoint, tmp_path):
    one, two = crawl(endpoint, tmp_path), crawl(endpoint, tmp_path)
    assert isinstance(one.lock, LeaseLock)
    with one.lock, one.lock:
        one.lock.check()
        hold = LeaseLock(two.objects, "commit.lock", "the commit lock", two.cfg.lease)
        with pytest.raises(LockHeld, match="the commit lock is held by another process"):
            hold.acquire()
        with pytest.raises(LockHeld, match="not held"):
            hold.check()
    with two.lock:
        two.lock.check()


def test_a_killed_holder_s_lock_runs_out_and_it_writes_no_more(endpoint, tmp_path):
    one, two = crawl(endpoint, tmp_path), crawl(endpoint, tmp_path)
    one.lock.acquire()
    one.lock._lease._stop.set()  # as if frozen: it renews no more
    with two.lock:
        two.lock.check()
        with pytest.raises(LockHeld, match="was lost"):
            one.lock.check()
        with pytest.raises(LockHeld):
            one.open_round(1.0)
    one.lock.release()


def test_a_driver_whose_hold_ran_out_starts_no_stage_and_commits_nothing(endpoint, tmp_path):
    said: list[dict] = []
    one, two = Job(crawl(endpoint, tmp_path), say=said.append), Job(crawl(endpoint, tmp_path))
    round_ = one.crawl.open_round(1000.0)
    with one.driving(round_):
        one._driver._lease._stop.set()  # as if frozen
        with two.driving(round_):
            with pytest.raises(LockHeld, match=f"round {round_.id} was lost"):
                one.run("generate", round_)
            with one.crawl.lock, pytest.raises(LockHeld, match=f"round {round_.id} was lost"):
                one.tables.replace("domain_authority", [])
    assert said == [] and not one.tables.exists("domain_authority")
