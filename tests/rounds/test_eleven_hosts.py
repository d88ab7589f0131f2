"""What an operator asks while a crawl of eleven hosts runs, answered by `status`, `queues` and
`log`, and held against the server's own log.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from crawlkit.model import RECENT_S
from deltalake import DeltaTable

from tests.cli.call import call
from tests.rounds.crawlproc import command, environment, run
from tests.servers.eleven_hosts import (
    CRAWL_DELAY_S,
    DENY,
    DOWN,
    PLAIN,
    SELF,
    SLOW,
    TRAP,
    ElevenHosts,
    eleven_hosts,
)

pytestmark = [pytest.mark.rounds, pytest.mark.slow]

POLL_S = 0.7
UNDER_WAY = 20  # answers that are not stored yet, two of each host that answers
VERBS = (("status", "--json"), ("queues", "--json"), ("log",))


class Watched:
    """A crawl by the real command, and what was said of it while it ran."""

    def __init__(self, web: ElevenHosts, folder: Path) -> None:
        self.web, self.data = web, folder / "site"
        config = folder / "c.yaml"
        config.write_text(yaml.safe_dump(web.settings()))
        self.args = ["crawl", *web.seeds, "--data", self.data, "--config", config, "--rounds", 2]
        self.answers: list[dict[str, Any]] = []
        self.err = folder / "err"

    def start(self) -> subprocess.Popen[bytes]:
        with self.err.open("ab") as err:
            return subprocess.Popen(
                command(*self.args, "--json"),
                stdout=subprocess.DEVNULL,
                stderr=err,
                env=environment(),
                start_new_session=True,
            )

    def ask(self) -> dict[str, Any]:
        """The answers of the three verbs at one time; fetching: rounds that are being fetched."""
        told = [call(*verb, "--data", self.data) for verb in VERBS[:2]]
        before = len(self.web.seen)
        told.append(call(*VERBS[2], "--data", self.data))
        assert all(done.code == 0 for done in told), told
        status, queues = (json.loads(done.out) for done in told[:2])
        lines = told[2].out.splitlines()
        return {
            "status": status,
            "open": [r for r in status["rounds"] if r["state"] == "open"],
            "fetching": [r for r in status["rounds"] if r["fetching"] and r["driven"]],
            "queues": {q["host"]: q for q in queues["queues"]},
            "log": [line.split(" ") for line in lines],
            "server": (before, len(self.web.seen)),
        }

    def watch(self, process: subprocess.Popen[bytes], until: Any, limit_s: float) -> bool:
        """Ask again and again until the crawl ends (False) or `until` holds of an answer."""
        deadline = time.monotonic() + limit_s
        while process.poll() is None and time.monotonic() < deadline:
            if (self.data / "crawl.yaml").exists() and (self.data / "tables/crawldb").exists():
                self.answers.append(self.ask())
                if until(self.answers[-1]):
                    return True
            time.sleep(POLL_S)
        assert process.poll() is not None, "the crawl did not end"
        return False


def slow_left(answer: dict[str, Any]) -> dict[str, Any] | None:
    """The slow host's queue in a running fetch."""
    waiting = [w for r in answer["fetching"] for w in r["fetching"]["waiting"]]
    return next((w for w in waiting if w["host"] == SLOW), None)


@pytest.fixture(scope="module", params=[(25, 16), (400, 70)], ids=["small", "whole"])
def watched(request, tmp_path_factory):
    pages, slow_pages = request.param
    with eleven_hosts(pages, slow_pages) as web:
        watched = Watched(web, tmp_path_factory.mktemp("eleven"))
        process = watched.start()
        try:
            late = slow_pages // 2

            def is_late(answer):
                left = slow_left(answer)
                return left is not None and left["urls"] <= late

            watched.interrupted = watched.watch(process, is_late, 60 + 2 * slow_pages)
            watched.busy = run(*watched.args, "--json", timeout=60)
            process.send_signal(signal.SIGINT)
            process.wait(30)
            watched.stopped = watched.ask()
            watched.stopped_text = call("status", "--data", watched.data).out
            process = watched.start()
            watched.watch(process, lambda _: False, 60 + 2 * slow_pages)
            assert process.returncode == 0, watched.err.read_text()
            watched.end = watched.ask()
            watched.planned = planned(watched.data)
            yield watched
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(10)


def planned(data: Path) -> dict[str, set[str]]:
    """The URLs of each round."""
    found: dict[str, set[str]] = {}
    table = DeltaTable(str(data / "tables/fetchlist")).to_pyarrow_table(columns=["round_id", "url"])
    for row in table.to_pylist():
        found.setdefault(row["round_id"], set()).add(row["url"])
    return found


def running(watched):
    """Answers about fetches after the first round, with the round that is fetched."""
    found = [(a, r) for a in watched.answers for r in a["fetching"] if r["round_id"] > "r000001"]
    assert found
    return found


