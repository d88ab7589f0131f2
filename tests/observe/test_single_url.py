"""fetch-one and parse-one: a real slot for one URL."""

from __future__ import annotations

import json

import pytest
import yaml
from crawlkit.adapters.browser.rendering import BrowserMissing
from crawlkit.cli.main import load_all
from crawlkit.config import Config, ConfigError
from crawlkit.control.commands import run_command
from crawlkit.crawl.state import CrawlError
from crawlkit.local.web_server import Reply
from crawlkit.observe.single_url import fetch_one, render_one
from crawlkit.outcomes import Refused
from crawlkit.parsing.single_page import parse_one
from crawlkit.rules.url.domains import host_bucket
from typer.testing import CliRunner

from tests.adapters.browser.chromium import chromium
from tests.control.smallcrawl import NOW, make_crawl
from tests.slot.slotweb import SlotWeb, page, robots

pytestmark = pytest.mark.waits

RUN = CliRunner()
HTML = (
    "<html><head><title>A page</title></head><body><main><p>Some words that are the text of this"
    " page.</p><a href='/b?utm_source=x'>b</a></main></body></html>"
)


@pytest.fixture
def web():
    with SlotWeb(
        {
            "a.test": {
                "/": page(HTML),
                "/robots.txt": robots("User-agent: *\nDisallow: /no\n"),
                "/no": page("x"),
            }
        }
    ) as web:
        yield web


def test_a_page_is_fetched_by_the_rules(web):
    got = fetch_one("HTTP://A.test/#x", web.config())
    assert (got.capture.outcome, got.capture.status, got.payload) == ("fetched", 200, HTML.encode())
    assert ("Content-Type", "text/html") in got.headers
    assert got.robots.outcome == "fetched"
    assert fetch_one("http://a.test/no", web.config()).capture.robots_line == "Disallow: /no"
    assert web.asked("a.test") == ["/robots.txt", "/", "/robots.txt"]


def test_a_robots_txt_that_leads_to_another_domain_is_followed_there(tmp_path):
    crawl = make_crawl(tmp_path)
    moved = Reply(301, [("Location", "http://new.test/robots.txt")])
    sites = {
        "old.test": {"/robots.txt": moved, "/": page(HTML), "/no": page("x")},
        "new.test": {"/robots.txt": robots("User-agent: *\nDisallow: /no\n")},
    }
    with SlotWeb(sites) as web:
        cfg = crawl.cfg = web.config()
        got = fetch_one("http://old.test/", cfg, crawl)
        assert (got.capture.outcome, got.robots.outcome) == ("fetched", "fetched")
        denied = fetch_one("http://old.test/no", cfg, crawl).capture
        assert denied.robots_line == "Disallow: /no"
        assert web.violations() == []
        taken = crawl.open_round(NOW)
        with crawl.lock:
            crawl.claim(taken, [host_bucket("new.test", cfg.frontier.buckets)])
        with pytest.raises(CrawlError, match="new.test"):
            fetch_one("http://old.test/", cfg, crawl)


def test_loopback_only_by_configuration(web):
    cfg = web.config(fetch={"allow_private": []})
    got = fetch_one("http://a.test/", cfg)
    assert (got.capture.outcome, got.payload) == ("refused", b"")
    assert web.log == []
    with pytest.raises(ConfigError, match="placeholder"):
        fetch_one("http://public.example/", Config())
    with pytest.raises(Refused):
        fetch_one("ftp://a.test/", cfg)


def test_a_crawls_pace_and_stop_list_hold(web, tmp_path):
    crawl = make_crawl(tmp_path)
    cfg = web.config(politeness={"delay_s": 1.0})
    crawl.cfg = cfg
    fetch_one("http://a.test/", cfg, crawl)
    fetch_one("http://a.test/", cfg, crawl)
    starts = sorted((x.start, x.end) for x in web.log)
    assert all(b[0] - a[1] >= 1.0 for a, b in zip(starts, starts[1:]))
    n = len(web.log)
    run_command(crawl, "block", {"host": "a.test"}, actor="me")
    assert fetch_one("http://a.test/", cfg, crawl).capture.reason == "stop_list"
    assert len(web.log) == n


def test_a_host_of_an_open_round_is_left_to_it(web, tmp_path):
    crawl = make_crawl(tmp_path)
    round_ = crawl.open_round(NOW)
    with crawl.lock:
        crawl.claim(round_, [host_bucket("a.test", crawl.cfg.frontier.buckets)])
    with pytest.raises(CrawlError, match="has the bucket"):
        fetch_one("http://a.test/", web.config(), crawl)


