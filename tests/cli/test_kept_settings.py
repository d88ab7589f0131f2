"""The settings that live with a crawl, the scope that its seeds stand for, and its limits."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.cli.call import call

pytestmark = pytest.mark.waits
BOT = ("--set", "agent.info_url=http://you.example/bot")
QUICK = ("--rounds", 1, "--set", "fetch.dns_timeout_s=0.5")


def keep(folder, *args):
    return call("config", "--data", folder, *args)


def kept(folder):
    return yaml.safe_load((folder / "crawl.yaml").read_text())


def test_a_change_is_told_and_kept_with_save_alone(tmp_path):
    assert keep(tmp_path, "--set", "politeness.delay_s=3", "--save").code == 0
    changed = keep(tmp_path, "--set", "politeness.delay_s=2")
    assert changed.err == "crawlkit: politeness.delay_s: was 3.0, now 2.0\n"
    assert kept(tmp_path) == {"politeness": {"delay_s": 3}}
    assert keep(tmp_path, "--set", "politeness.delay_s=2", "--save").code == 0
    assert kept(tmp_path) == {"politeness": {"delay_s": 2}}
    assert keep(tmp_path).err == ""


def test_each_value_names_where_it_stands(tmp_path):
    file = tmp_path / "my.yaml"
    file.write_text("round:\n  minutes: 5\nfetch:\n  proxy: {'*': 'http://me:hush@p.example:1'}\n")
    keep(tmp_path, "--set", "politeness.delay_s=3", "--save")
    done = keep(tmp_path, "--config", file, "--set", "round.max_urls=7", "--json")
    rows = {r["key"]: (r["value"], r["from"]) for r in json.loads(done.out)["settings"]}
    assert rows["politeness.delay_s"] == (3.0, f"{tmp_path}/crawl.yaml:4")
    assert rows["round.minutes"] == (5.0, f"{file}:2")
    assert rows["round.max_urls"] == (7, "--set")
    assert rows["robots.max_bytes"][1] == "default"
    assert "hush" not in done.out + done.err


def test_a_damaged_file_is_named_with_its_line(tmp_path):
    (tmp_path / "crawl.yaml").write_text("politeness:\n  delay_s: soon\n")
    done = keep(tmp_path)
    assert done.code == 2
    assert f"{tmp_path}/crawl.yaml:2: politeness.delay_s" in done.err


@pytest.mark.parametrize(
    "kind, scope",
    [
        ((), {"domains": ["a.example", "b.example"]}),
        (("--scope", "host"), {"hosts": ["www.a.example", "b.example"]}),
        (("--scope", "prefix"), {"prefixes": ["http://www.a.example/x/", "http://b.example/"]}),
        (("--scope", "any"), {"any": True, "hosts": [], "domains": [], "prefixes": []}),
    ],
)
def test_the_first_seeds_make_the_scope(tmp_path, kind, scope):
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("http://www.a.example/x/y\nhttp://b.example\n# none\n")
    done = call("inject", "--seeds", seeds, "--data", tmp_path / "site", *kind, *BOT)
    assert done.code == 0, done.err
    assert kept(tmp_path / "site")["scope"] == scope


def test_a_seed_out_of_scope_is_refused_until_it_is_let_in(tmp_path):
    site = tmp_path / "site"
    seeds, others = tmp_path / "seeds.txt", tmp_path / "others.txt"
    seeds.write_text("http://a.example/\n")
    others.write_text("http://b.example/\n")
    call("inject", "--seeds", seeds, "--data", site, *BOT)
    done = call("inject", "--seeds", others, "--data", site, "--json")
    answer = json.loads(done.out)
    assert (answer["added"], answer["refused"]) == (0, 1)
    assert "--scope domain" in answer["examples"][0]
    done = call("inject", "--seeds", others, "--data", site, "--scope", "domain", "--json")
    assert json.loads(done.out)["added"] == 1
    assert 'scope.domains: was ["a.example"], now ["a.example", "b.example"]' in done.err
    assert kept(site)["scope"] == {"domains": ["a.example"]}
    call("inject", "--seeds", others, "--data", site, "--scope", "domain", "--save")
    assert kept(site)["scope"] == {"domains": ["a.example", "b.example"]}


@pytest.mark.parametrize("seeds", [(), ("ftp://x/",), ("mailto:me@x.example", "http://[::xyz]/")])
def test_without_a_usable_seed_a_crawl_ends_at_once(tmp_path, seeds):
    done = call("crawl", *seeds, "--data", tmp_path / "site", *BOT)
    assert done.code == 2
    assert "seed" in done.err and not (tmp_path / "site").exists()


def test_a_round_records_all_settings_without_passwords(tmp_path):
    proxy = "fetch.proxy={'*': 'http://me:hush@p.example:1'}"
    assert call("open", "--data", tmp_path, "--set", proxy).code == 0
    text = (tmp_path / "state/rounds/r000001/settings.json").read_text()
    settings = json.loads(text)
    assert settings["fetch"]["proxy"] == "(not shown)" and "hush" not in text
    assert settings["round"]["max_urls"] == 100_000


def test_limits_of_a_command_end_it(tmp_path):
    data = ("--data", tmp_path / "site", "--sample", "data/samples/site", "--json")
    answer = json.loads(call("crawl", *data, "--max-pages", 30, "--rounds", 5).out)
    assert answer["reached"] == "--max-pages"
    asked = call("sql", "SELECT count(*) AS n FROM captures WHERE kind <> 'robots'", *data[:2])
    assert asked.out.split()[-1] == "30"
    answer = json.loads(call("crawl", *data, "--max-bytes", 2000, "--rounds", 2).out)
    assert answer["reached"] == "--max-bytes"
    assert answer["outcomes"]["deferred (round_bytes)"] > 10