def test_the_rates_are_those_of_the_servers_log(watched):
    web, n = watched.web, 0
    for _, row in running(watched):
        f, mine = row["fetching"], watched.planned[row["round_id"]]
        window_s = min(RECENT_S, f["elapsed_s"])
        if window_s < 3:
            continue
        n += 1
        of_all = web.asked(until=f["at"], since=f["at"] - window_s)
        served = [x for x in of_all if f"http://{x.request.host}{x.request.target}" in mine]
        size = sum(len(x.reply.body) for x in served)
        rate = f["recent"]
        slack = 0.2 + 4 / window_s  # a second at either end of the window, and rows without request
        assert abs(rate["bytes_per_s"] * window_s - size) <= slack * size + 8000, (f, size)
        assert abs(rate["pages_per_s"] * window_s - len(served)) <= slack * len(served) + 20
    assert n >= 2


def test_what_is_waited_for_is_the_slow_host_and_why(watched):
    web, checked = watched.web, 0
    for answer, row in running(watched):
        f = row["fetching"]
        left = next((w for w in f["waiting"] if w["host"] == SLOW), None)
        if left is None or f["elapsed_s"] < 3:
            continue
        checked += 1
        assert (left["delay_s"], left["why"]) == (CRAWL_DELAY_S, "Crawl-delay")
        got = [
            x
            for x in web.asked(SLOW, until=f["at"])
            if x.request.target not in ("/", "/robots.txt")
        ]
        assert abs(left["urls"] - (web.slow_pages - len(got))) <= 2
        queue = answer["queues"][SLOW]
        assert queue["set_by"] == "Crawl-delay" and abs(queue["fetching"] - left["urls"]) <= 3
    assert checked >= 2


def test_the_time_to_go_is_the_slow_hosts_queue(watched):
    late = [
        (left, row["fetching"])
        for _, row in running(watched)
        if row["fetching"]["elapsed_s"] > 5 and (left := slow_left({"fetching": [row]}))
    ]
    assert late
    for left, f in late:
        assert left["wait_s"] <= f["eta_s"] <= left["wait_s"] + 3, f


def test_the_log_has_the_servers_requests_while_it_runs(watched):
    for answer in watched.answers:
        sent = sum(line[1].isdigit() for line in answer["log"])
        before, after = answer["server"]
        assert before - UNDER_WAY <= sent <= after + 3  # the server notes it once it has answered
    logged = Counter(line[3] for line in watched.end["log"] if line[1].isdigit())
    served = Counter(f"http://{x.request.host}{x.request.target}" for x in watched.web.asked())
    assert logged - served == Counter()
    cut_off = served - logged  # what was under way at the interrupt, and was asked again
    assert cut_off.total() <= UNDER_WAY // 2 and cut_off.keys() <= logged.keys()


def test_the_stage_that_runs_and_what_is_new_is_told(watched):
    stages = [
        (r["round_id"], r["stage"]["number"])
        for a in watched.answers
        for r in a["open"]
        if r["stage"]
    ]
    for name in {round_id for round_id, _ in stages}:
        numbers = [n for round_id, n in stages if round_id == name]
        assert numbers == sorted(numbers) and all(1 <= n <= 8 for n in numbers)
    fetched = [r for a in watched.answers for r in a["fetching"]]
    assert all(r["stage"]["stage"] == "fetch" and r["stage"]["for_s"] >= 0 for r in fetched)
    assert all(r["new"] > 0 and r["again"] == 0 for r in fetched)


def test_alerts_fire_while_the_round_runs(watched):
    broken = [
        a["name"] for answer in watched.answers for r in answer["fetching"] for a in r["alerts"]
    ]
    assert "errors_warn" in broken


def test_an_interrupted_crawl_is_told_of_and_goes_on(watched):
    assert watched.interrupted
    (row,) = [r for r in watched.stopped["open"] if r["fetching"]]
    assert row["driven"] is False and row["stage"] is None
    assert "interrupted while it fetched, at " in watched.stopped_text
    assert "nobody drives it" in watched.stopped_text
    slow = [x.request.target for x in watched.web.asked(SLOW)]
    assert len(slow) - len(set(slow)) <= 2  # robots.txt and what was under way
    assert {f"/{n}" for n in range(watched.web.slow_pages)} <= set(slow)


def test_a_second_crawl_on_the_folder_ends_with_3_and_says_who_drives_it(watched):
    assert watched.busy.code == 3 and "is held by another process (pid" in watched.busy.err, (
        watched.busy
    )


def test_the_server_finds_it_polite_and_no_trap_without_end(watched):
    web = watched.web
    slow = web.asked(SLOW)
    robots = next(x for x in slow if x.request.target == "/robots.txt")
    gaps = [
        b.start - a.end for a, b in zip(slow, slow[1:], strict=False) if a.start >= robots.start
    ]
    assert min(gaps) >= CRAWL_DELAY_S - 0.001
    assert {x.request.target for x in web.asked(DENY)} == {"/robots.txt"}
    assert not web.asked(DOWN) and not web.asked(SELF)
    assert len(web.asked(TRAP)) <= 2 + 3 + 9 + 27  # two rounds, run twice: a depth in each
    for host in PLAIN:
        assert len({x.request.target for x in web.asked(host)}) == web.pages + 2
    audit = call("audit", "--data", watched.data, "--json").said
    assert audit["violations"] == 0, audit
    told = call("errors", "--data", watched.data, "--json").said
    reasons = {r["reason"] for r in told["counts"]}
    assert {"connect_refused", "tls_cert_invalid", "http_404"} <= reasons
