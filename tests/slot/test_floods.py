"""Bombs, drips and floods against a whole slot: cut at the cap, in time, in bounded memory, and no
other host is held up (REQUIREMENTS E2, E5).
"""

from __future__ import annotations

import contextlib
import gc
import gzip
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from crawlkit.config import Config
from crawlkit.model import Capture
from crawlkit.rules.http.content_coding import decode_content
from crawlkit.slot.run import run_slot

from tests.cputime import within
from tests.servers.floodweb import MIB, bomb, floods, floodweb, stalls
from tests.slot.slotweb import kept, outcomes, plan, slot_io

pytestmark = pytest.mark.waits
DEADLINE_S = 2.0
ALLOWED_RISE = 64 * MIB


class Memory:
    """The most resident memory above what there was at the start, sampled; and how long this
    process was kept from running by others (`starved_s`): that time is not the engine's.
    """

    def __enter__(self) -> Memory:
        gc.collect()
        self.rise, self._start, self._over = 0, self._now(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        self.starved_s, looked = 0.0, time.monotonic()
        while not self._over.wait(0.005):
            self.rise = max(self.rise, self._now() - self._start)
            now = time.monotonic()
            self.starved_s += max(0.0, now - looked - 0.025)
            looked = now

    def _now(self) -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("size", [64 * MIB, pytest.param(1024 * MIB, marks=pytest.mark.slow)])
@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_compression_bombs(coding, size):
    payload = bomb(coding, size)
    with Memory() as memory:
        found = within(3, lambda: decode_content(payload, [coding]))
    assert (len(found.body), found.truncated) == (10 * MIB, "length")
    assert memory.rise <= ALLOWED_RISE


def test_stacked_bombs():
    payload = gzip.compress(bomb("gzip", 256 * MIB))
    with Memory() as memory:
        found = decode_content(payload, ["gzip", "gzip"])
    assert (len(found.body), found.truncated) == (
        10 * MIB,
        "length",
    ) and memory.rise <= ALLOWED_RISE


ROBOTS_FLOODS = (
    "endless fields",
    "endless body",
    "dripping body",
    "gzip bomb",
    "zstd bomb",
    "tiny chunks",
    "interim answers",
    "empty members",
)
HONEST, PAGES = 20, 8


def config(port: int, **fetch: object) -> Config:
    return Config.model_validate(
        {
            "fetch": {
                "connect_to": {"*.test": f"127.0.0.1:{port}"},
                "allow_private": ["127.0.0.1/32"],
                "timeout_s": DEADLINE_S,
                "connect_timeout_s": DEADLINE_S / 2,
                "cookie_hosts": ["f30.test"],
                **fetch,
            },
            "politeness": {"delay_s": 0.1, "domain_delay_s": 0.0, "ip_delay_s": 0.0},
            "lease": {"ttl_s": 20.0, "renew_s": 1.0, "margin_s": 0.5},
        }
    )


HONEST_URLS = [f"http://h{n}.test/{i}" for i in range(PAGES) for n in range(HONEST)]


def crawl(
    folder: Path, urls: list[str], cfg: Config
) -> tuple[dict[str, Capture], list[Capture], Memory]:
    """Outcomes, all that was sent, and the memory that it took; what holds of every run is checked
    here.
    """
    io = slot_io(folder)
    with Memory() as memory:
        run_slot(plan([*HONEST_URLS, *urls]), cfg, io)
    told, sent = outcomes(io), [c for c in kept(io, Capture) if c.started is not None]
    assert memory.rise <= ALLOWED_RISE, memory.rise / MIB
    assert {
        c.url: c.ended - c.started
        for c in sent
        if c.ended - c.started > cfg.fetch.timeout_s + 1 + memory.starved_s
    } == {}
    assert all(told[u].outcome == "fetched" for u in HONEST_URLS)
    starts: dict[str, list[float]] = {}
    for c in sent:
        if c.host[0] == "h":
            starts.setdefault(c.host, []).append(c.started)
    worst = max(
        b - a for times in starts.values() for a, b in zip(sorted(times), sorted(times)[1:])
    )
    assert worst < 0.1 + 1.0 + memory.starved_s, (
        f"an honest host waited {worst:.2f} s between two pages"
    )
    return told, sent, memory


@pytest.mark.parametrize("size", [64 * MIB, pytest.param(1024 * MIB, marks=pytest.mark.slow)])
def test_floods_beside_honest_hosts(tmp_path, size):
    kinds = floods(0)
    robots = [n for n, name in enumerate(kinds) if name in ROBOTS_FLOODS]
    with floodweb("floods", size) as port:
        told, _, _ = crawl(
            tmp_path,
            [
                *(f"http://f{n}.test/" for n in range(len(kinds))),
                *(f"http://r{n}.test/" for n in robots),
            ],
            config(port),
        )
    wrong = {}
    for n, (name, (_, outcome, truncated)) in enumerate(kinds.items()):
        c = told[f"http://f{n}.test/"]
        if ((c.outcome, c.reason), c.truncated) != (outcome, truncated):
            wrong[name] = (c.outcome, c.reason, c.truncated, c.detail)
    assert wrong == {}
    # a robots.txt that floods opens nothing that it might forbid, unless what came of it is enough
    # by RFC 9309 2.5
    robots_told = {
        list(kinds)[n]: (told[f"http://r{n}.test/"].outcome, told[f"http://r{n}.test/"].reason)
        for n in robots
    }
    assert {v[0] for v in robots_told.values()} <= {"deferred", "fetched"}, robots_told
    assert all(
        robots_told[k] == ("deferred", "robots_unreachable")
        for k in ("endless fields", "dripping body", "interim answers")
    ), robots_told


def test_many_endless_bodies_at_once(tmp_path):
    """Forty hosts that each send without end: the bodies wait their turn, memory does not grow with
    their number.
    """
    with floodweb("bodies") as port:
        told, _, _ = crawl(
            tmp_path, [f"http://f{n}.test/" for n in range(40)], config(port, timeout_s=6.0)
        )
    assert {
        (told[f"http://f{n}.test/"].outcome, told[f"http://f{n}.test/"].truncated)
        for n in range(40)
    } == {("fetched", "length")}


@contextlib.contextmanager
def silent_listener(full: bool) -> Iterator[int]:
    """Takes connections and says nothing (TLS waits for its hello); `full`: its backlog is full, so
    that connecting itself waits.
    """
    with socket.socket() as listener, contextlib.ExitStack() as held:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0 if full else 512)
        for _ in range(2 if full else 0):
            client = held.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


