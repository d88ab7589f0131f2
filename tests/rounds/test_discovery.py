"""Sitemaps, feeds and other types than HTML in whole rounds: found, fetched politely, polled, read
(A2, A3, G3).
"""

from __future__ import annotations

import datetime
import gzip
import json

import pytest
from crawlkit.config import parse_config
from crawlkit.crawl.state import Crawl
from crawlkit.local.web_server import Reply, Request, WebServer
from crawlkit.round.drive import run_round
from crawlkit.round.job import Job

from tests.engines import run_on
from tests.frames import collect

pytestmark = [pytest.mark.rounds]
on = run_on("local")
EPOCH, DAY_S = 1_767_225_600.0, 86_400.0  # 2026-01-01
HOSTS = {
    "shop.example": "127.81.0.1",
    "vouch.example": "127.81.0.2",
    "blog.example": "127.81.0.3",
    "stranger.example": "127.81.0.4",
    "catalog.example": "127.81.0.5",
}


def when(t: float) -> str:
    return datetime.datetime.fromtimestamp(t, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def urlset(*entries: tuple[str, float | None]) -> bytes:
    rows = "".join(
        f"<url><loc>{u}</loc>{'' if t is None else f'<lastmod>{when(t)}</lastmod>'}</url>"
        for u, t in entries
    )
    return (
        '<?xml version="1.0"?><urlset'
        f' xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</urlset>'.encode()
    )


def rss(*links: str) -> bytes:
    return (
        "<rss"
        f' version="2.0"><channel><title>News</title>'
        f"{''.join(f'<item><link>{x}</link></item>' for x in links)}</channel></rss>".encode()
    )


def page(title: str, body: str = "", head: str = "") -> tuple[str, bytes]:
    return (
        "text/html",
        f"<!doctype html><title>{title}</title>{head}<p>The page about {title} stands"
        f" here.</p>{body}".encode(),
    )


def pdf(text: str) -> bytes:
    stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode()
    parts = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        (
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F1"
            b" 5 0 R>>>>>>"
        ),
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    out, places = b"%PDF-1.4\n", []
    for n, part in enumerate(parts, 1):
        places.append(len(out))
        out += b"%d 0 obj%s endobj\n" % (n, part)
    table = b"".join(b"%010d 00000 n \n" % p for p in places)
    return (
        out
        + b"xref\n0 6\n0000000000 65535 f \n"
        + table
        + b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(out)
    )


def web() -> dict[str, tuple[str, bytes]]:
    """url -> (type, body).

    shop's map pages.xml.gz is reached through robots.txt and an index; vouched.xml speaks for
    vouch.example.
    """
    text, xml = "text/plain", "application/xml"
    kinds = '<a href="/note.txt">note</a> <a href="/data.json">data</a> <a href="/doc.pdf">doc</a>'
    return {
        "http://shop.example/robots.txt": (
            text,
            (
                b"User-agent: *\nDisallow: /private\nSitemap:"
                b" http://shop.example/maps/index.xml\nSitemap: /maps/vouched.xml\n"
            ),
        ),
        "http://shop.example/": page(
            "the shop", kinds, '<link rel="alternate" type="application/rss+xml" href="/feed.xml">'
        ),
        "http://shop.example/maps/index.xml": (
            xml,
            (
                b"<sitemapindex"
                b' xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>'
                b"http://shop.example/maps/pages.xml.gz</loc></sitemap></sitemapindex>"
            ),
        ),
        "http://shop.example/maps/pages.xml.gz": (
            "application/x-gzip",
            gzip.compress(
                urlset(
                    ("http://shop.example/hidden-1", EPOCH - DAY_S),
                    ("http://shop.example/hidden-2", EPOCH - DAY_S),
                    ("http://shop.example/private/x", None),
                    ("http://stranger.example/x", None),
                ),
                mtime=0,
            ),
        ),
        "http://shop.example/maps/vouched.xml": (
            xml,
            urlset(("http://vouch.example/only-in-the-map", None)),
        ),
        "http://shop.example/feed.xml": ("application/rss+xml", rss("http://shop.example/post-1")),
        **{
            f"http://shop.example/{name}": page(name)
            for name in ("hidden-1", "hidden-2", "post-1", "post-2", "private/x")
        },
        "http://shop.example/note.txt": (text, b"A note in plain text about rope."),
        "http://shop.example/data.json": (
            "application/json",
            json.dumps({"title": "Figures", "items": ["anchors and chains"]}).encode(),
        ),
        "http://shop.example/doc.pdf": ("application/pdf", pdf("Tides and harbours")),
        "http://vouch.example/robots.txt": (
            text,
            b"User-agent: *\nDisallow:\nSitemap: http://shop.example/maps/vouched.xml\n",
        ),
        "http://vouch.example/": page("the other shop"),
        "http://vouch.example/only-in-the-map": page("what only the map names"),
        "http://blog.example/robots.txt": (text, b"User-agent: *\nDisallow:\n"),
        "http://blog.example/": page("the blog"),
        "http://blog.example/sitemap.xml": (xml, urlset(("http://blog.example/guessed", None))),
        "http://blog.example/guessed": page("a page that was guessed"),
        "http://stranger.example/x": page("a stranger"),
        # catalog.example says by its canonical links that `ref` does not matter, and `id` does
        "http://catalog.example/": page(
            "the catalogue",
            "".join(f'<a href="/item?id={n}&ref={n % 3}">item</a>' for n in range(8))
            + "".join(f'<a href="/day/2026-01-{n:02d}">day</a>' for n in range(1, 31)),
        ),
        **{
            f"http://catalog.example/item?id={n}&ref={n % 3}": page(
                f"item {n}", head=f'<link rel=canonical href="/item?id={n}">'
            )
            for n in range(8)
        },
    }


@pytest.fixture(scope="module")
def crawled(on, tmp_path_factory):
    pages, log = web(), []

    def answer(request: Request) -> Reply:
        log.append((day[0], f"http://{request.host}{request.target}"))
        found = pages.get(f"http://{request.host}{request.target}")
        return (
            Reply(404, [("Content-Type", "text/html")], b"<title>none</title>")
            if found is None
            else Reply(200, [("Content-Type", found[0])], found[1])
        )

    day = [0]
    server = WebServer(HOSTS.values(), answer)
    server.start()
    try:
        cfg = parse_config(
            "",
            "test",
            tuple(
                f"{k}={json.dumps(v)}"
                for k, v in {
                    "agent.name": "crawlkit-test",
                    "fetch.connect_to": {h: f"{a}:{server.port}" for h, a in HOSTS.items()},
                    "fetch.allow_private": ["127.0.0.0/8"],
                    "fetch.ports": [80, 443, server.port],
                    "politeness.delay_s": 0.05,
                    "politeness.domain_delay_s": 0.02,
                    "politeness.ip_delay_s": 0.02,
                    "frontier.explore": 0,
                    "parse.same_shape": 20,
                }.items()
            ),
        )
        job = Job(Crawl(tmp_path_factory.mktemp("discovery") / "crawl", cfg), quick=True, **on)
        for n, now in enumerate(
            (
                EPOCH,
                EPOCH + 600,
                EPOCH + 1200,
                EPOCH + 1800,
                EPOCH + 2 * DAY_S,
                EPOCH + 2 * DAY_S + 600,
            )
        ):
            if n == 4:
                day[0] = 2
                pages["http://shop.example/maps/pages.xml.gz"] = (
                    "application/x-gzip",
                    gzip.compress(
                        urlset(
                            ("http://shop.example/hidden-1", EPOCH - DAY_S),
                            ("http://shop.example/hidden-2", EPOCH + 1.5 * DAY_S),
                            ("http://shop.example/post-1", EPOCH + 400 * DAY_S),
                        ),
                        mtime=0,
                    ),
                )
                pages["http://shop.example/feed.xml"] = (
                    "application/rss+xml",
                    rss("http://shop.example/post-1", "http://shop.example/post-2"),
                )
            round_ = job.crawl.open_round(now)
            if n == 0:
                job.run(
                    "inject",
                    round_,
                    force=True,
                    lines=[
                        "http://shop.example/",
                        "http://vouch.example/",
                        "http://blog.example/",
                        "http://catalog.example/",
                    ],
                )
            run_round(job, round_)
    finally:
        server.stop()
    rows = {r.url: r for r in collect(job.read("crawldb"))}
    return job, rows, log


def asked(log, url: str, day: int | None = None) -> int:
    return sum(1 for d, u in log if u == url and day in (None, d))


def test_pages_that_only_a_sitemap_names_are_fetched(crawled):
    _, rows, log = crawled
    for url in (
        "http://shop.example/hidden-1",
        "http://shop.example/hidden-2",
        "http://vouch.example/only-in-the-map",
        "http://blog.example/guessed",
    ):
        assert (rows[url].state, rows[url].source, rows[url].fetch_kind) == (
            "fetched",
            "sitemap",
            "page",
        ), url
    assert (
        rows["http://shop.example/maps/index.xml"].fetch_kind
        == rows["http://shop.example/maps/pages.xml.gz"].fetch_kind
        == "sitemap"
    )
    assert (
        rows[
            (
                "http://vouch.example/sitemap.xml"
                if "http://vouch.example/sitemap.xml" in rows
                else "http://blog.example/sitemap.xml"
            )
        ].state
        == "fetched"
    )


def test_robots_and_cross_submit_rules_hold_for_what_a_sitemap_names(crawled):
    job, rows, log = crawled
    assert (
        rows["http://shop.example/private/x"].state == "robots_skipped"
        and asked(log, "http://shop.example/private/x") == 0
    )
    assert "http://stranger.example/x" not in rows and asked(log, "http://stranger.example/x") == 0
    assert {r.item for r in collect(job.read("rejects").where("reason = 'sitemap_foreign'"))} == {
        "http://stranger.example/x"
    }


def test_a_newer_lastmod_makes_a_page_due_and_an_older_or_a_future_one_does_not(crawled):
    _, rows, log = crawled
    assert asked(log, "http://shop.example/hidden-2", 2) == 1
    assert (
        asked(log, "http://shop.example/hidden-1", 2) == 0
        and asked(log, "http://shop.example/post-1", 2) == 0
    )


def test_a_feed_is_polled_and_its_new_entry_is_fetched_at_once(crawled):
    _, rows, log = crawled
    assert (
        asked(log, "http://shop.example/feed.xml", 0) == 1
        and asked(log, "http://shop.example/feed.xml", 2) >= 1
    )
    assert (
        rows["http://shop.example/feed.xml"].fetch_kind == "feed"
        and rows["http://shop.example/feed.xml"].interval_s < DAY_S
    )
    assert (
        rows["http://shop.example/post-2"].state,
        rows["http://shop.example/post-2"].source,
    ) == ("fetched", "feed") and asked(log, "http://shop.example/post-2") == 1


def test_other_types_get_their_text(crawled):
    job, _, _ = crawled
    got = {r.url: r for r in collect(job.read("pages").where("kind IN ('text', 'json', 'pdf')"))}
    assert "rope" in got["http://shop.example/note.txt"].text
    assert "anchors and chains" in got["http://shop.example/data.json"].text
    assert "Tides and harbours" in got["http://shop.example/doc.pdf"].text


def test_outlinks_of_one_shape_are_flagged(crawled):
    job, _, _ = crawled
    assert {
        r.url for r in collect(job.read("pages").where("array_contains(flags, 'many_same_shape')"))
    } == {"http://catalog.example/"}


def test_parameter_rules_are_proposed_for_the_host_that_says_so_and_no_other(crawled):
    job, _, _ = crawled
    assert [
        (r["host"], r["name"], r["canonical_for"] >= 5, r["canonical_against"])
        for r in job.tables.rows(
            "param_rules", ["host", "name", "canonical_for", "canonical_against"]
        )
    ] == [("catalog.example", "ref", True, 0)]


def test_politeness_is_kept_and_everything_adds_up(crawled):
    from crawlkit.report.audit import audit

    job, _, log = crawled
    assert audit(job)["violations"] == 0
    for round_id in job.crawl.round_ids():
        mark = job.crawl.mark(job.crawl.round(round_id), "parse")
        assert mark["rows_in"] == mark["rows_out"] + sum(mark["rejected"].values())
