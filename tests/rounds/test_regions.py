"""One frontier, one fetch job a region; a dead region's URLs are given back and the nearest takes
its place (REQUIREMENTS E4).
"""

from __future__ import annotations

import json

import pytest
from crawlkit.adapters.store.flock import LockHeld
from crawlkit.adapters.store.lease import Lease
from crawlkit.cli.verbs.stages import fetch_options
from crawlkit.config import Config, ConfigError, load_config, parse_config
from crawlkit.crawl.state import Crawl
from crawlkit.local.web_server import Reply, Request, WebServer
from crawlkit.round.drive import run_stage
from crawlkit.round.job import Job
from crawlkit.rules.frontier.slots import assign_in_regions
from crawlkit.slot.inputs import put_progress

from tests.engines import run_on
from tests.mmdb import make_mmdb
from tests.rounds.row_web import RowWeb, page

on = run_on("spark")

EPOCH = 1_767_225_600.0
HOSTS = {"a.example": "127.83.0.1", "b.example": "127.83.0.2", "c.example": "127.83.0.3"}
REGIONS = {"eu": ["a.example", "*.de"], "us": ["b.example", "*.com"], "asia": ["*.jp"]}


def config(**fetch) -> Config:
    return Config.model_validate({"fetch": {"regions": REGIONS, **fetch}})


def test_slots_of_a_region_are_its_own_and_an_address_stays_in_one():
    rows = [
        {"domain": d, "n": 1, "cost_s": cost, "ips": ips}
        for d, cost, ips in (
            ("a.example", 5.0, []),
            ("x.de", 1.0, ["192.0.2.1"]),
            ("b.example", 5.0, ["192.0.2.1"]),
            ("y.com", 1.0, []),
            ("z.com", 1.0, []),
        )
    ]
    slot_of, regions = assign_in_regions(rows, config(slots=2))
    assert {d: r for d, (_, r) in slot_of.items()} == {
        "a.example": "eu",
        "x.de": "us",
        "b.example": "us",
        "y.com": "us",
        "z.com": "us",
    }
    assert slot_of["x.de"] == slot_of["b.example"] and all(
        regions[s] == r for s, r in slot_of.values()
    )
    assert regions == ["eu", "us", "us"]


@pytest.fixture(scope="module")
def world(on, tmp_path_factory):
    asked: list[str] = []

    def answer(request: Request) -> Reply:
        if request.target == "/robots.txt":
            return Reply(404, [("Content-Type", "text/plain")], b"")
        asked.append(f"http://{request.host}{request.target}")
        return Reply(
            200,
            [("Content-Type", "text/html")],
            f"<title>{request.host}</title><p>words of {request.host}{request.target} stand"
            " here</p>".encode(),
        )

    folder = tmp_path_factory.mktemp("regions") / "crawl"
    with WebServer(HOSTS.values(), answer) as server:

        def job(**changes) -> Job:
            keys = {
                "fetch.connect_to": {h: f"{a}:{server.port}" for h, a in HOSTS.items()},
                "fetch.allow_private": ["127.0.0.0/8"],
                "fetch.ports": [80, 443, server.port],
                "politeness.delay_s": 0.05,
                "politeness.domain_delay_s": 0.01,
                "politeness.ip_delay_s": 0.01,
                "frontier.explore": 0,
                "frontier.guess_sitemap": False,
                "fetch.regions": {"eu": ["a.example"], "us": ["b.example", "c.example"]},
                "lease.ttl_s": 45,
                "lease.renew_s": 1,
                "lease.margin_s": 1,
                **changes,
            }
            return Job(
                Crawl(
                    folder,
                    parse_config(
                        "", "test", tuple(f"{k}={json.dumps(v)}" for k, v in keys.items())
                    ),
                ),
                quick=True,
                **on,
            )

        yield job, asked


