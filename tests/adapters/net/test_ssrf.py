"""No spelling of a forbidden address reaches a socket, whichever way it comes in, and each leaves
its reason (REQUIREMENTS E5).
"""

from __future__ import annotations

import html
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from crawlkit.adapters.net.address_guard import parse_place
from crawlkit.adapters.net.dns import Lookup, Resolver
from crawlkit.adapters.net.engine import Engine
from crawlkit.config import Config
from crawlkit.local.web_server import Reply, Request
from crawlkit.model import Capture
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.feeds.sitemaps import parse as parse_sitemap
from crawlkit.rules.page.page import parse_page
from crawlkit.rules.url.canonical import canonicalize, host_of, origin_of
from crawlkit.rules.url.seeds import parse_seed
from crawlkit.slot.inputs import SlotIO
from crawlkit.slot.run import run_slot

from tests.adapters.net.spellings import hosts, urls
from tests.slot.slotweb import HTML, SlotWeb, kept, outcomes, plan, slot_io

pytestmark = pytest.mark.waits

SITE = (  # the only address of the test web, and the only one that the operator lets through
    "127.0.77.1"
)
LOOPBACK = ("127.0.0.1", "127.1.2.3", "127.255.255.254", "::1")
REASONS = {
    Reason.ADDRESS_FORBIDDEN,
    Reason.PORT_FORBIDDEN,
    Reason.URL_INVALID,
    Reason.URL_SCHEME,
    Reason.URL_HOST_EMPTY,
    Reason.DNS_NXDOMAIN,
}


class Trap:
    """A web on SITE, and sentinels on the same port of other loopback addresses: they must never
    see a connection.
    """

    def __init__(self, web: SlotWeb, folder: Path, sentinels: list[socket.socket]) -> None:
        self.web, self.port, self.io, self._sentinels = (
            web,
            web.server.port,
            slot_io(folder, engine=partial(_engine, Resolver(_loopback, hosts={}))),
            sentinels,
        )

    def connections(self) -> int:
        n = 0
        for sentinel in self._sentinels:
            while True:
                try:
                    sentinel.accept()[0].close()
                    n += 1
                except BlockingIOError:
                    break
        return n

    def config(self, **fetch: object) -> Config:
        pace = {
            "delay_s": 0.0,
            "domain_delay_s": 0.0,
            "ip_delay_s": 0.0,
            "host_day_quota": 10**6,
            "host_cycle_quota": 10**6,
        }
        return self.web.config(
            politeness=pace,
            fetch={"allow_private": [f"{SITE}/32"], "ports": [80, 443, self.port], **fetch},
            round={"minutes": 2.0},
            breaker={"slow_min_requests": 10**6, "server_errors": 10**6, "blocked_run": 10**6},
            lease={"ttl_s": 30.0, "renew_s": 1.0},
            # no test of leases: hundreds of hosts at once keep a busy machine from renewing a short
            # one
        )

    def crawl(self, found: Sequence[str], io: SlotIO | None = None) -> dict[str, Capture]:
        """Outcomes of the slot that is given these canonical addresses."""
        io = io or self.io
        run_slot(plan(list(dict.fromkeys(found))), self.config(), io)
        return outcomes(io)

    def refused(self, found: Sequence[str]) -> None:
        """Crawled as rows, every address has the outcome `refused`, with the reason, and nobody was
        connected to.
        """
        told = self.crawl(found)
        assert {
            u: (c.outcome, c.reason)
            for u, c in told.items()
            if c.outcome != "refused" or c.reason not in REASONS
        } == {}
        assert set(found) <= set(told)
        assert self.connections() == 0


def _engine(resolver: Resolver, fetch) -> Engine:
    return Engine(fetch, resolver)


async def _loopback(name: str) -> Lookup:
    """The worst of name servers: every name leads to us."""
    return Lookup(("127.0.0.1",), 60.0)


@contextmanager
def trap(folder: Path, sites: dict | None = None) -> Iterator[Trap]:
    sites = sites or {"site.test": {}}
    for _ in range(20):
        web = SlotWeb(sites, dict.fromkeys(sites, SITE))
        sentinels: list[socket.socket] = []
        try:
            for address in LOOPBACK:
                sentinels.append(
                    socket.create_server(
                        (address, web.server.port),
                        family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                    )
                )
                sentinels[-1].setblocking(False)
            break
        except OSError:
            for sentinel in sentinels:
                sentinel.close()
    else:
        pytest.fail("no port is free on all loopback addresses")
    try:
        with web:
            yield Trap(web, folder, sentinels)
    finally:
        for sentinel in sentinels:
            sentinel.close()


