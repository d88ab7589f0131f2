"""Killed, frozen and doubled slots: nothing lost, nothing recorded twice, no gap broken (N1, N2,
B6).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from crawlkit.adapters.store import lease
from crawlkit.adapters.store.lease import LeaseHeld, LeaseLost
from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.config import Config
from crawlkit.model import Answer, Capture
from crawlkit.slot.run import run_slot

from tests.slot.slotweb import SlotWeb, kept, outcomes, page, plan, slot_io, told

pytestmark = pytest.mark.waits

ROOT = Path(__file__).resolve().parents[2]
HOSTS = ("a.test", "b.test", "c.test")
SITES = {h: {f"/{i}": page(f"{h} {i}", delay_s=0.05) for i in range(6)} for h in HOSTS}
URLS = [f"http://{h}/{i}" for i in range(6) for h in HOSTS]
ROWS = len(URLS) + len(HOSTS)
SHORT = {
    "fetch": {"timeout_s": 0.5, "connect_timeout_s": 0.5},
    "lease": {"ttl_s": 1.3, "renew_s": 0.2, "margin_s": 0.2},
    "warc": {"roll_s": 0.3},
}


def start(folder: Path, cfg: Config) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.slot.slot_child"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'lib'}:{ROOT}"},
    )
    child.stdin.write(
        json.dumps(
            {
                "folder": str(folder),
                "urls": URLS,
                "config": cfg.model_dump(mode="json", by_alias=True),
            }
        )
    )
    child.stdin.close()
    assert child.stdout.readline() == "started\n"
    return child


def end(child: subprocess.Popen[str]) -> str:
    child.kill()
    child.wait()
    child.stdout.close()
    with child.stderr:
        return child.stderr.read()


def wait_for(what, seconds: float = 20.0) -> None:
    give_up = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def requests_of(web: SlotWeb) -> Counter[str]:
    return Counter(f"http://{x.request.host}{x.request.target}" for x in web.log)


@pytest.mark.parametrize(
    "after",
    [pytest.param(n, marks=[] if n == 8 else pytest.mark.slow) for n in (1, 2, 4, 8, 12, 16, 20)],
)
def test_killed_at_any_moment(tmp_path, after):
    """kill -9 after some requests; the next attempt waits the lease out and does the rest, and only
    that.
    """
    io = slot_io(tmp_path)
    with SlotWeb(SITES) as web:
        cfg = web.config(**SHORT)
        child = start(tmp_path, cfg)
        try:
            wait_for(lambda: len(web.log) >= after)
        finally:
            end(child)
        safe = {c.url for c in kept(io, Capture)}
        counts = run_slot(plan(URLS), cfg, io)
        assert counts["done_before"] == len(safe)
        assert len(outcomes(io)) == ROWS
        assert set(told(io).values()) == {("fetched", None)}
        assert web.violations() == []
        asked = requests_of(web)
        assert all(asked[u] == 1 for u in safe)
        assert {c.attempt for c in outcomes(io).values()} <= {1, 2}
        assert len({c.capture_id for c in kept(io, Capture)}) == len(kept(io, Capture))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_what_was_answered_before_an_interrupt_is_stored(tmp_path, how):
    """With files that are closed each minute only: nothing but what was under way is asked again.

    Workers of the local engine take SIGTERM as Ctrl-C (engine/worker_main.py).
    """
    io = slot_io(tmp_path)
    with SlotWeb(SITES) as web:
        cfg = web.config(**SHORT | {"warc": {"roll_s": 60.0}})
        child = start(tmp_path, cfg)
        try:
            wait_for(lambda: len(web.log) >= 10)
            child.send_signal(how)
            child.wait(10)
        finally:
            end(child)
        asked = len(web.log)
        safe = {c.url for c in kept(io, Capture)}
        assert asked - len(HOSTS) <= len(safe) <= asked
        counts = run_slot(plan(URLS), cfg, io)
        assert counts["done_before"] == len(safe) and len(outcomes(io)) == ROWS
        assert sum(n > 1 for n in requests_of(web).values()) <= 2 * len(HOSTS)
        assert web.violations() == []


def test_a_frozen_attempt_sends_nothing_after_it_wakes(tmp_path):
    io = slot_io(tmp_path)
    with SlotWeb(SITES) as web:
        cfg = web.config(**SHORT)
        child = start(tmp_path, cfg)
        try:
            wait_for(lambda: len(web.log) >= 6)
            os.kill(child.pid, signal.SIGSTOP)
            run_slot(plan(URLS), cfg, io)
            before, parts = len(web.log), io.objects.list("parts/")
            os.kill(child.pid, signal.SIGCONT)
            assert child.wait(timeout=10) != 0
            time.sleep(0.1)
            assert len(web.log) == before
            assert io.objects.list("parts/") == parts
        finally:
            said = end(child)
        assert "LeaseLost" in said
        assert set(told(io).values()) == {("fetched", None)}
        assert web.violations() == []


def test_two_attempts_at_once_share_the_work_of_one(tmp_path):
    """The second waits for the first's end and finds everything done."""
    io = slot_io(tmp_path)
    done = []
    with SlotWeb(SITES) as web:
        cfg = web.config(**SHORT)
        attempts = [
            threading.Thread(target=lambda: done.append(run_slot(plan(URLS), cfg, io)))
            for _ in range(2)
        ]
        for t in attempts:
            t.start()
        for t in attempts:
            t.join()
    assert sorted(d["done_before"] for d in done) == [0, ROWS]
    assert set(requests_of(web).values()) == {1}
    assert web.violations() == []


