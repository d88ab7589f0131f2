"""Pages that need a browser in whole rounds: found, rendered under the rules of all requests,
stored, read. The server's own log is the judge.
"""

from __future__ import annotations

import shutil
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from crawlkit.adapters.lake.duckdb_reader import ask
from crawlkit.adapters.warc.file_check import check
from crawlkit.crawl.open_crawl import REBUILT
from crawlkit.crawl.state import Crawl
from crawlkit.exports.cdxj import export_cdxj
from crawlkit.exports.source import Source
from crawlkit.local.web_server import Reply
from crawlkit.observe.views import VIEWS
from crawlkit.report.audit import audit
from crawlkit.round.drive import run_round
from crawlkit.round.job import Job
from crawlkit.upkeep.rebuild import rebuild_from_warc
from warcio.archiveiterator import ArchiveIterator

from tests.adapters.browser.chromium import chromium
from tests.engines import run_on
from tests.frames import collect
from tests.outside import run_tool, tool_path, wayback
from tests.slot.slotweb import SlotWeb, page, robots

pytestmark = [pytest.mark.rounds]
on = run_on("local", "spark")
EPOCH = 1_767_225_600.0  # 2026-01-01
WORDS = "<p>" + "many words of a page " * 20
JS = [("Content-Type", "text/javascript")]
JSON = [("Content-Type", "application/json"), ("Access-Control-Allow-Origin", "*")]
APP = b"""
fetch('http://api.data.test/list.json').then(r => r.json()).then(d => {
    const link = `<a href=${d.next}>next</a>`;
    root.innerHTML = `<h1>${d.title}</h1>${link}<p>` + 'of data '.repeat(50);
});
fetch('/secret.json'); fetch('/post', {method: 'POST'}); new Image().src = '/pixel.png';
fetch('http://127.0.0.1:9/'); fetch('http://169.254.169.254/latest/meta-data/');
"""
SITES: dict[str, dict[str, Any]] = {
    "app.test": {
        "/": page("<title>x</title><div id=root></div><script src=/app.js></script>"),
        "/app.js": Reply(200, JS, APP),
        "/next": page(WORDS + "<a href=/>home</a>"),
        "/robots.txt": robots("User-agent: *\nDisallow: /secret"),
        "/secret.json": Reply(200, JSON, b"{}"),
    },
    "api.data.test": {"/list.json": Reply(200, JSON, b'{"title": "A title", "next": "/next"}')},
    "plain.test": {"/": page(WORDS + "<a href=/a>a</a>"), "/a": page(WORDS + "<a href=/>b</a>")},
    # text for those who ask, another one for a browser
    "cloak.test": {
        "/": page(
            "<p id=p>"
            + " ".join(f"word{n}" for n in range(99))
            + "<!-- -->" * 700
            + "<script>p.innerText = 'pills ' + 'cheap pills for all '.repeat(99)</script>"
        )
    },
    # a framework's root that no script ever fills
    "empty.test": {f"/{n}": page(f"<div id=root></div><script>{n}</script>") for n in range(6)},
}


def run(folder: Path, on: dict[str, Any], rounds: int, seeds: list[str], web: SlotWeb) -> Job:
    cfg = web.config(
        frontier={"guess_sitemap": False},
        fetch={"slots": 2},
        round={"minutes": 1, "max_urls": 1000},
        render={"enabled": True, "chromium": chromium()},
        scope={"domains": ["app.test", "plain.test", "empty.test", "cloak.test"]},
    )
    job = Job(Crawl(folder / "crawl", cfg), quick=True, **on)
    for n in range(rounds):
        round_ = job.crawl.open_round(EPOCH + 60 * n)
        if n == 0:
            job.run("inject", round_, force=True, lines=seeds)
        run_round(job, round_)
    return job