def canonical(url: str, base: str | None = None) -> str | None:
    try:
        return canonicalize(url, base)
    except Refused as refusal:
        assert refusal.reason in REASONS
        return None


def test_there_are_enough_spellings_and_all_mean_a_forbidden_place():
    assert len(hosts()) >= 400
    assert len({canonical(u) for u in urls(81)}) > 400  # each has its own path


def test_seed(tmp_path):
    with trap(tmp_path) as t:
        kept_rows, refused = [], 0
        for url in urls(t.port):
            try:
                seed = parse_seed(url.replace("\t", "").replace("\n", ""))
                kept_rows.append(seed.url)
            except Refused as refusal:
                assert refusal.reason in REASONS
                refused += 1
        assert len(kept_rows) + refused == len(urls(t.port)) and len(kept_rows) > 400
        t.refused(kept_rows)


def test_link(tmp_path):
    with trap(tmp_path) as t:
        wanted = urls(t.port)
        page = parse_page(
            "".join(f'<a href="{html.escape(u)}">x</a>' for u in wanted).encode(),
            "http://site.test/",
            "text/html; charset=utf-8",
            [],
            "crawlkit",
        )
        assert len(page.links.links) == len(
            wanted
        )  # what is no address stays on the list with its reason
        assert all(link.refused in REASONS for link in page.links.links if link.refused)
        t.refused(own_site_apart(link.url for link in page.links.links if not link.refused))


def test_meta_refresh(tmp_path):
    with trap(tmp_path) as t:
        found, refused = [], 0
        for url in urls(t.port):
            page = parse_page(
                f'<meta http-equiv="refresh" content="0; url={html.escape(url)}">'.encode(),
                "http://site.test/",
                "text/html; charset=utf-8",
                [],
                "crawlkit",
            )
            if page.links.refresh:
                found.append(page.links.refresh.url)
            else:
                assert [link.refused for link in page.links.links if link.refused], url
                refused += 1
        assert len(found) > 400 and len(found) + refused == len(urls(t.port))
        t.refused(own_site_apart(found))


def test_sitemap(tmp_path):
    with trap(tmp_path) as t:
        wanted = urls(t.port)
        vouched = frozenset(origin_of(c) for u in wanted if (c := canonical(u)))
        body = (
            '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
            + "".join(f"<url><loc>{escape(u)}</loc></url>" for u in wanted if "\x01" not in u)
            + "</urlset>"
        )
        found = parse_sitemap(body.encode(), "http://site.test/sitemap.xml", vouched=vouched)
        entries = own_site_apart(e.url for e in found.entries)
        assert len(entries) > 400 and not found.partial
        t.refused(entries)


def test_robots_sitemap_lines(tmp_path):
    """Sitemap: lines of robots.txt become rows of kind sitemap."""
    from crawlkit.rules.robots.parser import parse

    with trap(tmp_path) as t:
        text = "".join(f"Sitemap: {u}\n" for u in urls(t.port) if "\n" not in u)
        found = parse(text.encode()).sitemap_urls("http://site.test/robots.txt")
        assert len(found) > 400
        t.refused(own_site_apart(found))


def test_30x(tmp_path):
    sites: dict = {f"h{n}.test": {} for n in range(8)}
    with trap(tmp_path, sites) as t:
        wanted = urls(t.port)
        pages = {}
        for n, url in enumerate(wanted):
            host, status = f"h{n % 8}.test", (301, 302, 303, 307, 308)[n % 5]
            location = url.replace("\n", "").encode("utf-8").decode("latin-1")
            sites[host][f"/{n}"] = Reply(
                raw=(
                    f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length:"
                    " 0\r\nConnection: close\r\n\r\n".encode("latin-1")
                )
            )
            pages[f"http://{host}/{n}"] = url
        told = t.crawl(list(pages))
        hops = []
        for page, url in pages.items():
            c = told[page]
            if c.outcome == "redirected":
                hops.append(c.redirect_to)
            else:
                assert c.outcome == "http_error" and c.reason in {*REASONS, "redirect_loop"}, (
                    url,
                    c.outcome,
                    c.reason,
                )
            assert c.warc_filename, url  # the hop is a capture of its own
        assert len(t.web.log) == len(wanted) + 8
        assert t.connections() == 0
        t.io = slot_io(tmp_path / "next", engine=t.io.engine)
        t.refused(own_site_apart(hops))


