"""Seeded kills of a slot whose stores are in S3 behind a proxy that fails 5% of calls: nothing
lost, nothing twice, no gap broken.

`CRAWLKIT_KILL_RUNS=100 pytest -s tests/slot/test_slot_s3.py` runs a hundred and prints the
totals; `CRAWLKIT_KILL_FROM=48` leaves out the first 48 seeds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from crawlkit.adapters.store.parts import WarcFile
from crawlkit.adapters.warc.reader import iter_records
from crawlkit.config import Config
from crawlkit.model import Capture

from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3_server import moto
from tests.slot.slotweb import SlotWeb, kept, outcomes, page, plan, s3_io, told

ROOT = Path(__file__).resolve().parents[2]
RUNS = range(
    int(os.environ.get("CRAWLKIT_KILL_FROM", 0)), int(os.environ.get("CRAWLKIT_KILL_RUNS", 8))
)
HOSTS = ("a.test", "b.test", "c.test")
URLS = [f"http://{h}/{i}" for i in range(8) for h in HOSTS]
ROWS = len(URLS) + len(HOSTS)
SECTIONS = {
    "fetch": {"timeout_s": 0.5, "connect_timeout_s": 0.5},
    "lease": {"ttl_s": 3.0, "renew_s": 0.3, "margin_s": 0.2},
    "warc": {"roll_s": 0.3, "roll_bytes": 2000},
    "storage": {"spool_s": 3.0},
}
WAYS = ("kill", "kill twice", "freeze", "double", "store down for a while", "store down for longer")
TOTALS: Counter[str] = Counter()


@pytest.fixture(scope="module")
def endpoint():
    with moto() as url:
        yield url
    print(f"\ntotals: {dict(sorted(TOTALS.items()))}")


class Attempt:
    """The slot in a process of its own."""

    def __init__(self, folder: Path, place: str, cfg: Config) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.slot.slot_child"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'lib'}:{ROOT}"},
        )
        self.process.stdin.write(
            json.dumps(
                {
                    "folder": str(folder),
                    "place": place,
                    "urls": URLS,
                    "config": cfg.model_dump(mode="json", by_alias=True),
                }
            )
        )
        self.process.stdin.close()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def wait_for(what, seconds: float = 40.0) -> None:
    give_up = time.monotonic() + seconds
    while not what() and time.monotonic() < give_up:
        time.sleep(0.02)


@pytest.mark.waits
@pytest.mark.parametrize("seed", RUNS)
def test_run(endpoint, tmp_path, seed):
    chance = random.Random(seed)
    way = WAYS[seed % len(WAYS)]
    attempts: list[Attempt] = []
    place = f"s3://crawl/{tmp_path.name}-{seed}"
    sites = {h: {f"/{i}": page(f"{h} {i} " * 50, delay_s=0.05) for i in range(8)} for h in HOSTS}
    with FaultProxy(endpoint, share=0.05, seed=seed, timeout_s=0.6) as proxy, SlotWeb(sites) as web:
        s3 = {"endpoint_url": proxy.url, "path_style": True, "timeout_s": 0.4, "give_up_s": 1.0}
        cfg = web.config(**SECTIONS, s3=s3)
        judge = s3_io(
            place, web.config(s3=s3 | {"endpoint_url": endpoint}).s3, tmp_path
        )  # past the proxy

        def begin() -> Attempt:
            attempts.append(Attempt(tmp_path / str(len(attempts)), place, cfg))
            return attempts[-1]

        try:
            first = begin()
            wait_for(
                lambda: len(web.log) >= chance.randrange(1, 24) or first.process.poll() is not None
            )
            if way.startswith("kill"):
                first.end()
                if way == "kill twice":
                    second, n = begin(), len(web.log)
                    wait_for(
                        lambda: (
                            len(web.log) > n + chance.randrange(4)
                            or second.process.poll() is not None
                        )
                    )
                    second.end()
            elif way == "freeze":
                first.process.send_signal(signal.SIGSTOP)
                threading.Timer(5.0, first.process.send_signal, (signal.SIGCONT,)).start()
            elif way == "double":
                begin()
            else:
                proxy.down = True
                time.sleep(1.0 if way == "store down for a while" else 6.0)
                proxy.down = False
            safe = Counter(c.url for c in kept(judge, Capture) if c.is_outcome)
            asked = Counter(f"http://{x.request.host}{x.request.target}" for x in web.log)
            for _ in range(8):  # as the engine runs a failed task again
                if any(
                    a.process.wait(60) == 0
                    for a in attempts
                    if a.process.poll() is None or a.process.returncode == 0
                ):
                    break
                begin()
            for a in attempts:
                a.process.send_signal(signal.SIGCONT)
                a.process.wait(60)
        finally:
            for a in attempts:
                a.end()

        assert len(outcomes(judge)) == ROWS  # none lost; it asserts that none has two
        assert set(told(judge).values()) == {("fetched", None)}
        assert len({c.capture_id for c in kept(judge, Capture)}) == len(kept(judge, Capture))
        assert web.violations() == []
        again = Counter(f"http://{x.request.host}{x.request.target}" for x in web.log) - asked
        assert not [u for u in safe if again[u]]
        named = {w.key for w in kept(judge, WarcFile)}
        assert named <= set(judge.warcs.list())
        stored = 0
        for name in named:
            with judge.warcs.open_range(name) as f:
                stored += sum(r.type in ("response", "revisit") for r in iter_records(f))
        assert stored == sum(c.warc_filename is not None for c in kept(judge, Capture))  # N = N
        judge.warcs.abort_unfinished(time.time() + 60)
        assert list(judge.warcs.unfinished()) == []
        TOTALS.update(proxy.counts)
        TOTALS.update(
            {
                "runs": 1,
                way: 1,
                "attempts": len(attempts),
                "requests": len(web.log),
                "fetched again": len(web.log) - ROWS,
                "orphans": len(set(judge.warcs.list()) - named),
            }
        )


@pytest.mark.waits
def test_the_plan_is_what_the_checks_count():
    assert len(plan(URLS)) == ROWS