def test_a_lease_held_by_a_living_attempt_is_an_error_in_the_end(tmp_path):
    io = slot_io(tmp_path)
    with SlotWeb(SITES) as web:
        io.objects.put(
            "leases/r1/00000.json",
            json.dumps(
                {
                    "holder": "other",
                    "expires": time.time() + 3600,
                    "released": False,
                    "clean": False,
                }
            ).encode(),
        )
        with pytest.raises(LeaseHeld):
            run_slot(plan(URLS), web.config(**SHORT), io)
        assert web.log == []


def test_a_lost_lease_ends_the_attempt(tmp_path):
    """Another takes the lease away: no further request, no further part."""
    io = slot_io(tmp_path)
    thefts: list[int] = []

    def steal(_):
        if thefts:
            return page("x")
        thefts.append(1)
        io.objects.put(
            "leases/r1/00000.json",
            json.dumps(
                {"holder": "thief", "expires": time.time() + 1, "released": False, "clean": False}
            ).encode(),
        )
        return page("x")

    with SlotWeb({"a.test": {"/1": steal} | {f"/{i}": page("x") for i in range(2, 9)}}) as web:
        cfg = web.config(**SHORT)
        with pytest.raises(LeaseLost):
            run_slot(plan([f"http://a.test/{i}" for i in range(1, 9)]), cfg, io)
        assert len(web.log) < 6
        sent = len(web.log)
        run_slot(plan([f"http://a.test/{i}" for i in range(1, 9)]), cfg, io)
        assert len(web.log) >= sent + 3
    assert set(told(io).values()) == {("fetched", None)}
    assert web.violations() == []


def test_an_unreachable_store_for_leases_stops_the_sending(tmp_path, monkeypatch):
    io = slot_io(tmp_path)
    real = LocalObjects.compare_and_swap

    def flaky(self, key, data, etag):
        if etag is not None and b'"released": false' in data:
            raise OSError(5, "input/output error")
        return real(self, key, data, etag)

    monkeypatch.setattr(LocalObjects, "compare_and_swap", flaky)
    with SlotWeb({"a.test": {f"/{i}": page("x") for i in range(40)}}) as web:
        began = time.monotonic()
        with pytest.raises(LeaseLost):
            run_slot(plan([f"http://a.test/{i}" for i in range(40)]), web.config(**SHORT), io)
        # nothing starts that could end after the lease: 1.3 s - 0.2 s margin - 0.5 s request
        assert max(x.start for x in web.log) - began < 0.8


class Connecting:
    """An engine that takes half a second to connect."""

    resolver = None
    sent: list[str] = []

    async def fetch(self, request, **limits):
        await asyncio.sleep(0.5)
        self.sent.append(request.url)
        return Answer(request.url, 404)

    async def close(self):
        pass


def test_a_request_that_was_still_connecting_when_the_process_froze_is_not_sent(
    tmp_path, monkeypatch
):
    io = slot_io(tmp_path, engine=lambda fetch: Connecting())
    real = lease.monotonic
    frozen = threading.Timer(
        0.25, lambda: monkeypatch.setattr(lease, "monotonic", lambda: real() + 61)
    )
    frozen.start()
    with pytest.raises(LeaseLost):
        run_slot(plan(["http://a.test/"]), Config(politeness={"ip_delay_s": 0}), io)
    assert Connecting.sent == []


def test_a_stop_from_outside_ends_the_round_early(tmp_path):
    io = slot_io(tmp_path)
    stop = threading.Event()

    def third(_):
        stop.set()
        return page("x")

    with SlotWeb({"a.test": {"/3": third} | {f"/{i}": page("x") for i in (1, 2, 4, 5, 6)}}) as web:
        counts = run_slot(
            plan([f"http://a.test/{i}" for i in range(1, 7)]), web.config(), io, stop=stop
        )
    assert counts["fetched"] == 3
    assert counts["deferred"] == 3