def test_what_a_body_says():
    found = parse_one(HTML.encode(), "http://a.test/x", Config(), "text/html")
    assert (found["title"], found["kind"], found["noindex"]) == ("A page", "html", False)
    assert [link["url"] for link in found["links"]] == ["http://a.test/b"]
    assert "words that are the text" in found["main_text"]
    json.dumps(found)


def test_the_commands(web, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text(
        yaml.safe_dump(
            web.config().model_dump(include={"fetch", "politeness", "lease", "round"}, mode="json")
        )
    )
    out = tmp_path / "body"
    done = RUN.invoke(
        load_all(),
        ["fetch-one", "http://a.test/", "--config", str(config), "--out", str(out), "--json"],
    )
    assert (done.exit_code, json.loads(done.stdout)["status"], out.read_text()) == (0, 200, HTML)
    assert (
        RUN.invoke(load_all(), ["fetch-one", "http://a.test/no", "--config", str(config)]).exit_code
        == 1
    )
    assert (
        json.loads(
            RUN.invoke(
                load_all(), ["parse-one", "http://a.test/", "--config", str(config), "--json"]
            ).stdout
        )["title"]
        == "A page"
    )
    file = tmp_path / "x.html"
    file.write_text(HTML)
    text = RUN.invoke(load_all(), ["parse-one", str(file), "--url", "http://b.test/"])
    assert text.exit_code == 0
    assert "http://b.test/b" in text.stdout
    assert RUN.invoke(load_all(), ["parse-one", str(tmp_path / "none")]).exit_code == 2


APP = (
    b"fetch('http://api.other.test/list.json').then(r => r.json()).then(d => { root.innerHTML ="
    b" `<h1>${d.title}</h1><a href=${d.next}>next</a>` }); fetch('/no'); new Image().src = '/i.png'"
)


@pytest.fixture
def apps():
    """A page whose script asks another host for its text."""
    json_of = [("Content-Type", "application/json"), ("Access-Control-Allow-Origin", "*")]
    sites = {
        "app.test": {
            "/": page("<title>x</title><div id=root></div><script src=/app.js></script>"),
            "/app.js": Reply(200, [("Content-Type", "text/javascript")], APP),
            "/robots.txt": robots("User-agent: *\nDisallow: /no\n"),
            "/gone": Reply(404, [("Content-Type", "text/html")], b"gone"),
        },
        "api.other.test": {"/list.json": Reply(200, json_of, b'{"title": "Told", "next": "/n"}')},
    }
    with SlotWeb(sites) as web:
        yield web


def test_static_and_rendered_beside_each_other(apps, tmp_path):
    cfg = apps.config(render={"chromium": chromium()})
    shown = tmp_path / "crawl.yaml"
    sections = {"fetch", "politeness", "lease", "round", "render"}
    shown.write_text(yaml.safe_dump(cfg.model_dump(include=sections, mode="json")))
    picture = tmp_path / "app.png"
    args = ["fetch-one", "http://app.test/", "--config", str(shown)]
    done = RUN.invoke(load_all(), [*args, "--render", "--screenshot", str(picture), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["static"]["text"], told["static"]["links"]) == ("", [])
    assert told["rendered"]["text"] == "Told\nnext"
    assert told["links_gained"] == ["http://app.test/n"]
    assert (told["needs_js"], told["cloaking"]) == ("framework_root", None)
    asked = [(r["kind"], r["url"], r["status"]) for r in told["requests"]]
    assert sorted(asked, key=str) == [
        ("fetch", "http://api.other.test/list.json", 200),
        ("fetch", "http://app.test/no", None),
        ("script", "http://app.test/app.js", 200),
    ]
    assert told["blocked"] == {"image": 1} and told["render_ms"] > 300
    assert picture.read_bytes().startswith(b"\x89PNG")
    # each once, by the rules: the second render knows robots.txt; the script has no freshness
    assert apps.violations() == []
    assert apps.asked("app.test") == ["/robots.txt", "/", "/app.js", "/app.js"]
    assert apps.asked("api.other.test") == ["/robots.txt", "/list.json"]


def test_what_cannot_be_rendered(apps, tmp_path):
    cfg = apps.config(render={"chromium": chromium()})
    one = render_one("http://app.test/gone", cfg)
    assert (one.capture, one.summary()["outcome"]) == (None, "http_error")
    with pytest.raises(BrowserMissing, match="no Chromium"):
        render_one("http://app.test/", apps.config(render={"chromium": str(tmp_path / "none")}))
    assert apps.asked("app.test") == ["/robots.txt", "/gone"]