def test_robots_hop(tmp_path):
    """A robots.txt that redirects to a forbidden place leaves its host closed: no rule was read."""
    sites: dict = {f"h{n}.test": {} for n in range(len(urls(1)))}
    with trap(tmp_path, sites) as t:
        for n, url in enumerate(urls(t.port)):
            location = url.replace("\n", "").encode("utf-8").decode("latin-1")
            sites[f"h{n}.test"]["/robots.txt"] = Reply(
                raw=(
                    f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length:"
                    " 0\r\nConnection: close\r\n\r\n".encode("latin-1")
                )
            )
            sites[f"h{n}.test"]["/"] = Reply(200, HTML, b"secret")
        told = t.crawl([f"http://h{n}.test/" for n in range(len(sites))])
        assert t.connections() == 0
        asked: list[Request] = [
            x.request
            for x in t.web.log
            if x.request.target == "/" and not own_site(urls(t.port)[int(x.request.host[1:-5])])
        ]
        assert asked == []
        for n, url in enumerate(urls(t.port)):
            if not own_site(url):
                c = told[f"http://h{n}.test/"]
                assert (c.outcome, c.reason) in {
                    ("deferred", "robots_unreachable"),
                    ("deferred", "robots_foreign_host"),
                }, url
        assert {c.reason for c in kept(t.io, Capture) if c.kind == "robots"} >= {
            "address_forbidden"
        }


def test_a_name_server_whose_answer_flips(tmp_path):
    """The first answer is allowed, the next is not: the second look-up is checked too, and the
    first is what was connected to.
    """
    bad = []
    for host in hosts():
        try:
            bad.append(parse_place(f"http://{host}/").host)
        except Refused:
            bad.append("127.0.0.1")
    bad = [b if b[-1].isdigit() or ":" in b else "127.0.0.1" for b in bad]
    asked: dict[str, int] = {}

    async def flip(name: str) -> Lookup:
        n = int(name[1:-8])
        asked[name] = asked.get(name, 0) + 1
        good = asked[name] == 1
        return Lookup((SITE,) if good else (bad[n],) if n % 2 else (SITE, bad[n]), 0.0)

    with trap(tmp_path) as t:
        io = slot_io(tmp_path / "flip", engine=partial(_engine, Resolver(flip, hosts={})))
        cfg = t.config()
        cfg = cfg.model_copy(
            update={"politeness": cfg.politeness.model_copy(update={"ip_delay_s": 1e-6})}
        )
        names = [f"http://f{n}.example:{t.port}/" for n in range(len(bad))]
        run_slot(plan(names), cfg, io)
        told = outcomes(io)
        assert t.connections() == 0 and t.web.log == []
        assert {(told[u].outcome, told[u].reason) for u in names} == {
            ("refused", "address_forbidden")
        }
        assert min(asked.values()) >= 2


def test_the_sentinels_do_hear(tmp_path):
    """The control: without the guard's table the same run reaches them."""
    with trap(tmp_path) as t:
        cfg = t.config(allow_private=["127.0.0.0/8", "::1/128"])
        run_slot(plan([c for u in urls(t.port)[:8] if (c := canonical(u))]), cfg, t.io)
        assert t.connections() > 0


def test_the_shipped_configuration_denies_loopback(tmp_path):
    """config.Config() as it comes, and conf/default.yaml: no allowance for any private network, and
    loopback is refused.
    """
    from crawlkit.config import load_config

    for cfg in (Config(), load_config(Path(__file__).parents[3] / "conf" / "default.yaml")):
        assert cfg.fetch.allow_private == () and cfg.fetch.connect_to == {}
        io = slot_io(tmp_path / str(id(cfg)))
        run_slot(
            plan(
                [
                    "http://127.0.0.1/",
                    "http://localhost/",
                    "http://[::1]/",
                    "http://169.254.169.254/latest/meta-data/",
                ]
            ),
            cfg,
            io,
        )
        assert {(c.outcome, c.reason) for c in outcomes(io).values()} == {
            ("refused", "address_forbidden")
        }


def own_site(url: str) -> bool:
    """Odd spellings that, read by the standard, lead to the outside site or back to the
    page's own.
    """
    found = canonical(url, "http://site.test/")
    return found is not None and host_of(found).endswith(("site.example", ".test"))


def own_site_apart(found: Iterable[str]) -> list[str]:
    return [u for u in found if not host_of(u).endswith(("site.example", ".test"))]