PHASES = list(stalls(0))


@pytest.mark.parametrize(
    "phase",
    [
        pytest.param(p, marks=() if p == "in the body" else pytest.mark.slow)
        for p in (*PHASES, "robots.txt")
    ],
)
def test_a_hundred_servers_that_stall(tmp_path, phase):
    n = PHASES.index("in the body" if phase == "robots.txt" else phase)
    urls = [f"http://{'r' if phase == 'robots.txt' else 's'}{n}p{m}.test/" for m in range(100)]
    with floodweb("stalls") as port:
        told, _, _ = crawl(tmp_path, urls, config(port))
    assert all(
        told[u].truncated == "time" or told[u].outcome in ("failed", "deferred") for u in urls
    )


@pytest.mark.parametrize("phase", [pytest.param("connect", marks=pytest.mark.slow), "tls"])
def test_a_hundred_servers_that_stall_before_http(tmp_path, phase):
    with floodweb("stalls") as port, silent_listener(full=phase == "connect") as silent:
        cfg = config(port)
        cfg.fetch.connect_to.update({f"f{n}.test": f"127.0.0.1:{silent}" for n in range(100)})
        _, sent, _ = crawl(
            tmp_path,
            [f"{'https' if phase == 'tls' else 'http'}://f{n}.test/" for n in range(100)],
            cfg,
        )
    assert {c.reason for c in sent if c.host[0] == "f"} == {"connect_timeout"}
