"""Six rounds over the synthetic web, made once for all tests that look at a whole crawl."""

from __future__ import annotations

import time

from crawlkit.config import parse_config
from crawlkit.crawl.state import Crawl
from crawlkit.round.drive import run_round
from crawlkit.round.job import Job

from tests.fakeweb import DAY_S, EPOCH, Policy, Process, build, every, expected, load_log

SCALE, SEED = 0.1, 7


def crawl_web(on, folder, web, server, nows, sets=(), seed_rounds=1):
    """Rounds at the given nominal times; the job."""
    cfg = parse_config(web.config_yaml(server.port), "fakeweb", sets)
    job = Job(Crawl(folder, cfg), quick=True, **on)
    for n, now in enumerate(nows):
        server.set_day(int((now - EPOCH) // DAY_S))
        round_ = job.crawl.open_round(now)
        if n < seed_rounds:
            job.run("inject", round_, force=True, lines=web.seeds)
        run_round(job, round_)
    return job


def known(on, folder, place, sets=()):
    """The web, the job, the server's log, the right answer.

    `folder` takes the log, `place` (a folder or in S3) the crawl.
    """
    web = build(SEED, SCALE)
    nows = (*every(600, 4), EPOCH + 1.1 * DAY_S, EPOCH + 4.2 * DAY_S)
    with Process(folder, seed=SEED, scale=SCALE) as server:
        job = crawl_web(on, place, web, server, nows, sets)
        time.sleep(0.2)
        log = load_log(server.log)
    return web, job, log, expected(web, Policy(nows=nows))
