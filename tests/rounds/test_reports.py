"""Public bug reports about crawlers (../shared/reports), each by the command that its case names
(R024: tests/cli/test_bad_input_cli.py). Other inputs of their kinds: tests/rounds/test_spelling.py,
test_dates_believed.py, test_moved_robots.py, tests/rules, tests/slot.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rounds.crawlproc import Done, run
from tests.servers.tls_server import write_certificate
from tests.shared_data import shared

pytestmark = [pytest.mark.rounds]


class Case:
    """The folder of a case, and a crawl of the web that it serves."""

    def __init__(self, name: str, folder: Path) -> None:
        self.files, self.data = shared(f"reports/{name}"), folder / "D"
        self.config, self.log = folder / "loopback.yaml", folder / "web.jsonl"
        with socket.create_server(("127.0.0.21", 0)) as free:
            self.address = f"127.0.0.21:{free.getsockname()[1]}"
        tree = yaml.safe_load((self.files.parent / "loopback.yaml").read_text("utf-8"))
        tree["fetch"]["connect_to"] = {"*.example": self.address, "*.test": self.address}
        self.config.write_text(yaml.safe_dump(tree))

    @contextlib.contextmanager
    def served(self, *more: object) -> Iterator[Case]:
        script = [sys.executable, "serve.py", self.files.name, self.address, *map(str, more)]
        with self.log.open("w") as log:
            server = subprocess.Popen(script, cwd=self.files.parent, stdout=log)
            try:
                end = time.monotonic() + 20
                host, _, port = self.address.rpartition(":")
                while socket.socket().connect_ex((host, int(port))) and time.monotonic() < end:
                    time.sleep(0.02)
                yield self
            finally:
                server.kill()
                server.wait()

    def crawl(self, *args: object, **given: Any) -> Done:
        done = run(*args, "--data", self.data, "--config", self.config, **given)
        assert done.code == 0, done.err
        return done

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        done = run("sql", query, "--data", self.data, "--engine", "duckdb", "--format", "jsonl")
        assert done.code == 0, done.err
        return sorted(tuple(json.loads(line).values()) for line in done.out.splitlines())

    def fetch_one(self, url: str, env: dict[str, str] | None = None) -> dict[str, Any]:
        done = run("fetch-one", url, "--config", self.config, "--json", env=env)
        answer: dict[str, Any] = json.loads(done.out)
        return answer

    def parse_one(self, file: str) -> dict[str, Any]:
        url = "https://site.example/page"
        done = run("parse-one", self.files / file, "--url", url, "--json")
        assert done.code == 0, done.err
        answer: dict[str, Any] = json.loads(done.out)
        return answer

    def requests(self) -> list[str]:
        """Host and target of each request that arrived."""
        rows = map(json.loads, self.log.read_text("utf-8").splitlines())
        return [f"{r['host']}{r['target']}" for r in rows]


def test_r001_a_site_that_insists_on_its_own_spelling(tmp_path):
    with Case("R001", tmp_path).served() as c:
        c.crawl("crawl", "http://site.example/", "--rounds", 4)
    assert c.sql("SELECT DISTINCT state FROM crawldb") == [("fetched",), ("redirected",)]
    titles = {title for (title,) in c.sql("SELECT title FROM pages")}
    assert titles == {"start", "the story", "the list", "the product"}


def test_r002_scope_written_as_the_site_writes_it(tmp_path):
    shared("reports/R002")
    site = "https://www.site.example/docs/"
    for url, *sets in (
        (site + "x", "urls.fold_www=true", "scope.hosts=[www.site.example]"),
        (site + "x", "urls.fold_www=true", f'scope.prefixes=["{site}"]'),
        (site, "urls.fold_slash=true", f'scope.prefixes=["{site}"]'),
        (
            "https://site.example/list?sid=42&p=1",
            "urls.remove_session=false",
            'scope.prefixes=["https://site.example/list?sid=42"]',
        ),
        (
            "https://site.example/ex?User=A&Back=B&Do=F",
            'scope.prefixes=["https://site.example/ex?User=A&Back="]',
        ),
    ):
        done = run("scope-test", url, *(word for s in sets for word in ("--set", s)))
        assert done.code == 0, (url, sets, done.out, done.err)


def test_r003_names_that_look_like_session_ids(tmp_path):
    with Case("R003", tmp_path).served() as c:
        c.crawl("crawl", "http://sid.example/", "--rounds", 2)
    assert c.sql("SELECT state, count(*) FROM crawldb GROUP BY 1") == [("fetched", 4)]
    kept = "https://site.example/article.pl?sid=26/11/29/0912207"
    assert run("normalize", kept).out.strip() == kept


def test_r004_robots_of_4xx_with_a_broken_body(tmp_path):
    with Case("R004", tmp_path).served() as c:
        found = [c.fetch_one(f"http://{h}.example/")["outcome"] for h in "abc"]
    assert found == ["fetched"] * 3


def test_r006_a_domain_that_has_moved(tmp_path):
    with Case("R006", tmp_path).served() as c:
        (tmp_path / "seeds").write_text("http://old.example/\nhttp://old.example/kept\n")
        c.crawl("crawl", "--seeds", tmp_path / "seeds", "--rounds", 3)
    states = dict(c.sql("SELECT url, state FROM crawldb WHERE host = 'old.example'"))
    assert states == {"http://old.example/": "redirected", "http://old.example/kept": "fetched"}
    assert "new.test/robots.txt" in c.requests()


def test_r007_a_cookie_test_by_a_detour(tmp_path):
    with Case("R007", tmp_path).served() as c:
        hosts = "fetch.cookie_hosts=[doi.example]"
        c.crawl("crawl", "http://doi.example/doi/1", "--rounds", 3, "--set", hosts)
    assert c.sql("SELECT title FROM pages") == [("the paper",)]
    pages = [r for r in c.requests() if "robots" not in r]
    assert pages == [f"doi.example/doi/1{q}" for q in ("", "?cookieSet=1", "")]


def test_r009_a_wildcard_stands_for_a_whole_label(tmp_path):
    names = write_certificate(tmp_path, "*.site.example")
    with Case("R009", tmp_path).served("--tls", *names[1:]) as c:
        env = {"SSL_CERT_FILE": str(names[0])}
        for host in ("my_shop", "myshop"):
            answer = c.fetch_one(f"https://{host}.site.example/", env)
            assert answer["outcome"] == "fetched", answer


@pytest.mark.slow
def test_r011_a_sitemap_that_dates_every_page_now(tmp_path):
    with Case("R011", tmp_path).served() as c:
        now = "2026-11-29T12:00:00Z"
        c.crawl("crawl", "http://lm.example/", "--rounds", 3, "--now", now)
        for day in ("03T12", "03T13", "07T12", "07T13"):
            c.crawl("round", "--now", f"2026-12-{day}:00:00Z")
    asked = [r for r in c.requests() if r.startswith("lm.example/p")]
    assert len(asked) < 3 * 3  # each is asked for its date's sake once at most
    due = c.sql("SELECT next_fetch > TIMESTAMPTZ '2026-12-20' FROM crawldb WHERE url LIKE '%/p_'")
    assert due == [(True,)] * 3


def test_r013_canonical_links_that_are_none(tmp_path):
    c = Case("R013", tmp_path)
    found = [c.parse_one(f"{name}.html") for name in ("hreflang", "media", "type")]
    page = "https://site.example/page"
    assert [p["canonical"] for p in found] == [page, None, page]
    assert not any("canonical_conflict" in (p.get("flags") or ()) for p in found)


def test_r014_date_and_author_of_the_page(tmp_path):
    with Case("R014", tmp_path).served() as c:
        urls = [f"http://meta.example/{p}" for p in ("related-first", "review-first")]
        (tmp_path / "seeds").write_text("\n".join(urls))
        c.crawl("crawl", "--seeds", tmp_path / "seeds", "--rounds", 1)
    found = {url: more for url, *more in c.sql("SELECT url, published, author FROM pages")}
    assert [str(found[url][0])[:10] for url in urls] == ["2026-05-22"] * 2
    assert found[urls[1]][1] == "A. Writer"


def test_r016_feed_items_on_another_domain(tmp_path):
    with Case("R016", tmp_path).served() as c:
        c.crawl("crawl", "http://fb.example/", "--rounds", 3)
    known = {url for (url,) in c.sql("SELECT url FROM crawldb")}
    assert {"http://fb.example/2026/a", "http://deals.example/b"} <= known


def test_r020_text_in_containers_of_page_builders(tmp_path):
    c = Case("R020", tmp_path)
    plain, built = (c.parse_one(f"{name}.html")["main_text"] for name in ("plain", "elementor"))
    assert plain.count(".") >= 6 and built.split() == plain.split()