def test_a_page_of_scripts(tmp_path: Path, on: dict[str, Any]) -> None:
    chromium()
    seeds = [
        "http://app.test/",
        "http://plain.test/",
        "http://cloak.test/",
        *(f"http://empty.test/{n}" for n in range(6)),
    ]
    with SlotWeb(SITES) as web:
        job = run(tmp_path, on, 5, seeds, web)
        assert web.violations() == []
        assert audit(job)["violations"] == 0
        # robots.txt of the other host first; nothing that is forbidden, refused or no GET
        assert web.asked("api.data.test") == ["/robots.txt", "/list.json"]
        assert set(web.asked("app.test")) == {"/robots.txt", "/", "/app.js", "/next"}
        captures = collect(job.read("captures"))
        pages = [p for p in collect(job.read("pages")) if p.rendered and p.host == "app.test"]
        states = {r.url: r for r in collect(job.read("crawldb"))}
        hosts = {h.host: h for h in collect(job.read("hostdb"))}
    last = max(pages, key=lambda p: p.capture_id)
    assert (last.links, last.static_links, last.static_text_bytes) == (1, 0, 0)
    assert last.text.startswith("A title\nnext\nof data of data")
    assert states["http://app.test/next"].state == "fetched"
    assert "rendered" in states["http://app.test/"].flags
    assert "render" not in states["http://app.test/"].flags
    # pages without need are not rendered; a host that gains nothing is left alone
    rendered = [c for c in captures if c.kind == "render"]
    assert {c.host for c in rendered} == {"app.test", "empty.test", "cloak.test"}
    assert all(c.is_outcome and c.outcome == "fetched" for c in rendered)
    assert all(300 < c.render_ms < 60_000 for c in rendered)  # half a second of quiet, less a tick
    assert hosts["app.test"].render_origins == ["http://api.data.test"]
    assert (hosts["empty.test"].render_gains, hosts["app.test"].needs_js) == (0, True)
    assert 3 <= hosts["empty.test"].renders < 6
    assert hosts["empty.test"].render_off == ["/"]
    assert hosts["app.test"].render_folders == f'{{"/": [2, 1, {int(EPOCH) // 86_400}]}}'
    cloaked = ask(job.tables, VIEWS, "SELECT host, reason, similarity FROM cloaked", 9)
    assert cloaked == [{"host": "cloak.test", "reason": "text_removed", "similarity": 0.0}]
    _check_records(job, captures)
    _check_rebuilt(job, tmp_path / "again", on)


def _check_rebuilt(job: Job, folder: Path, on: dict[str, Any]) -> None:
    """From the WARC files alone come the same rendered pages, and nothing is rendered in vain."""
    shutil.copytree(str(job.crawl.warc.root), folder / "warc")
    again = Job(Crawl(folder, job.cfg), quick=True, may_lack=REBUILT, **on)
    rebuild_from_warc(again)
    columns = {
        "pages": [
            "url",
            "rendered",
            "text",
            "links",
            "static_text_bytes",
            "static_links",
            "cloaking",
        ],
        "rejects": ["item", "reason"],
        "hostdb": ["host", "renders", "render_folders", "needs_js", "render_origins"],
    }
    for name, names in columns.items():
        was, now = (sorted(map(repr, t.tables.rows(name, names))) for t in (job, again))
        assert now == was, name
    last = max(r["last_fetch"] for r in again.tables.rows("crawldb", ["last_fetch"]))
    due = again.tables.rows("buckets", [f"next_due_{n}" for n in range(4)])
    assert all(at > last for row in due for at in row.values() if at is not None)


def _check_records(job: Job, captures: list[Any]) -> None:
    """Each render is a conversion record that names the response record of its document."""
    by_id = {c.capture_id: c for c in captures}
    root = Path(str(job.crawl.warc.root))
    conversions = {}
    for file in root.rglob("*.warc.gz"):
        assert check(file)["ok"]
        with open(file, "rb") as f:
            for record in ArchiveIterator(f):
                if record.rec_type == "conversion":
                    conversions[record.rec_headers["WARC-Record-ID"]] = record.rec_headers
    renders = [c for c in captures if c.kind == "render"]
    assert len(conversions) == len(renders)
    for c in renders:
        headers = conversions[c.warc_record_id]
        assert headers["WARC-Target-URI"] == c.url
        assert headers["WARC-Refers-To"] == by_id[c.revisit_of].warc_record_id
    subs = [c for c in captures if c.kind == "subresource"]
    assert {c.url for c in subs} == {"http://app.test/app.js", "http://api.data.test/list.json"}
    assert all(c.record_type in ("response", "revisit") for c in subs)


def test_replay_shows_a_rendered_page_as_it_was_sent(tmp_path: Path, on: dict[str, Any]) -> None:
    """Index and replay of others know the server's answer alone; the rendered document is beside
    it.
    """
    tool_path("wayback")
    with SlotWeb(SITES) as web:
        job = run(tmp_path, on, 3, ["http://app.test/"], web)
    rendered = [p for p in collect(job.read("pages")) if p.rendered]
    assert any("A title" in (p.text or "") for p in rendered)
    warc, index = Path(str(job.crawl.warc.root)), tmp_path / "index.cdxj"
    export_cdxj(Source(job.crawl.data, job.cfg), index)
    ours = index.read_text("utf-8")
    assert ours == run_tool("cdxj-indexer", "-s", *sorted(warc.rglob("*.warc.gz")))
    when = next(line.split(" ")[1] for line in ours.splitlines() if '"http://app.test/"' in line)
    with wayback(tmp_path / "pywb", warc, index) as replay:
        for path in ("/", "/app.js"):
            with urllib.request.urlopen(
                f"{replay}/{when}id_/http://app.test{path}", timeout=20
            ) as got:
                assert got.read() == SITES["app.test"][path].body
