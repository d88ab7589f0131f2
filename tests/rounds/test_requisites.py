"""`--requisites` by the real command on a loopback site: what pages load is fetched politely, is in
no table of texts and links' ranks, and a page is replayed with it.
"""

from __future__ import annotations

import gzip
import json
import re
import urllib.request
import zipfile

import pytest
import yaml
from crawlkit.local.web_server import Reply
from deltalake import DeltaTable

from tests.cli.call import call
from tests.outside import wayback
from tests.rounds.crawlproc import run
from tests.rounds.row_web import RowWeb, page

pytestmark = pytest.mark.rounds

DELAY_S = 0.05
SITE, CDN, DENY = "http://site.test", "http://cdn.example", "http://deny.example"
HEAD = (
    f'<link rel=stylesheet href="{CDN}/s.css"><link rel=icon href=/i.ico>'
    "<script src=/s.js></script>"
    "<style>body{background:url(/bg.png)}</style>"
)
BODY = (
    f"<img src=/a.png srcset='/b.png 2x' alt=a><img src={DENY}/x.png><video poster=/p.jpg></video>"
    f"<a href=/two>two</a><a href={CDN}/page>no</a><img src=/gone.png><img src=/moved.png>"
)
CSS, PNG = [("Content-Type", "text/css")], [("Content-Type", "image/png")]
PAGES = {
    f"{SITE}/": page("one", BODY, HEAD),
    f"{SITE}/two": page("two", "<img src=/a.png><a href=/>one</a>"),
    f"{CDN}/s.css": Reply(200, CSS, b"@import \"t.css\"; p{background:url('/bg2.png')}"),
    f"{CDN}/t.css": Reply(200, CSS, b"@font-face{src:url(f.woff2)} @import 's.css';"),
    f"{CDN}/f.woff2": Reply(200, [("Content-Type", "font/woff2")], b"wOF2"),
    f"{CDN}/page": page("of another host"),
    f"{SITE}/s.js": Reply(200, [("Content-Type", "text/javascript")], b"let a = 'x.png'"),
    f"{SITE}/i.ico": Reply(200, [("Content-Type", "image/x-icon")], b"\0\0\1\0"),
    f"{SITE}/p.jpg": Reply(200, [("Content-Type", "image/jpeg")], b"\xff\xd8"),
    f"{SITE}/moved.png": Reply(302, [("Location", f"{CDN}/moved.png")], b""),
    f"{DENY}/robots.txt": Reply(
        200, [("Content-Type", "text/plain")], b"User-agent: *\nDisallow: /"
    ),
    f"{DENY}/x.png": Reply(200, PNG, b"x"),
    **{
        url: Reply(200, PNG, url.encode())
        for url in (
            *(f"{SITE}/{name}.png" for name in ("a", "b", "bg")),
            *(f"{CDN}/{name}.png" for name in ("bg2", "moved")),
        )
    },
}
LOADED = {
    *(
        f"{SITE}/{name}"
        for name in "a.png b.png bg.png s.js i.ico p.jpg moved.png gone.png".split()
    ),
    *(f"{CDN}/{name}" for name in "s.css t.css f.woff2 bg2.png moved.png".split()),
}


@pytest.fixture(scope="module")
def crawl(tmp_path_factory):
    """A crawl with `--requisites`: its folder, what the server saw, what the command said."""
    folder = tmp_path_factory.mktemp("requisites")
    hosts = {url.partition("://")[2]: f"127.71.0.{n}" for n, url in enumerate((SITE, CDN, DENY), 2)}
    with RowWeb(folder / "site", hosts, {}) as web:
        web.pages.update(PAGES)
        seen = []
        web.server.on_exchange = seen.append
        keys = web.cfg_keys(
            scope__any=False, politeness__delay_s=DELAY_S, frontier__guess_sitemap=True
        )
        tree: dict = {}
        for key, value in keys.items():
            section, name = key.split(".")
            tree.setdefault(section, {})[name] = value
        (folder / "c.yaml").write_text(yaml.safe_dump(tree))
        args = ("--data", folder / "site", "--config", folder / "c.yaml", "--rounds", 6, "--json")
        done = run("crawl", f"{SITE}/", *args, "--requisites", timeout=120)
        assert done.code == 0, done.err
        yield folder / "site", seen, done


def rows(folder, table, *columns):
    return (
        DeltaTable(str(folder / "tables" / table)).to_pyarrow_table(columns=[*columns]).to_pylist()
    )


def test_all_that_pages_load_is_asked_for_once_and_nothing_else(crawl):
    _, seen, done = crawl
    urls = [f"http://{x.request.host}{x.request.target}" for x in seen]
    robots = {f"{origin}/robots.txt" for origin in (SITE, CDN, DENY)}
    asked = {f"{SITE}/", f"{SITE}/two", f"{SITE}/sitemap.xml", *LOADED, *robots}
    assert set(urls) == asked  # no page and no sitemap of the other hosts, nothing robots deny
    assert len(urls) == len(asked)
    assert "with what its pages need from any host" in done.err


