"""Leases: one holder at a time, fails closed, a killed holder's time is waited out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from crawlkit.adapters.store import lease as lease_module
from crawlkit.adapters.store.lease import Lease, LeaseHeld, LeaseLost
from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.config import ConfigError, Lease as LeaseConfig

pytestmark = pytest.mark.waits

CFG = LeaseConfig(ttl_s=1.0, renew_s=0.1, margin_s=0.1)


@pytest.fixture
def store(tmp_path):
    return LocalObjects(tmp_path)


def test_a_lease_that_could_not_cover_a_request_is_refused(store):
    with pytest.raises(ConfigError, match="at least 60"):
        Lease(store, "l", "a", LeaseConfig(ttl_s=59, renew_s=10, margin_s=5), request_s=30)
    Lease(store, "l", "a", LeaseConfig(ttl_s=60, renew_s=10, margin_s=5), request_s=30)


def test_one_holder_at_a_time(store):
    first, second = Lease(store, "l", "a", CFG), Lease(store, "l", "b", CFG)
    assert first.acquire() is None
    first.check()
    with pytest.raises(LeaseHeld) as e:
        second.acquire()
    assert e.value.holder == "a"
    first.release()
    predecessor = second.acquire()
    assert predecessor.clean
    assert predecessor.end <= time.time()
    second.release()


def test_renewal_keeps_it_beyond_its_ttl(store):
    first, second = Lease(store, "l", "a", CFG), Lease(store, "l", "b", CFG)
    first.acquire()
    with pytest.raises(LeaseHeld):
        second.acquire(wait_s=1.3)
    first.check()
    assert first.may_send()
    first.release()


def test_an_error_is_waited_out_as_a_kill_is(store):
    """What was sent last may be in no part: with a full disk nothing could be written."""
    with pytest.raises(RuntimeError):
        with Lease(store, "l", "a", CFG) as first:
            first.acquire()
            raise RuntimeError
    assert not first.may_send()
    expires = json.loads(store.get("l")[0])["expires"]
    with Lease(store, "l", "b", CFG) as second:
        assert not second.acquire(wait_s=5).clean
        assert time.time() >= expires + CFG.margin_s


def test_an_interrupt_gives_the_lease_back_at_once(store):
    with pytest.raises(KeyboardInterrupt):
        with Lease(store, "l", "a", CFG) as first:
            first.acquire()
            raise KeyboardInterrupt
    with Lease(store, "l", "b", CFG) as second:
        predecessor = second.acquire()
        assert not predecessor.clean and predecessor.end <= time.time()


def test_a_request_must_end_before_the_lease_does(store):
    with Lease(store, "l", "a", CFG, request_s=0.2) as lease:
        assert not lease.may_send()
        lease.acquire()
        assert lease.may_send(0.2)
        assert not lease.may_send(1.0)


def test_a_killed_holder_is_waited_out(store):
    dead = Lease(store, "l", "a", CFG)
    dead.acquire()
    dead._stop.set()  # as if killed: no renewal, no release
    began = time.time()
    expires = json.loads(store.get("l")[0])["expires"]
    with Lease(store, "l", "b", CFG) as lease:
        predecessor = lease.acquire(wait_s=5)
        assert time.time() >= expires + CFG.margin_s
        assert time.time() - began < 5
        assert not predecessor.clean
        assert predecessor.end == pytest.approx(expires, abs=CFG.renew_s + 0.1)
    with pytest.raises(LeaseLost):
        dead.check()
    assert not dead.may_send()


def test_a_holder_that_was_overtaken_cannot_release_the_successors_lease(store):
    dead = Lease(store, "l", "a", CFG)
    dead.acquire()
    dead._stop.set()
    with Lease(store, "l", "b", CFG) as lease:
        lease.acquire(wait_s=5)
        dead.release()
        lease.check()


def test_a_holder_that_cannot_renew_fails_closed(store, monkeypatch):
    with Lease(store, "l", "a", CFG) as lease:
        lease.acquire()

        def broken(*_):
            raise OSError("store unreachable")

        monkeypatch.setattr(LocalObjects, "compare_and_swap", broken)
        time.sleep(1.1)
        assert not lease.may_send()
        with pytest.raises(LeaseLost):
            lease.check()


def test_a_renewal_whose_answer_is_lost_loses_nothing(store, monkeypatch):
    real, answers = LocalObjects.compare_and_swap, []

    def lossy(self, key, data, etag):
        done = real(self, key, data, etag)
        answers.append(done)
        if done and len(answers) % 3 == 2:
            raise OSError("the answer is lost")
        return done

    monkeypatch.setattr(LocalObjects, "compare_and_swap", lossy)
    first = Lease(store, "l", "a", CFG)
    first.acquire()
    for _ in range(8):
        time.sleep(0.2)
        first.check()
        assert first.may_send()
    monkeypatch.undo()
    first.release()
    with Lease(store, "l", "b", CFG) as second:
        assert second.acquire().clean


def test_a_stolen_lease_is_noticed_by_the_check(store):
    with Lease(store, "l", "a", LeaseConfig(ttl_s=60, renew_s=10, margin_s=1)) as lease:
        lease.acquire()
        store.put("l", b'{"holder": "b", "expires": 9e9, "released": false, "clean": false}')
        with pytest.raises(LeaseLost):
            lease.check()


def test_damaged_content_is_waited_out(store):
    store.put("l", b"\xff not json")
    lease = Lease(store, "l", "a", CFG)
    with pytest.raises(LeaseHeld):
        lease.acquire()
    assert lease.acquire(wait_s=3) is not None
    lease.release()


def test_a_frozen_holder_may_not_send(store, monkeypatch):
    """The clock is asked before each send; a wake-up after the end finds the lease over, renewed or
    not.
    """
    lease = Lease(store, "l", "a", LeaseConfig(ttl_s=60, renew_s=10, margin_s=5))
    lease.acquire()
    real = lease_module.monotonic()
    monkeypatch.setattr(lease_module, "monotonic", lambda: real + 61)
    assert not lease.may_send()
    monkeypatch.undo()
    lease.release()


def test_a_stopped_process_finds_its_lease_lost(store, tmp_path):
    code = """
import sys, time
from pathlib import Path
from crawlkit.adapters.store.lease import Lease
from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.config import Lease as C
l = Lease(LocalObjects(Path(sys.argv[1])), 'l', 'frozen', C(ttl_s=1.0, renew_s=0.1, margin_s=0.1))
l.acquire(); print('held', flush=True); sys.stdin.readline(); print(l.may_send(), flush=True)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline() == "held\n"
        os.kill(child.pid, signal.SIGSTOP)
        with Lease(store, "l", "b", CFG) as lease:
            lease.acquire(wait_s=5)
            os.kill(child.pid, signal.SIGCONT)
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "False\n"
            lease.check()
    finally:
        child.kill()
        child.wait()


def test_takers_race_and_one_wins(store):
    held, inside, most = [], [0], [0]

    def take(name):
        lease = Lease(store, "l", name, CFG)
        lease.acquire(wait_s=10)
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.02)
        inside[0] -= 1
        held.append(name)
        lease.release()

    threads = [threading.Thread(target=take, args=(str(i),)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(held) == 4
    assert most[0] == 1
