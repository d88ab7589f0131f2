"""The synthetic web itself: it serves what it plans, its log tells the truth, its judge finds
planted faults.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import gzip
import http.client
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from crawlkit.config import parse_config
from crawlkit.outcomes import Refused
from crawlkit.rules.robots.parser import parse
from crawlkit.rules.url.canonical import canonicalize
from selectolax.lexbor import LexborHTMLParser

from tests.fakeweb import (
    DAY_S,
    EPOCH,
    Delays,
    Entry,
    FakeWeb,
    Policy,
    Process,
    Server,
    build,
    counts,
    differences,
    every,
    expected,
    judge,
    load_log,
    set_day,
)
from tests.fakeweb.render import body
from tests.fakeweb.robots import PROFILES
from tests.fakeweb.words import edited, jaccard

pytestmark = pytest.mark.waits

UA = "Mozilla/5.0 (compatible; test/1.0; +https://example.invalid/)"


@pytest.fixture(scope="module")
def web() -> FakeWeb:
    return build(7, 0.1)


@pytest.fixture
def server(web: FakeWeb, tmp_path: Path):
    with Server(web, tmp_path / "log.jsonl", day_file=tmp_path / "day") as s:
        yield s


def get(
    server: Server | Process, url: str, web: FakeWeb, **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    name, _, path = url.removeprefix("http://").partition("/")
    conn = http.client.HTTPConnection(web.hosts[name].address, server.port, timeout=5)
    try:
        conn.request("GET", "/" + path, headers={"Host": name, "User-Agent": UA, **headers})
        answer = conn.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        conn.close()


def find(web: FakeWeb, **wanted: object):
    return next(
        p
        for p in web.pages.values()
        if all(getattr(p, k) == v for k, v in wanted.items()) and web.hosts[p.host].listening
    )


def test_size() -> None:
    whole = build(7)
    assert len(whole.hosts) >= 60
    assert len({h.domain for h in whole.hosts.values()}) == 40
    assert len(expected(whole).rows) >= 3000


@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_every_feature_is_there(scale: float) -> None:
    web = build(3, scale)
    pages = web.pages.values()
    features = {p.feature for p in pages}
    assert features >= {
        "plain",
        "robots",
        "redirect",
        "ring",
        "beyond",
        "status",
        "recovers",
        "fault",
        "duplicate",
        "near",
        "changing",
        "churn",
        "malformed",
        "charset",
        "nofollow_link",
        "opt_out",
        "canonical",
        "base",
        "transfer",
        "binary",
        "large",
        "truncated",
        "plain_text",
        "deep",
        "kinds",
        "mirror",
    }
    assert {p.status for p in pages} >= {
        200,
        301,
        302,
        303,
        307,
        308,
        403,
        404,
        410,
        429,
        451,
        500,
        503,
    }
    assert {p.fault for p in pages} == {None, "reset", "cut", "garbage", "stall"}
    assert sum(p.fault == "stall" for p in pages) == 1
    assert {h.robots.status for h in web.hosts.values()} >= {200, 301, 302, 404, 429, 500}
    assert {h.robots.name for h in web.hosts.values()} >= {
        "star",
        "token",
        "longest",
        "delay",
        "bom",
        "large",
        "denyall",
    }
    assert web.shared_addresses and web.near and web.far
    assert any(a.to and ".invalid" in a.to for p in pages for a in p.links)


def test_one_seed_one_web() -> None:
    assert build(5, 0.1) == build(5, 0.1)
    assert build(5, 0.1) != build(6, 0.1)


def test_near_pairs_by_hand() -> None:
    # one word of ten changed in the middle: 8 shingles each, 5 in common
    text = "one two three four five six seven eight nine ten".split()
    other = text[:4] + ["other"] + text[5:]
    assert jaccard(text, other) == pytest.approx(5 / 11)
    web = build(2, 0.1)
    assert all(v > 0.85 for *_, v in web.near) and all(v < 0.5 for *_, v in web.far)
    first, second, value = web.near[0]
    # 220 words, a title of 3 and an anchor of 2: 223 shingles, one change spoils three
    assert value == pytest.approx(220 / 226)
    assert jaccard(web.pages[first].text(), web.pages[second].text()) == value
    assert (
        sum(a != b for a, b in zip(text * 3, edited(random.Random(1), text * 3, 2), strict=True))
        == 2
    )


@pytest.mark.parametrize("seed", range(8))
def test_depth_does_not_depend_on_the_order(seed: int) -> None:
    """No page is found first on a longer way: depth is one number under any reading."""
    answer = expected(build(seed, 0.6))
    assert [r.url for r in answer.rows.values() if r.depth != r.low_depth] == []


def test_what_a_naive_walk_finds(web: FakeWeb, server: Server) -> None:
    """Pages served hold the planned words and links, whatever their markup, coding and charset."""
    day_0 = expected(web, Policy(nows=every(600, 4)))
    seen = 0
    for url, row in day_0.rows.items():
        page = web.page(url)
        if (
            row.status != 200
            or page.content_type == "image/png"
            or row.truncated
            or web.hosts[page.host].delay_s
            or seen > 150
        ):
            continue
        status, headers, body = get(server, url, web)
        if page.recovers_after:
            status, headers, body = get(server, url, web)
        seen += 1
        assert status == 200
        body = gzip.decompress(body) if headers["Content-Encoding"] == "gzip" else body
        text = body.decode(
            "utf-8-sig"
            if page.charset == "utf-8"
            else "utf-16"
            if page.charset == "utf-16le"
            else page.charset
        )
        assert page.title in text
        assert page.marker is None or page.marker.lower() in text.lower()
        assert all(w in text.lower() for w in page.words)
    assert seen > 60


def test_links_in_any_markup() -> None:
    """An HTML5 parser finds in every page, broken ones too, just the planned links in order, and
    just the planned words.
    """
    web = build(12, 0.4)
    for page in web.pages.values():
        if page.content_type != "text/html" or page.status != 200 or page.declared == "wrong":
            continue
        raw = body(page, 0)
        tree = LexborHTMLParser(
            raw.decode("utf-16" if page.charset == "utf-16le" else page.charset).lstrip("\ufeff")
        )
        assert [n.attributes["href"] for n in tree.css("a")] == [
            a.href for a in page.links if a.how == "a"
        ], page.url
        for how, css, name in (
            ("area", "area", "href"),
            ("frame", "iframe", "src"),
            ("next", "link[rel=next]", "href"),
        ):
            assert [n.attributes[name] for n in tree.css(css)] == [
                a.href for a in page.links if a.how == how
            ]
        for node in tree.css("script, title"):
            node.decompose()
        words = [w.strip(".\0\ufffd") for w in tree.body.text(separator=" ").lower().split()]
        assert [w for w in words if w] == page.text(), page.url


def test_answers(web: FakeWeb, server: Server) -> None:
    robots = [h for h in web.hosts.values() if h.listening]
    for host in robots:
        status, headers, body = get(server, f"http://{host.name}/robots.txt", web)
        assert status == host.robots.status and headers["Location"] == host.robots.location
        if host.robots.name in PROFILES and status == 200:
            assert body == PROFILES[host.robots.name].body
    recovers = find(web, feature="recovers", status=503)
    assert get(server, recovers.url, web)[0] == 503
    assert get(server, recovers.url, web)[0] == 200
    for fault, error in (
        ("reset", (http.client.HTTPException, ConnectionResetError)),
        ("cut", http.client.IncompleteRead),
        ("garbage", http.client.HTTPException),
    ):
        with pytest.raises(error):
            get(server, find(web, fault=fault).url, web)
    refused = next(h for h in web.hosts.values() if not h.listening)
    with pytest.raises(ConnectionRefusedError):
        get(server, f"http://{refused.name}/", web)
    host = next(iter(web.hosts))
    assert get(server, f"http://{host}/not/planned", web)[0] == 404
    lively = next(h.name for h in web.hosts.values() if h.traps)
    assert b"/events/2028/10" in get(server, f"http://{lively}/events/2028/09", web)[2]
    assert get(server, f"http://{lively}/events/2028/13", web)[0] == 404


def test_days_and_validators(web: FakeWeb, server: Server, tmp_path: Path) -> None:
    page = find(web, feature="changing", every_days=2, validators="both")
    _, headers, first = get(server, page.url, web)
    ask = {"If-None-Match": headers["ETag"], "If-Modified-Since": headers["Last-Modified"]}
    set_day(tmp_path / "day", 1)
    assert get(server, page.url, web, **ask)[0] == 304
    set_day(tmp_path / "day", 2)
    status, headers, second = get(server, page.url, web, **ask)
    assert status == 200 and second != first and headers["ETag"] != ask["If-None-Match"]
    by_date = find(web, feature="changing", every_days=0, validators="modified")
    modified = get(server, by_date.url, web)[1]["Last-Modified"]
    assert get(server, by_date.url, web, **{"If-Modified-Since": modified})[0] == 304
    churn = find(web, feature="churn", validators="")
    one = get(server, churn.url, web)[2]
    set_day(tmp_path / "day", 6)
    assert get(server, churn.url, web)[2] != one
    moved = next(h for h in web.hosts.values() if h.robots.later)
    assert b"withdrawn" in get(server, f"http://{moved.name}/robots.txt", web)[2]
    time.sleep(0.05)
    assert {e.day for e in load_log(server.log)} >= {0, 1, 2, 6}


def test_expected_by_hand(web: FakeWeb) -> None:
    answer = expected(web, Policy(nows=every(600, 20), revisit=False))
    row = {f: answer.rows[find(web, feature=f).url] for f in ("truncated", "binary")}
    assert (row["truncated"].state, row["truncated"].truncated, row["binary"].state) == (
        "fetched",
        "length",
        "refused",
    )
    by_status = {
        s: answer.rows[find(web, feature="status", status=s).url].state
        for s in (404, 410, 451, 403, 406, 500)
    }
    assert by_status == {
        404: "dead",
        410: "dead",
        451: "dead",
        403: "retrying",
        406: "dead",
        500: "retrying",
    }
    # 500 at every try: the first and three retries, one a round
    gone = answer.rows[find(web, feature="status", status=500).url]
    assert len(gone.times) == 4 and gone.times[3] - gone.times[0] == 3
    stall, cut = (answer.rows[find(web, fault=f).url] for f in ("stall", "cut"))
    assert (stall.state, len(stall.times), cut.state, cut.truncated) == (
        "retrying",
        4,
        "fetched",
        "disconnect",
    )
    garbage = answer.rows[find(web, fault="garbage").url]
    assert (garbage.state, len(garbage.times)) == ("dead", 1)
    recovered = answer.rows[find(web, feature="recovers", status=500).url]
    assert recovered.state == "fetched" and len(recovered.times) == 3
    # the long chain: eleven redirects are asked, the eleventh leads nowhere
    chain = [
        r for r in answer.rows.values() if r.hops and web.page(r.url).status >= 300 and r.hops == 10
    ]
    assert [r.state for r in chain] == ["dead"]
    assert find(web, feature="beyond").url not in answer.rows
    # depth: a line of 18 pages is cut at 15; the calendar ends with 2028, the maze at three equal
    # segments
    assert max(r.depth for r in answer.rows.values()) == 15
    assert sorted(
        u.rpartition("/events/")[2] for u, why in answer.refused.items() if why == "date_range"
    ) == ["1989/12", "2029/01"]
    assert [u.count("more/") for u, why in answer.refused.items() if why == "repeated"] == [4]
    assert not any(web.page(u).feature == "unfollowed" for u in answer.rows if web.page(u))
    skipped = {u for u, r in answer.rows.items() if r.state == "robots_skipped"}
    assert skipped and not any(skipped & set(sent) for sent in answer.requests)
    mirror = next(h for h in web.hosts.values() if h.mirror_of)
    home = frozenset({f"http://{mirror.name}/", f"http://{mirror.mirror_of}/"})
    assert home in answer.clusters
    for a, b in answer.apart:
        assert not any(a in c and b in c for c in answer.clusters)
    for a, b, _ in web.near:
        assert any(a in c and b in c for c in answer.clusters)
    assert (
        differences(
            answer, {u: {"state": r.state, "depth": r.depth} for u, r in answer.rows.items()}
        )
        == []
    )
    assert differences(answer, {"http://other.example/": {}})[-1].startswith("not expected")


def test_expected_revisits(web: FakeWeb) -> None:
    """Static with ETag: 304 and x 1.5; changing daily: 200 and the floor; a path withdrawn by
    robots.txt on day 6: fetched before, skipped after.
    """
    answer = expected(web, Policy(nows=every(DAY_S, 16)))
    static = answer.rows[find(web, feature="changing", every_days=0, validators="both").url]
    start = static.first_fetched
    # intervals in days 1, 1.5, 2.25, 3.375: fetched at day 0, 1, 3 (after 2.5), 6 (after 5.25)
    assert [t - start for t in static.times][:4] == [0, 1, 3, 6]
    assert static.status == 304 and static.n_change == 0
    daily = answer.rows[find(web, feature="changing", every_days=1, validators="etag").url]
    assert [t - daily.first_fetched for t in daily.times] == list(range(len(daily.times)))
    assert (
        daily.n_change == len(daily.times) - 1 and daily.interval_s == DAY_S and daily.status == 200
    )
    churn = answer.rows[find(web, feature="churn", validators="etag").url]
    assert churn.status == 200 and churn.n_change == 0
    closed = next(r for u, r in answer.rows.items() if "/withdrawn/" in u)
    assert closed.first_fetched and closed.state == "robots_skipped"
    forbidden = answer.rows[find(web, feature="status", status=403).url]
    assert forbidden.times[1] - forbidden.times[0] == 7


def _polite_walk(web: FakeWeb, server: Server, hosts: list[str], delay_s: float) -> None:
    for name in hosts:
        gap = max(delay_s, web.hosts[name].robots.delay_s)
        for path in [
            "/robots.txt",
            *[
                p.path
                for p in web.pages.values()
                if p.host == name and p.allowed and p.status == 200 and not p.fault
            ][:3],
        ]:
            time.sleep(gap)
            get(server, f"http://{name}{path}", web)


def test_judge_passes_a_polite_walk(web: FakeWeb, server: Server) -> None:
    names = list(web.hosts)
    _polite_walk(web, server, [names[0], names[2], names[4]], 0.02)
    time.sleep(0.05)
    log = load_log(server.log)
    found = judge(log, web, Delays(host_s=0.02, domain_s=0.01, address_s=0.01))
    assert found.total == 0, str(found)
    assert len(log) == 12 and max(counts(log).values()) == 1
    assert {e.user_agent for e in log} == {UA}
    assert all(e.end >= e.start and e.in_flight == 1 for e in log)


def test_judge_finds_planted_faults(web: FakeWeb, server: Server) -> None:
    names = list(web.hosts)
    hub, star, token = names[0], names[1], names[2]
    get(server, f"http://{hub}/", web)  # no robots.txt before, and too soon after
    get(server, f"http://{hub}/robots.txt", web)
    get(server, f"http://{star}/robots.txt", web)
    denied = find(web, host=star, allowed=False)
    time.sleep(0.06)
    get(server, denied.url, web)
    get(server, f"http://{token}/robots.txt", web)  # shares the address of star
    get(server, f"http://{names[5]}/robots.txt", web)
    time.sleep(0.06)
    get(server, f"http://{names[5]}/", web)  # although robots.txt is a 500
    recovers = find(web, feature="recovers", status=503)
    get(server, f"http://{recovers.host}/robots.txt", web)
    time.sleep(0.06)
    assert get(server, recovers.url, web)[0] == 503
    time.sleep(0.06)
    get(server, recovers.url, web)  # Retry-After was a second
    time.sleep(0.05)
    found = judge(load_log(server.log), web, Delays(host_s=0.05, address_s=0.05))
    kinds = {k: len(v) for k, v in vars(found).items() if v}
    assert kinds == {
        "no_robots": 1,
        "host_gap": 1,
        "disallowed": 1,
        "address_gap": 2,
        "unreadable": 1,
        "retry_after": 1,
    }, str(found)


def _entry(web: FakeWeb, url: str, start: float, end: float, **kw: object) -> Entry:
    name, _, path = url.removeprefix("http://").partition("/")
    plain = Entry(
        name,
        web.hosts[name].address,
        "/" + path,
        "GET",
        200,
        start,
        end,
        end,
        1,
        1,
        False,
        0,
        UA,
        None,
        None,
        None,
    )
    return dataclasses.replace(plain, **kw)


def test_judge_on_a_log_by_hand(web: FakeWeb) -> None:
    delay = next(h for h in web.hosts.values() if h.robots.delay_s == 0.2)
    robots, home = f"http://{delay.name}/robots.txt", f"http://{delay.name}/"
    polite = [_entry(web, robots, 1.0, 1.1), _entry(web, home, 1.3, 1.4)]
    assert judge(polite, web, Delays(host_s=0.1)).total == 0
    soon = [
        *polite[:1],
        _entry(web, home, 1.25, 1.4),
    ]  # 0.15 s: enough for the host, not for its Crawl-delay
    assert len(judge(soon, web, Delays(host_s=0.1)).host_gap) == 1
    both = [_entry(web, robots, 1.0, 2.0), _entry(web, home, 1.5, 1.6)]
    assert len(judge(both, web, Delays(host_s=0.1)).in_flight) == 1
    other = [*polite, _entry(web, home, 9.0, 9.1, user_agent="Mozilla/5.0")]
    assert len(judge(other, web, Delays(host_s=0.1)).user_agent) == 1
    pair = next(
        [a, b]
        for a in web.hosts.values()
        for b in web.hosts.values()
        if a.domain == b.domain and a is not b
    )
    close = [
        _entry(web, f"http://{h.name}/robots.txt", 1 + 0.02 * i, 1.01 + 0.02 * i)
        for i, h in enumerate(pair)
    ]
    assert len(judge(close, web, Delays(host_s=0.1, domain_s=0.05)).domain_gap) == 1
    # after a killed client the end is known late only
    cut = [_entry(web, robots, 1.0, 1.1, aborted=True), _entry(web, home, 1.25, 1.4)]
    assert judge(cut, web, Delays(host_s=0.1)).total == 0


def test_process_bears_hundreds_of_connections(tmp_path: Path) -> None:
    web = build(7, 0.1)
    with Process(tmp_path, seed=7, scale=0.1) as process:
        host = next(iter(web.hosts.values()))

        async def one() -> bytes:
            reader, writer = await asyncio.open_connection(host.address, process.port)
            for _ in range(2):
                writer.write(
                    f"GET / HTTP/1.1\r\nHost: {host.name}\r\nUser-Agent: {UA}\r\n\r\n".encode()
                )
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(x.split(b":")[1])
                    for x in head.split(b"\r\n")
                    if x.lower().startswith(b"content-length")
                )
                await reader.readexactly(length)
            writer.close()
            return head

        async def many() -> list[bytes]:
            return await asyncio.gather(*(one() for _ in range(500)))

        heads = asyncio.run(many())
        assert all(h.startswith(b"HTTP/1.1 200 OK") for h in heads)
        process.set_day(4)
        get(process, f"http://{host.name}/", web)
        time.sleep(0.1)
        log = load_log(process.log)
    assert len(log) == 1001 and log[-1].day == 4
    assert Counter(e.connection for e in log).most_common(1)[0][1] == 2


def test_configuration_is_accepted(web: FakeWeb) -> None:
    by_file = parse_config(web.config_yaml(8080, delay_s=0.03))
    by_sets = parse_config("", sets=tuple(web.config_sets(8080, delay_s=0.03)))
    assert by_file == by_sets
    assert by_file.fetch.connect_to[next(iter(web.hosts))].endswith(":8080")
    assert by_file.politeness.delay_s == 0.03


def test_epoch() -> None:
    assert time.strftime("%Y-%m-%d %H:%M", time.gmtime(EPOCH)) == "2026-09-01 00:00"


def test_the_rules_agree_with_the_plan() -> None:
    """Two independent works, the plan's truth and the crawler's rules, say the same of every link
    and path.
    """
    web = build(11, 0.5)
    bad = []
    rules = functools.cache(parse)
    for page in web.pages.values():
        base = canonicalize(page.base or "", page.url)
        for link in page.links:
            try:
                got = canonicalize(link.href, base)
            except Refused:
                got = None
            if link.how != "header" and link.why != "unusable" and got != link.to:
                bad.append((link.href, got, link.to))
            if link.why == "unusable" and got is not None and not link.href.startswith("http"):
                bad.append((link.href, got, None))
        host = web.hosts[page.host]
        if host.robots.readable and page.location is None:
            for day in (0, 6):
                if rules(host.robots.text(day)).match(
                    "crawlkit", page.url
                ).allowed is not web.allowed(page.url, day):
                    bad.append((page.url, "robots", day))
    assert bad == []
    for host in web.hosts.values():
        if host.robots.status == 200:
            assert (parse(host.robots.body).crawl_delay_s("crawlkit") or 0) == host.robots.delay_s
