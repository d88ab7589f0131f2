"""A browser, the driver of the browsers or the worker of a slot killed at a random moment of a
round that renders: nothing is lost or doubled, and the servers' log shows no rudeness over all
attempts.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from crawlkit.adapters.browser.processes import find_processes
from crawlkit.config import load_config
from crawlkit.crawl.state import Crawl
from crawlkit.local.web_server import Reply
from crawlkit.round.drive import run_round
from crawlkit.round.job import Job

from tests.adapters.browser.chromium import chromium, own_processes
from tests.frames import collect
from tests.rounds.crawlproc import command, environment
from tests.rounds.test_kills import workers
from tests.slot.slotweb import SlotWeb, page

pytestmark = [pytest.mark.rounds, pytest.mark.slow]
EPOCH = 1_767_225_600.0  # 2026-01-01
ROUND_ID = "r000002"
BROWSER = "--crawlkit-browser"
HOSTS = [f"app{n}.test" for n in range(8)]
APP = "fetch('/data.json').then(r => r.text()).then(t => { root.innerHTML = t.repeat(99) })"
SITES = {
    host: {
        "/": page("<div id=root></div><script src=/app.js></script>"),
        "/app.js": Reply(200, [("Content-Type", "text/javascript")], APP.encode()),
        "/data.json": Reply(200, [("Content-Type", "application/json")], b"words of data "),
    }
    for host in HOSTS
}
# what is killed, of the processes below one
VICTIMS: dict[str, Callable[[int], Collection[int]]] = {
    "browser": lambda root: own_processes(BROWSER, root),
    "driver": lambda root: own_processes("run-driver", root) - own_processes(BROWSER, root),
    "worker": workers,
}


class Fetched(NamedTuple):
    """A crawl after its first round; its web."""

    web: SlotWeb
    folder: Path


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fetched]:
    folder = tmp_path_factory.mktemp("fetched")
    with SlotWeb(SITES) as web:
        cfg = web.config(
            engine={"name": "local"},
            frontier={"guess_sitemap": False},
            fetch={"slots": 2},
            lease={"ttl_s": 8.0, "renew_s": 1.0, "margin_s": 1.0},
            round={"minutes": 3, "max_urls": 1000},
            storage={"min_free_bytes": 0},
            warc={"roll_s": 1},
            render={"enabled": True, "chromium": chromium()},
            scope={"domains": HOSTS},
        )
        (folder / "crawl.yaml").write_text(
            yaml.safe_dump(cfg.model_dump(mode="json", by_alias=True))
        )
        job = Job(Crawl(folder / "crawl", cfg), quick=True, engine="local")
        round_ = job.crawl.open_round(EPOCH)
        job.run("inject", round_, force=True, lines=[f"http://{host}/" for host in HOSTS])
        run_round(job, round_)
        job.crawl.open_round(EPOCH + 60)
        job.stop()
        yield Fetched(web, folder)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_while_pages_are_rendered(
    fetched: Fetched, tmp_path: Path, victim: str, seed: int
) -> None:
    web, config = fetched.web, fetched.folder / "crawl.yaml"
    data = tmp_path / "crawl"
    shutil.copytree(fetched.folder / "crawl", data)
    time.sleep(1.0)
    web.log.clear()
    args = ["round", "--round-id", ROUND_ID, "--data", data, "--config", config, "--json"]
    chance = random.Random(f"{victim} {seed}")
    for attempt in range(6):
        process = subprocess.Popen(
            command(*args), env=environment(), start_new_session=True, stdout=subprocess.DEVNULL
        )
        browsers = kill_one(process, VICTIMS[victim], chance) if attempt == 0 else set()
        code = process.wait(timeout=200)
        for _ in range(50):  # what it has left ends by itself
            if not browsers & find_processes(BROWSER):
                break
            time.sleep(0.1)
        assert not browsers & find_processes(BROWSER)
        if code == 0:
            break
    assert code == 0
    judge(web, Job(Crawl(data, load_config(config)), quick=True, engine="local"), victim)


def kill_one(
    process: subprocess.Popen[bytes], find: Callable[[int], Collection[int]], chance: random.Random
) -> set[int]:
    """Wait until there is a victim, a moment more, and kill one; the browsers that were there."""
    for _ in range(600):
        if find(process.pid) and own_processes(BROWSER, process.pid):
            break
        assert process.poll() is None, "nothing to kill has come up"
        time.sleep(0.05)
    time.sleep(chance.uniform(0.0, 3.0))
    browsers = own_processes(BROWSER, process.pid)
    if found := sorted(find(process.pid)):
        os.kill(chance.choice(found), signal.SIGKILL)
    return browsers


def judge(web: SlotWeb, job: Job, victim: str) -> None:
    assert web.violations() == []
    captures = [c for c in collect(job.read("captures")) if c.round_id == ROUND_ID]
    assert len({c.capture_id for c in captures}) == len(captures)
    renders = [c for c in captures if c.kind == "render"]
    assert Counter(c.host for c in renders) == dict.fromkeys(HOSTS, 1)
    crashed = {c.host for c in renders if c.outcome != "fetched"}
    reasons = Counter((c.reason, c.detail) for c in renders if c.outcome != "fetched")
    assert {reason for reason, _ in reasons} <= {"render_crash", "render_timeout"}, reasons
    assert len(crashed) <= (1 if victim == "browser" else 0), reasons
    pages = [p for p in collect(job.read("pages")) if p.round_id == ROUND_ID]
    assert Counter(p.host for p in pages) == {h: 1 for h in HOSTS if h not in crashed}
    assert all(p.text.startswith("words of data words of data") for p in pages)
    job.stop()
