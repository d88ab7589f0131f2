"""Rounds over synthetic webs of which every page is a seed, judged by the server's own log and by
audit; a planted violation is found (REQUIREMENTS D10).
"""

from __future__ import annotations

import time

import pytest
from crawlkit.config import parse_config
from crawlkit.crawl.state import Crawl
from crawlkit.report.audit import audit
from crawlkit.round.job import Job
from crawlkit.tables import TABLES

from tests.fakeweb import DAY_S, EPOCH, Delays, Server, build, judge, load_log
from tests.frames import collect

pytestmark = [pytest.mark.rounds]
SCALE, ROUNDS = 0.1, 2
STAGES = (
    "generate",
    "fetch",
    "commit",
    "update",
)  # those that ask, and what they hand to the next round
RUNS = [
    (11, 1),
    (12, 2),
    (13, 3),
    (14, 5),
    (15, 8),
    (16, 1),
    (17, 2),
    (18, 4),
    (19, 6),
    (20, 3),
]  # seed of the web, fetch.slots


def crawled(on, folder, seed: int, slots: int):
    """A job after some rounds over a web of its own, the web, the server's log, and when (monotonic
    s) the first round was over.
    """
    web, first_over = build(seed, SCALE), 0.0
    with Server(web, folder / "web.jsonl") as server:
        job = Job(
            Crawl(
                folder / "crawl",
                parse_config(web.config_yaml(server.port), "fakeweb", (f"fetch.slots={slots}",)),
            ),
            quick=True,
            **on,
        )
        for n in range(ROUNDS):
            round_ = job.crawl.open_round(EPOCH + 1.1 * DAY_S * n)
            if n == 0:
                job.run("inject", round_, lines=sorted(web.pages))
            for stage in STAGES:
                job.run(stage, round_)
            job.crawl.close(round_)
            first_over = first_over or time.monotonic()
        time.sleep(0.3)
    return web, job, load_log(folder / "web.jsonl"), first_over


@pytest.mark.parametrize(
    ("seed", "slots"),
    [run if run == (13, 3) else pytest.param(*run, marks=pytest.mark.slow) for run in RUNS],
)
def test_the_servers_log_and_audit_show_no_violation(on, tmp_path, seed, slots):
    web, job, log, first_over = crawled(on, tmp_path, seed, slots)
    delays = Delays(host_s=job.cfg.politeness.delay_s, domain_s=job.cfg.politeness.domain_delay_s)
    assert len(log) > 300 and len({e.host for e in log}) > 10
    found, later = (
        judge(log, web, delays),
        judge([e for e in log if e.start > first_over], web, delays),
    )
    # D2: hosts share a task by the address they had when last looked up, which nobody knows in the
    # first round
    assert found.total == (len(found.address_gap) if slots > 1 else 0), str(found)
    assert not later.address_gap, str(later)
    told = audit(job)
    assert (
        told["requests"] >= len([e for e in log if e.status is not None and not e.aborted])
        and told["violations"] == 0
    ), told["examples"]
    planted(job)


def planted(job: Job) -> None:
    """Audit finds one request moved closer to the one before it, and one sent to what robots.txt
    forbids.
    """
    rows = collect(
        job.read("captures")
        .where("kind = 'page' AND started IS NOT NULL")
        .select(
            "capture_id",
            "round_id",
            "host",
            "started",
            "ended",
        )
    )
    by_host: dict[tuple[str, str], list] = {}
    for r in sorted(rows, key=lambda r: r.started):
        by_host.setdefault((r.round_id, r.host), []).append(r)
    first, second = next(
        (a, b) for rs in by_host.values() for a, b in zip(rs, rs[1:], strict=False)
    )
    gap = second.started - first.ended
    part = {"round_id": [second.round_id]}
    rows = job.tables.rows("captures", TABLES["captures"].column_names, part)
    for r in rows:
        if r["capture_id"] == second.capture_id:
            r |= {name: r[name] - (gap - 0.01) for name in ("started", "ended")}
    with job.crawl.lock:
        job.tables.replace("captures", rows, part)
    told = audit(job)
    assert told["host"] >= 1 and any(second.host in str(e) for e in told["examples"]), told
    denied = job.read("captures").where("outcome = 'robots_denied' AND kind = 'page'")
    forbidden = next(iter(collect(denied)), None)
    assert forbidden is not None, "the web forbids nothing: the test shows nothing"
    part = {"round_id": [forbidden.round_id]}
    rows = job.tables.rows("captures", TABLES["captures"].column_names, part)
    for r in rows:
        if r["capture_id"] == forbidden.capture_id:
            r |= dict.fromkeys(("started", "ended"), second.started + 3600)
    with job.crawl.lock:
        job.tables.replace("captures", rows, part)
    assert audit(job)["disallowed"] == 1