def test_the_server_finds_it_polite(crawl):
    folder, seen, _ = crawl
    for host in {x.request.host for x in seen}:
        of_host = sorted((x for x in seen if x.request.host == host), key=lambda x: x.start)
        gaps = [b.start - a.end for a, b in zip(of_host, of_host[1:], strict=False)]
        assert all(gap >= DELAY_S - 0.001 for gap in gaps), (host, gaps)
        assert all(x.in_flight == 1 for x in of_host)
    audit = call("audit", "--data", folder, "--json").said
    assert (audit["requests"], audit["violations"]) == (len(seen), 0), audit


def test_they_are_captures_and_no_pages_and_count_in_no_graph(crawl):
    folder, *_ = crawl
    got = rows(folder, "captures", "url", "kind", "outcome", "reason", "planned_depth", "status")
    kinds = {r["url"]: r for r in got if r["kind"] == "requisite"}
    assert set(kinds) == LOADED | {f"{DENY}/x.png"}
    assert kinds[f"{DENY}/x.png"]["outcome"] == "robots_denied"
    assert kinds[f"{SITE}/gone.png"]["reason"] == "http_404"
    assert {r["planned_depth"] for r in kinds.values()} == {0}  # as deep as the page, all of them
    assert {r["url"] for r in rows(folder, "pages", "url")} == {f"{SITE}/", f"{SITE}/two"}
    ranked = {
        r["host"]: r["inlink_hosts"] for r in rows(folder, "host_ranks", "host", "inlink_hosts")
    }
    assert ranked["cdn.example"] == 0
    named = {r["url_key"] for r in rows(folder, "ranks", "url_key")}
    keys = {r["url"]: r["url_key"] for r in rows(folder, "crawldb", "url", "url_key")}
    assert keys[f"{SITE}/two"] in named and keys[f"{CDN}/s.css"] not in named
    refused = {
        (r["to_url"], r["refused"])
        for r in rows(folder, "links", "to_url", "refused")
        if r["refused"]
    }
    assert refused == {(f"{CDN}/page", "scope_domain")}


def test_a_rebuilt_frontier_is_the_same(crawl):
    folder, *_ = crawl
    columns = "url fetch_kind depth redirects source state n_fetch".split()
    before = sorted(map(json.dumps, rows(folder, "crawldb", *columns)))
    assert call("rebuild", "--data", folder, "--json").code == 0
    assert sorted(map(json.dumps, rows(folder, "crawldb", *columns))) == before


@pytest.mark.waits
def test_a_page_is_replayed_with_what_it_loads(crawl, tmp_path):
    folder, *_ = crawl
    index, wacz = tmp_path / "index.cdxj", tmp_path / "c.wacz"
    for args in (("cdxj", "--out", index), ("wacz", "--out", wacz)):
        assert call("export", *args, "--data", folder).code == 0
    with wayback(tmp_path, folder / "warc", index) as at:
        for url in LOADED - {f"{SITE}/gone.png", f"{SITE}/moved.png"}:
            with urllib.request.urlopen(f"{at}/2id_/{url}", timeout=20) as answer:
                assert answer.read() == PAGES[url].body, url
        with urllib.request.urlopen(f"{at}/2mp_/{SITE}/", timeout=20) as answer:
            shown = answer.read().decode()
        loads = set(re.findall(r"/crawl/2(?:im|cs|js|oe)_/(http://[^\"' )]+)", shown))
        assert loads == {url for url in LOADED | {f"{DENY}/x.png"} if "t.css" not in url} - {
            *(f"{CDN}/{name}" for name in ("f.woff2", "bg2.png", "moved.png")),
            f"{SITE}/b.png",  # pywb leaves relative addresses of srcset to its script
        }
    with zipfile.ZipFile(wacz) as z:
        indexed = gzip.decompress(z.read("indexes/index.cdx.gz")).decode()
        pages = z.read("pages/pages.jsonl").decode()
    assert all(f'"{url}"' in indexed for url in LOADED) and "s.css" not in pages


def test_without_the_switch_nothing_of_it_is_asked_for(tmp_path):
    with RowWeb(tmp_path / "site", {"site.test": "127.71.0.2"}, {}, scope__any=False) as web:
        web.pages.update(PAGES)
        web.run(1_767_225_600.0, [f"{SITE}/"], scope__hosts=["site.test"])
        web.run(1_767_225_601.0, scope__hosts=["site.test"])
        assert set(web.log) == {f"{SITE}/robots.txt", f"{SITE}/", f"{SITE}/two"}
        links = web.rows("links", "to_url", "kind", "refused", key="to_url")
        assert links[f"{SITE}/a.png"]["refused"] == "media_not_crawled"
        assert f"{SITE}/s.js" not in links
