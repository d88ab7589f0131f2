"""`crawlkit.open`: every table by its name, status, explain, crawling, Spark."""

from __future__ import annotations

import subprocess
import sys

import crawlkit
import pytest
import yaml
from crawlkit.config import ConfigError
from crawlkit.observe.views import VIEWS
from crawlkit.tables import TABLES

from tests.servers.s3_server import moto

pytestmark = pytest.mark.waits


def test_importing_the_package_loads_nothing_else():
    code = (
        "import sys; before = {*sys.modules}; import crawlkit; assert crawlkit.__version__;"
        "print(sorted({m.partition('.')[0] for m in {*sys.modules} - before}"
        " - {*sys.stdlib_module_names}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['crawlkit']\n"


def test_every_table_and_view_is_a_method(crawl):
    names = {*TABLES, *VIEWS, "frontier", "cc_index"}
    assert {*crawl.tables} == names and names <= {*dir(crawl)}
    for name in names:
        assert isinstance(getattr(crawl, name)().arrow().num_rows, int), name
    assert crawl.hosts(["host"], limit=1).columns == ["host"]
    assert crawl.cc_index().count() == 12
    assert crawl.latest_page(["url"]).count() == crawl.pages().count() == 2
    with pytest.raises(AttributeError, match="'pagez'"):
        _ = crawl.pagez
    with pytest.raises(ValueError, match="no table 'pages; DROP'"):
        crawl.table("pages; DROP")


def test_the_newest_page_of_a_url(crawl, data, tmp_path):
    """Of two rows of one URL that of the later request, whatever the rounds are called."""
    from tests.control.smallcrawl import capture, make_crawl, write

    made = make_crawl(tmp_path)
    rounds = {"zz": 1.0, "aa": 2.0}
    captures = [capture("http://a.test/", 1, r, started=at) for r, at in rounds.items()]
    write(made, "captures", captures)
    keys = ("capture_id", "round_id", "url", "url_key", "host")
    write(made, "pages", [{k: c[k] for k in keys} | {"title": c["round_id"]} for c in captures])
    assert list(crawlkit.open(tmp_path).latest_page(["title"])) == [{"title": "aa"}]


def test_places_that_hold_no_crawl(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="not a folder"):
        crawlkit.open(tmp_path / "file")
    none = crawlkit.open(tmp_path / "none")
    for ask in (none.pages().arrow, lambda: none.body("http://a.test/"), none.status):
        with pytest.raises(ConfigError, match="no crawl there"):
            ask()
    with pytest.raises(ConfigError, match="no seeds"):
        none.crawl()
    assert not (tmp_path / "none").exists()


def test_settings_are_the_crawls_own(tmp_path):
    (tmp_path / "crawl.yaml").write_text("politeness:\n  delay_s: 7\n")
    assert crawlkit.open(tmp_path).settings.config.politeness.delay_s == 7
    changed = crawlkit.open(tmp_path, settings={"politeness.delay_s": 3, "agent.name": "mybot"})
    assert changed.settings.config.politeness.delay_s == 3
    assert changed.settings.config.agent.name == "mybot"
    with pytest.raises(ConfigError, match="politeness.delay_s"):
        crawlkit.open(tmp_path, settings={"politeness.delay_s": "soon"})


@pytest.mark.rounds
def test_a_crawl_from_a_notebook(tmp_path):
    crawl, events = crawlkit.open(tmp_path / "site"), []
    with pytest.raises(TypeError, match="max_page"):
        crawl.crawl(sample=True, max_page=3)
    done = crawl.crawl(
        "http://harbour.example/", sample=True, rounds=5, max_pages=4, tell=events.append
    )
    assert done["reached"] == "--max-pages" and len(done["rounds"]) == 2
    assert {"round", "stage_done"} <= {e["event"] for e in events}
    kept = yaml.safe_load((tmp_path / "site/crawl.yaml").read_text())
    assert kept == {"scope": {"domains": ["harbour.example"]}}
    assert 1 < crawl.captures(where="kind = 'page' AND status IS NOT NULL").count() <= 4
    assert "Brinmouth Harbour" in crawl.record("http://harbour.example/").text
    assert crawl.status()["known_urls"] == crawl.frontier().count()
    assert crawl.explain("http://harbour.example/")["schedule"]["state"] == "fetched"
    with pytest.raises(ConfigError, match="placeholder"):
        crawl.crawl("http://harbour.example/")


def test_a_crawl_in_s3(data, crawl):
    with moto() as endpoint:
        import boto3  # a fifth of a second

        client = boto3.client("s3", endpoint_url=endpoint)
        for file in (p for p in data.rglob("*") if p.is_file()):
            client.upload_file(str(file), "crawl", f"site/{file.relative_to(data)}")
        access = {"s3.endpoint_url": endpoint, "s3.path_style": True}
        remote = crawlkit.open("s3://crawl/site", settings=access)
        pages = remote.pages(["url", "title"])
        assert sorted(pages, key=str) == sorted(crawl.pages(["url", "title"]), key=str)
        assert remote.body("http://site.test/gz") == crawl.body("http://site.test/gz")
        assert [r.body for r in remote.records()] == [r.body for r in crawl.records()]


@pytest.mark.spark
@pytest.mark.rounds
def test_spark_has_the_same_rows(crawl, spark, data):
    (data / "state").mkdir(exist_ok=True)
    with crawl:
        frame = crawl.pages(["url", "title"]).spark(spark)
        right = sorted(crawl.pages(["url", "title"]), key=str)
        assert sorted((r.asDict() for r in frame.collect()), key=str) == right
        assert crawl.errors().spark(spark).count() == crawl.errors().count() == 1
    assert spark.sql("SELECT 1").count() == 1  # the caller's session goes on