@pytest.mark.rounds
def test_a_round_by_regions_of_which_one_is_dead(world):
    make, asked = world
    job, said = make(**{"politeness.delay_s": 0.7}), []
    job.say = said.append
    round_ = job.crawl.open_round(EPOCH)
    job.run("inject", round_, lines=[f"http://{h}/{n}" for h in HOSTS for n in range(3)])
    planned = job.run("generate", round_)
    assert planned["regions"] == ["eu", "us"] and planned["slots"] == 3
    other = next(
        r["slot"] for r in job.tables.rows("fetchlist", ["slot", "region"]) if r["region"] == "us"
    )
    put_progress(
        job.crawl.objects, round_.id, other, {"queued": 100, "done": 50}
    )  # the other region's machine is at it too
    run_stage(job, "fetch", round_, region="eu")
    mine = [e for e in said if e["event"] == "fetch_progress"]
    assert (
        mine and mine[-1]["done"] + mine[-1]["queued"] + mine[-1]["in_flight"] <= 4
    )  # three pages and robots.txt
    assert sorted(asked) == [f"http://a.example/{n}" for n in range(3)]
    assert job.run("fetch", round_, region="eu")["repeated"]
    # the other region's task is at it still: nothing is given away under its hands
    slot = next(
        r["slot"] for r in job.tables.rows("fetchlist", ["slot", "region"]) if r["region"] == "us"
    )
    lease = Lease(
        job.crawl.objects,
        f"leases/{round_.id}/{slot:05d}.json",
        "us-task",
        job.cfg.lease,
        job.cfg.fetch.timeout_s,
    )
    lease.acquire()
    with pytest.raises(LockHeld, match="region us of round r000001 is still fetching"):
        job.run("commit", round_)
    lease.release()
    counts = job.run("commit", round_)
    assert (
        counts["outcomes"]["deferred (slot_lost)"] == 8 and counts["outcomes"]["fetched"] == 3
    )  # 6 pages and 2 robots.txt
    assert job.crawl.mark(round_, "fetch")["regions_missing"] == ["us"]
    for stage in ("parse", "dedup", "update"):
        job.run(stage, round_)
    job.crawl.close(round_)
    rows = {
        r["url"]: r for r in job.tables.rows("crawldb", ["url", "state", "n_fetch", "next_fetch"])
    }
    assert {u: (r["state"], r["n_fetch"]) for u, r in rows.items()} == {
        f"http://{h}/{n}": ("fetched", 1) if h == "a.example" else ("queued", 0)
        for h in HOSTS
        for n in range(3)
    }
    assert {r["host"]: r["region"] for r in job.tables.rows("hostdb", ["host", "region"])} == {
        "a.example": "eu",
        "b.example": "us",
        "c.example": "us",
    }
    # the next round knows that it is down: the nearest fetches for it
    job = make(**{"fetch.regions_down": ["us"]})
    round_ = job.crawl.open_round(EPOCH + 60)
    assert job.run("generate", round_)["regions"] == ["eu"]
    job.run("fetch", round_, region="eu")
    job.run("commit", round_)
    assert sorted(asked) == sorted(f"http://{h}/{n}" for h in HOSTS for n in range(3))  # each once
    assert job.crawl.mark(round_, "fetch")["regions_missing"] == []


def test_a_region_that_there_is_not_is_refused(tmp_path):
    for given in ((), ('fetch.regions={"us": []}',)):
        with pytest.raises(ConfigError, match="--region eu"):
            fetch_options("eu", load_config(None, given))


@pytest.mark.rounds
def test_a_region_by_the_country_of_an_address(tmp_path):
    """Names decide in the first round; from the second on what is known of the addresses."""
    pytest.importorskip("maxminddb")
    file = tmp_path / "places.mmdb"
    german = {"country": {"iso_code": "DE"}, "continent": {"code": "EU"}}
    file.write_bytes(make_mmdb({"127.90.0.0/24": german}))
    hosts = {"a.example": "127.90.0.1", "b.org": "127.90.1.1", "c.org": "127.90.0.2"}
    settings = {
        "fetch__regions": {"us": ["*"], "eu": ["country:DE"], "own": ["c.org"]},
        "fetch__geoip": str(file),
    }
    with RowWeb(tmp_path / "crawl", hosts, {"engine": "local"}, **settings) as web:
        for host in hosts:
            web.pages[f"http://{host}/"] = page(host, "<a href=/2>two</a>")
        planned = []
        for now in (EPOCH, EPOCH + 60):
            job = web.run(now, [*web.pages] if now == EPOCH else None)
            newest = job.crawl.round(job.crawl.round_ids()[-1])
            rows = job.of_round("fetchlist", newest).where("kind = 'page'").rows()
            planned.append({r["host"]: r["region"] for r in rows})
        assert planned == [
            {"a.example": "us", "b.org": "us", "c.org": "own"},
            {"a.example": "eu", "b.org": "us", "c.org": "own"},
        ]
        regions = {h: r["region"] for h, r in web.rows("hostdb", "region", key="host").items()}
        assert regions == planned[1]
