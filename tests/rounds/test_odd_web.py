"""One crawl by `crawlkit crawl` of the synthetic web with what real sites show beside it: a domain
that has moved, a weblog with `sid`, sites that insist on their spelling of escapes, a cookie test,
feeds on other domains, and 200 hosts with odd answers for robots.txt.

The states of the synthetic web are those of its plan, the others stand in hand-written tables.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

import pytest
from crawlkit.local.web_server import Reply, Request

from tests.fakeweb import (
    EPOCH,
    Delays,
    Host,
    Policy,
    Server,
    differences,
    expected,
    judge,
    load_log,
)
from tests.rounds.crawlproc import run, settings, steady_web

pytestmark = [pytest.mark.rounds, pytest.mark.slow]
ROUNDS, DEPTH = 6, 2
NAMED = ((0, ""), (1, "no"))
DENY = b"User-agent: *\nDisallow: /no\n"
PLAIN = [("Content-Type", "text/plain")]


def to(location: str, status: int = 302, *more: tuple[str, str]) -> Reply:
    return Reply(status, [("Location", location), *more])


def page(title: str, *links: str, head: str = "") -> Reply:
    words = f"The page about {title} has words of its own, {title} from its start to its end. " * 4
    anchors = "".join(f"<a href='{u.replace('&', '&amp;')}'>a link</a> " for u in links)
    text = f"<!doctype html><title>{title}</title>{head}<p>{words}</p>{anchors}"
    return Reply(200, [("Content-Type", "text/html")], text.encode())


def text(body: bytes, *more: tuple[str, str], status: int = 200) -> Reply:
    return Reply(status, [*PLAIN, *more], body)


def cut(body: bytes, length: int) -> Reply:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n"
    return Reply(raw=head.encode() + body)


F, S, Q = "fetched", "robots_skipped", "queued"
GZIP = ("Content-Encoding", "gzip")
# What /robots.txt answers, and by RFC 9309 the states of / and of /no (of which DENY speaks): 2xx
# rules, 4xx none, 5xx and what cannot be read nothing at all, redirects followed over five hops.
ODD: dict[str, tuple[Reply, str, str]] = {
    "plain": (text(DENY), F, S),
    "ours": (text(b"User-agent: *\nDisallow: /\n\nUser-agent: crawlkit\n" + DENY[14:]), F, S),
    "all": (text(b"User-agent: *\nDisallow: /\n"), S, S),
    "bom": (text(b"\xef\xbb\xbf" + DENY.replace(b"\n", b"\r")), F, S),
    "utf16": (text(DENY.decode().encode("utf-16")), F, S),
    "packed": (text(gzip.compress(DENY), GZIP), F, S),
    "empty": (text(b""), F, F),
    "nothing": (Reply(204), F, F),
    "html": (page("none"), F, F),
    "missing": (text(DENY, status=404), F, F),
    "forbidden": (text(DENY, status=403), F, F),
    "login": (text(b"no gzip", GZIP, status=401), F, F),
    "gone": (Reply(raw=b"HTTP/1.1 410 Gone\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), F, F),
    "teapot": (text(DENY, status=418), F, F),
    "busy": (text(DENY, status=429), Q, Q),
    "broken": (text(DENY, status=500), Q, Q),
    "down": (text(b"", ("Retry-After", "7200"), status=503), Q, Q),
    "reset": (Reply(raw=b"", ending="reset"), Q, Q),
    "short": (cut(DENY, 500), Q, Q),
    "unpacked": (text(b"no gzip", GZIP), Q, Q),
    "unchanged": (Reply(304), Q, Q),
    "near": (to("/rules", 301), F, S),
    "far": (to("http://rules.test/robots.txt"), F, S),
    "loop": (to("/robots.txt"), F, F),
    "long": (to("/hop1", 307), F, F),
}
EACH = 8  # hosts of a kind
HOPS = {"/rules": text(DENY)} | {f"/hop{n}": to(f"/hop{n + 1}", 307) for n in range(1, 7)}

SID = "sid=9f86d081884c7d659a2feaa0c55ad015"
ARTICLES = [f"/article.pl?sid=26/11/{day}/0912207" for day in (27, 28, 29)]


def cookie_test(request: Request) -> Reply:
    if "seen=1" in request.headers.get("cookie", ""):
        return page("paper")
    return to("/doi/1?cookieSet=1")


FEED = (
    "<rss version='2.0'><channel><item><link>http://fb.example/2026/a</link></item>"
    "<item><link>http://deals.test/b</link></item></channel></rss>"
)
JSON_FEED = (
    '{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "http://deals.test/c"}]}'
)
RSS, JSON = [("Content-Type", "application/rss+xml")], [("Content-Type", "application/feed+json")]
ALTERNATE = (
    "<link rel=alternate type=application/rss+xml href=http://feeds.test/fb>"
    "<link rel=alternate type=application/feed+json href=http://feeds.test/fb.json>"
)
SITES: dict[str, dict[str, Any]] = {
    "old.example": {
        "/robots.txt": to("http://new.test/robots.txt", 301),
        "/": to("http://new.test/", 301),
        "/kept": page("kept"),
        "/no": page("forbidden"),
    },
    "new.test": {"/robots.txt": text(DENY), "/": page("new", "/no")},
    "rules.test": {"/robots.txt": text(DENY)},
    "log.example": {
        "/": page("log", *ARTICLES, f"/list?{SID}", "/list?sid=0a1b2c3d4e5f60718293a4b5c6d7e8f9"),
        "/list": page("list"),
        **{url: page(f"article {n}") for n, url in enumerate(ARTICLES)},
    },
    "lower.example": {
        "/": page("lower", "/caf%c3%a9?x=%2f"),
        "/caf%c3%a9?x=%2f": page("cafe"),
        "/caf%C3%A9?x=%2F": to("/", 301),
    },
    "upper.example": {
        "/": page("upper", "/%E6%97%A5/", "/~user/"),
        "/%E6%97%A5/": page("sun"),
        "/~user/": to("/%7Euser/", 301),
        "/%7Euser/": page("user"),
    },
    "doi.example": {
        "/doi/1": cookie_test,
        "/doi/1?cookieSet=1": to("/doi/1", 302, ("Set-Cookie", "seen=1; Path=/")),
    },
    "fb.example": {"/": page("blog", head=ALTERNATE), "/2026/a": page("item a")},
    "feeds.test": {
        "/fb": Reply(200, RSS, FEED.encode()),
        "/fb.json": Reply(200, JSON, JSON_FEED.encode()),
    },
    "deals.test": {"/b": page("item b"), "/c": page("item c")},
}
SEEDS = [
    "http://old.example/",
    "http://old.example/kept",
    "http://old.example/no",
    "http://log.example/",
    "http://lower.example/",
    "http://upper.example/",
    "http://doi.example/doi/1",
    "http://fb.example/",
]
STATES = {
    "http://old.example/": "redirected",
    "http://old.example/kept": F,
    "http://old.example/no": S,  # by the rules of the new domain
    "http://new.test/": F,
    "http://new.test/no": S,
    "http://log.example/": F,
    "http://log.example/list": F,
    "http://log.example/article.pl?sid=26/11/27/0912207": F,
    "http://log.example/article.pl?sid=26/11/28/0912207": F,
    "http://log.example/article.pl?sid=26/11/29/0912207": F,
    "http://lower.example/": F,
    "http://lower.example/caf%C3%A9?x=%2F": F,
    "http://upper.example/": F,
    "http://upper.example/%E6%97%A5/": F,
    "http://upper.example/~user/": F,
    "http://doi.example/doi/1": F,
    "http://fb.example/": F,
    "http://fb.example/2026/a": F,
    "http://feeds.test/fb": F,
    "http://feeds.test/fb.json": F,
    "http://deals.test/b": F,
    "http://deals.test/c": F,
}
ODD_HOSTS = {f"{kind}{n}.example": kind for kind in ODD for n in range(EACH)}


class OddServer(Server):
    """The synthetic web, and the hosts of this module."""

    def _answer(self, request: Request) -> Reply:
        if request.host in ODD_HOSTS:
            own = {"/robots.txt": ODD[ODD_HOSTS[request.host]][0]} | HOPS
            title = f"{request.host}{request.target}"
            found = own.get(request.target) or page(title)
        elif request.host in SITES:
            missing = Reply(404, PLAIN, b"no such page")
            found = SITES[request.host].get(request.target, missing)
        else:
            return super()._answer(request)
        return found(request) if callable(found) else found


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """The web, the server's log, and rows of crawldb by URL."""
    folder = tmp_path_factory.mktemp("odd")
    web = steady_web()
    seeds = [*web.seeds, *SEEDS, *(f"http://{h}/{p}" for h in ODD_HOSTS for p in ("", "no"))]
    (folder / "seeds").write_text("\n".join(seeds))
    for n, name in enumerate([*SITES, *ODD_HOSTS]):
        assert name not in web.hosts
        web.hosts[name] = Host(name, name, f"127.95.{n // 200}.{n % 200 + 1}")
    with OddServer(web, folder / "web.jsonl") as server:
        more = {"scope.max_depth": DEPTH, "fetch.max_redirects": 10, "lease.ttl_s": 60}
        config = settings(web, server, folder, **more, **{"fetch.cookie_hosts": ["doi.example"]})
        place = "--data", folder / "data", "--config", config
        about = "--scope", "any", "--rounds", ROUNDS, "--now", f"{EPOCH:.0f}"
        done = run("crawl", "--seeds", folder / "seeds", *about, *place, timeout=600)
        assert done.code == 0, done.err
        audited = run("audit", *place)
        assert audited.code == 0, audited.out
        query = "SELECT url, host, state, depth FROM frontier"
        found = run("sql", query, *place, "--format", "jsonl")
    rows = map(json.loads, found.out.splitlines())
    return web, load_log(folder / "web.jsonl"), {r["url"]: r for r in rows}


