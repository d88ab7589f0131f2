"""explain: what a crawl knows of a URL, from tables written by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from crawlkit.cli.main import load_all
from crawlkit.control.commands import run_command
from crawlkit.observe.explain import explain
from crawlkit.observe.explain_text import explain_text
from crawlkit.rules.url.canonical import url_key
from typer.testing import CliRunner

from tests.control.smallcrawl import NOW, known, write

pytestmark = pytest.mark.waits

RUN = CliRunner()


def test_a_fetched_url(crawl):
    x = explain(crawl, "HTTP://a.test:80/?utm_source=x", NOW + 10)
    assert x["canonical"] == "http://a.test/"
    assert [s["what"] for s in x["rewritings"]][-1] == "tracking parameters removed"
    assert x["scope"] == {"in_scope": True, "reason": None}
    assert (x["robots"]["allowed"], x["robots"]["group"], x["robots"]["crawl_delay_s"]) == (
        True,
        "crawlkit",
        2.0,
    )
    assert x["host"]["delay_ms"] == 2000
    assert x["schedule"]["next_fetch"] == NOW + 86_400
    assert [c["outcome"] for c in x["captures"]] == ["fetched"]
    assert any("it is due at" in w for w in x["why"])
    assert "http://a.test/" in explain_text(x)


def test_a_forbidden_url(crawl):
    x = explain(crawl, "http://a.test/private/x", NOW + 10)
    assert (x["robots"]["allowed"], x["robots"]["line_no"], x["robots"]["line"]) == (
        False,
        2,
        "Disallow: /private",
    )
    assert any(
        w == "robots.txt forbids it: line 2 of group crawlkit: Disallow: /private" for w in x["why"]
    )
    assert "forbidden by line 2" in explain_text(x)


def test_a_dead_url(crawl):
    x = explain(crawl, "http://a.test/dead", NOW + 10)
    assert any("dead: http_404 404" in w for w in x["why"])
    run_command(crawl, "recrawl", {"urls": ["http://a.test/dead"]}, actor="me")
    assert any("recrawl" in w for w in explain(crawl, "http://a.test/dead")["why"][-1:])


def test_a_url_of_a_stopped_host_comes_first(crawl):
    run_command(crawl, "block", {"host": "a.test", "reason": "they asked"}, actor="me")
    assert (
        explain(crawl, "http://a.test/")["why"][0] == "an operator has stopped the host: they asked"
    )


def test_unknown_and_impossible_urls(crawl):
    assert explain(crawl, "http://nobody.test/")["why"][0] == "the crawl does not know it"
    assert explain(crawl, "mailto:x@a.test")["refused"] == "url_scheme"
    assert "refused" in explain_text(explain(crawl, "mailto:x@a.test"))


def test_rows_of_the_log_count_until_they_are_folded(crawl):
    log: list[dict[str, Any]] = [
        known(crawl, "http://a.test/", state="retrying", error_type="timeout", next_fetch=NOW + 60)
        | {
            "round_id": "r000002",
            "writer": "update",
            "kind": "state",
            "seq": 0,
            "force": False,
            "updated_no": 2,
        }
    ]
    write(crawl, "crawldb_log", log)
    assert explain(crawl, "http://a.test/", NOW)["schedule"]["state"] == "retrying"
    write(
        crawl,
        "buckets",
        [{"host_bucket": log[0]["host_bucket"], "rows": 3, "log_rows": 0, "folded_through": 2}],
    )
    assert explain(crawl, "http://a.test/", NOW)["schedule"]["state"] == "fetched"


def test_duplicates_are_named(crawl):
    rows = [
        {
            "url_key": url_key(u),
            "url": u,
            "cluster_id": url_key("http://a.test/"),
            "canonical_url": "http://a.test/",
            "method": m,
            "size": 2,
        }
        for u, m in (("http://a.test/", "canonical"), ("http://a.test/copy", "exact"))
    ]
    write(crawl, "duplicates", rows)
    d = explain(crawl, "http://a.test/")["duplicates"]
    assert d["members"] == ["http://a.test/", "http://a.test/copy"]
    assert "stands for it" in explain_text(explain(crawl, "http://a.test/copy"))


def test_the_command(crawl):
    done = RUN.invoke(
        load_all(), ["explain", "http://a.test/private/x", "--data", str(crawl.data), "--json"]
    )
    assert done.exit_code == 0
    assert json.loads(done.stdout)["robots"]["line_no"] == 2
    assert (
        RUN.invoke(
            load_all(), ["explain", "http://a.test/", "--data", str(crawl.data / "none")]
        ).exit_code
        == 2
    )


def test_a_429_for_robots_txt_is_read_as_the_fetch_reads_it(crawl):
    row = {"origin": "http://a.test", "host": "a.test", "fetched_at": NOW + 5, "status": 429}
    write(crawl, "robots", [row | {"expires": NOW + 9, "round_id": "r000001"}])
    url = "http://a.test/private/x"
    assert explain(crawl, url, NOW + 10)["robots"]["allowed"] is None
    crawl.cfg = crawl.cfg.model_copy(
        update={"robots": crawl.cfg.robots.model_copy(update={"on_429": "allow"})}
    )
    x = explain(crawl, url, NOW + 10)
    assert (x["robots"]["status"], x["robots"]["allowed"]) == (429, True)


def test_days_and_numbers_are_written_for_people(crawl):
    x = explain(crawl, "http://a.test/", NOW + 10)
    x["host"] |= {"quota_day": "19676", "avg_ms": 3.84100738720743, "last_ips": ["192.0.2.1"]}
    text = explain_text(x)
    assert "avg_ms 3.84, " in text
    assert "quota_day 2023-11-15, " in text
    assert "last_ips 192.0.2.1" in text
