"""Quotas of domains, agreed rates, own sites, the agent's page, rules about parameters: in whole
rounds (C3, D6, D7, D8).
"""

from __future__ import annotations

import json

import pytest
from crawlkit.config import ConfigError
from crawlkit.control.app import make_app
from starlette.testclient import TestClient

from tests.cli.call import call
from tests.engines import run_on
from tests.rounds.row_web import DAY_S, EPOCH, RowWeb, page

pytestmark = [pytest.mark.rounds]
on = run_on("local")
TOKEN = "a-token-for-this-test"


def left_out(job) -> dict[str, int]:
    newest = job.crawl.round(job.crawl.round_ids()[-1])
    return job.crawl.mark(newest, "generate")["left_out"]


def asked(web: RowWeb) -> list[str]:
    return [u for u in web.log if not u.endswith("robots.txt")]


def test_made_up_subdomains_share_the_quota_of_their_domain(on, tmp_path):
    names = {f"s{n}.many.example": f"127.86.0.{n + 1}" for n in range(6)}
    hosts = names | {"one.other.example": "127.86.0.9"}
    with RowWeb(tmp_path / "crawl", hosts, on, politeness__domain_day_quota=4) as web:
        urls = [f"http://{h}/{n}" for h in hosts for n in range(3)]
        web.pages |= {u: page(u) for u in urls}
        job = web.run(EPOCH, urls)
        of_domain = [u for u in asked(web) if ".many." in u]
        assert (len(of_domain), len(asked(web)) - len(of_domain)) == (4, 3)
        assert left_out(job) == {"domain_day_quota": 14}
        job = web.run(EPOCH + 60)  # the same day by the clock
        assert left_out(job) == {"domain_day_quota": 14}
        web.give("host_set", host="s0.many.example", quota_max=6)  # the operator's word lifts it
        web.run(EPOCH + 120)
        assert len([u for u in asked(web) if ".many." in u]) == 6


def test_an_agreed_rate_and_an_own_site_reach_the_plan(on, tmp_path):
    """A round of 6 s: 3 URLs at the pace of 3 s, 13 at the agreed one, all of an own site."""
    hosts = {
        "slow.example": "127.86.1.1",
        "agreed.example": "127.86.1.2",
        "own.example": "127.86.1.3",
    }
    settings = {"politeness__delay_s": 3.0, "round__minutes": 0.1}
    with RowWeb(tmp_path / "crawl", hosts, on, **settings) as web:
        urls = [f"http://{h}/{n}" for h in hosts for n in range(40)]
        web.pages |= {u: page(u) for u in urls}
        web.give("host_set", host="agreed.example", delay_s=0.5)
        web.give("host_set", host="own.example", exempt=True)
        job = web.job()
        round_ = job.crawl.open_round(EPOCH)
        job.run("inject", round_, force=True, lines=urls)
        job.run("generate", round_)
        planned = job.of_round("fetchlist", round_).where("kind = 'page'")
        rows = planned.select("host").rows()
        counts = {h: sum(r["host"] == h for r in rows) for h in hosts}
        assert counts == {"slow.example": 3, "agreed.example": 13, "own.example": 40}


def test_a_host_beyond_loopback_is_not_asked_by_the_placeholder_agent(on, tmp_path):
    """A stage of its own refuses, not only `crawl`: the frontier may come from anywhere."""
    with RowWeb(tmp_path / "crawl", {"a.example": "127.86.2.1"}, on) as web:
        web.pages["http://a.example/"] = page("a")
        with pytest.raises(ConfigError, match=r"public\.example is not asked"):
            web.run(EPOCH, ["http://a.example/", "http://public.example/"])
        assert web.log == []


def test_the_agents_page_says_who_it_is_and_how_to_keep_it_away(tmp_path):
    sets = (
        "agent.name=ourbot",
        "agent.info_url=https://us.example/bot?a&b",
        "agent.from=x@us.example",
    )
    given = [word for s in sets for word in ("--set", s)]
    done = call("agent-page", *given, "--out", tmp_path / "bot.html")
    text = (tmp_path / "bot.html").read_text("utf-8")
    assert done.code == 0
    assert "User-agent: ourbot\nDisallow: /" in text
    assert "+https://us.example/bot?a&amp;b)" in text
    assert "x@us.example" in text


@pytest.fixture(scope="module")
def catalog(on, tmp_path_factory):
    """A shop whose pages say by their canonical links that `ref` does not matter."""
    folder = tmp_path_factory.mktemp("params") / "crawl"
    with RowWeb(folder, {"shop.example": "127.86.3.1"}, on) as web:
        urls = [f"http://shop.example/item?id={n}&ref={n % 3}" for n in range(8)]
        for n, url in enumerate(urls):
            web.pages[url] = page(f"item {n}", head=f'<link rel=canonical href="/item?id={n}">')
        web.run(EPOCH, urls)
        yield web


def test_a_proposed_rule_is_accepted_and_taken_back_by_command_and_api(catalog):
    rules = json.loads(call("params", "--data", catalog.folder, "--json").out)["rows"]
    assert [(r["host"], r["name"], r["in_force"]) for r in rules] == [
        ("shop.example", "ref", False)
    ]
    done = call("params", "--accept", "shop.example:ref", "--data", catalog.folder, "--json")
    assert json.loads(done.out)["rows"][0]["in_force"] is True
    normal = call("normalize", "http://shop.example/item?id=1&ref=2", "--data", catalog.folder)
    assert normal.out.strip() == "http://shop.example/item?id=1"
    client = TestClient(
        make_app(catalog.folder, catalog.cfg(), TOKEN), headers={"Authorization": f"Bearer {TOKEN}"}
    )
    assert client.get("/v1/params").json()["items"][0]["in_force"] is True
    body = {"host": "shop.example", "name": "ref", "in_force": False}
    assert client.put("/v1/params", json=body).json()["names"] == []
    normal = call("normalize", "http://shop.example/item?id=1&ref=2", "--data", catalog.folder)
    assert normal.out.strip() == "http://shop.example/item?id=1&ref=2"
    verbs = [r["verb"] for r in catalog.job().tables.rows("commands", ["verb"])]
    assert sorted(verbs) == ["params_accept", "params_take_back"]


def test_an_accepted_rule_holds_in_the_next_round(catalog):
    call("params", "--accept", "shop.example:ref", "--data", catalog.folder)
    catalog.pages["http://shop.example/item?id=9"] = page("item 9")
    seed = ["http://shop.example/item?id=9&ref=1"]
    catalog.run(EPOCH + DAY_S, seed, urls__host_params={"shop.example": ["ref"]})
    assert "http://shop.example/item?id=9" in catalog.log