def test_the_synthetic_web_is_as_planned(crawled):
    web, _, rows = crawled
    answer = expected(web, Policy(nows=(EPOCH,) * ROUNDS, max_depth=DEPTH))
    others = {*SITES, *ODD_HOSTS}
    assert differences(answer, {u: r for u, r in rows.items() if r["host"] not in others}) == []


def test_sites_as_they_were_reported(crawled):
    _, log, rows = crawled
    assert {u: r["state"] for u, r in rows.items() if r["host"] in SITES} == STATES
    sent = Counter(e.url for e in log if e.host in SITES and e.path != "/robots.txt")
    assert [sent[f"http://doi.example/doi/1{q}"] for q in ("", "?cookieSet=1")] == [2, 1]
    assert sent["http://lower.example/caf%c3%a9?x=%2f"] == 1
    assert "http://lower.example/caf%C3%A9?x=%2F" not in sent  # as it was found, at once
    assert sent["http://upper.example/~user/"] == sent["http://upper.example/%7Euser/"] == 1
    assert not {"http://old.example/no", "http://new.test/no"} & {*sent}
    assert not [u for u in sent if "9f86d0" in u or "0a1b2c" in u]
    assert max(sent.values()) == 2


def test_200_hosts_with_odd_robots_answers(crawled):
    _, log, rows = crawled
    odd = {u: r["state"] for u, r in rows.items() if r["host"] in ODD_HOSTS}
    want = {f"http://{h}/{p}": ODD[k][1 + n] for h, k in ODD_HOSTS.items() for n, p in NAMED}
    assert odd == want
    sent = Counter(e.url for e in log if e.host in ODD_HOSTS and e.path in ("/", "/no"))
    assert sent == Counter(u for u, state in want.items() if state == F)  # once, and no other


def test_nothing_was_asked_too_early(crawled):
    web, log, _ = crawled
    seen = judge(log, web, Delays(host_s=0.05, domain_s=0.025))
    seen.address_gap.clear()  # a floor within a task, and no address is known before it is asked
    assert seen.total == 0, str(seen)
