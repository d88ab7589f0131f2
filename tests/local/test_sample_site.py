"""The sample site is served as its folder says, and holds together: no dead link but the planned
ones.
"""

from __future__ import annotations

import http.client
import re
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from crawlkit.config import parse_config
from crawlkit.local.sample_site import SampleSite, serve

FOLDER = Path(__file__).resolve().parents[2] / "data" / "samples" / "site"


@pytest.fixture(scope="module")
def site():
    with serve(FOLDER) as s:
        yield s


def get(site: SampleSite, url: str, **headers: str) -> tuple[int, http.client.HTTPMessage, bytes]:
    parts = urlsplit(url)
    conn = http.client.HTTPConnection(site.hosts[parts.hostname], site.port, timeout=5)
    try:
        conn.request("GET", parts.path or "/", headers={"Host": parts.hostname, **headers})
        answer = conn.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        conn.close()


def test_every_page_is_found_from_the_seeds(site: SampleSite) -> None:
    statuses: dict[str, int] = {}
    todo = list(site.seeds)
    while todo:
        url = todo.pop()
        if url in statuses:
            continue
        status, headers, body = get(site, url)
        statuses[url] = status
        targets = (
            [headers["Location"]]
            if headers["Location"]
            else re.findall(r'<a [^>]*href="([^"]+)"', body.decode())
        )
        todo += [urljoin(url, t) for t in targets]
    assert {u: s for u, s in statuses.items() if s not in (200, 301, 302)} == {
        "http://harbour.example/tide-tables-2019.html": 404,
        "http://museum.example/catalogue-1931.html": 410,
        "http://mirror.museum.example/catalogue-1931.html": 410,
    }
    files = {
        f"http://{p.relative_to(FOLDER).as_posix().removesuffix('index.html')}"
        for p in FOLDER.rglob("*.html")
    }
    # one page is named by the sitemap alone
    assert files - statuses.keys() == {"http://harbour.example/notices/dredging.html"}
    assert len(files) > 150 and len(site.hosts) >= 10
    assert b"/notices/dredging.html" in get(site, "http://harbour.example/sitemap.xml")[2]


def test_validators_and_types(site: SampleSite) -> None:
    status, headers, _ = get(site, "http://harbour.example/tides.html")
    assert (status, headers["Content-Type"], headers["Last-Modified"]) == (
        200,
        "text/html; charset=utf-8",
        "Mon, 02 Feb 2026 09:00:00 GMT",
    )
    assert (
        get(site, "http://harbour.example/tides.html", **{"If-None-Match": headers["ETag"]})[0]
        == 304
    )
    assert (
        get(site, "http://harbour.example/robots.txt")[1]["Content-Type"]
        == "text/plain; charset=utf-8"
    )
    for path in ("/_meta.json", "/../site.json", "/%2e%2e/site.json", "//etc/passwd"):
        assert get(site, f"http://harbour.example{path}")[0] == 404


def test_a_browser_may_use_the_address(site: SampleSite) -> None:
    conn = http.client.HTTPConnection(site.hosts["kitchen.example"], site.port, timeout=5)
    conn.request("GET", "/")
    assert b"A Plain Kitchen" in conn.getresponse().read()
    conn.close()


def test_duplicates_are_there() -> None:
    def read(name: str) -> bytes:
        return (FOLDER / name).read_bytes()

    assert read("walkers.example/river-path.html") == read("walkers.example/river-path-print.html")
    assert read("library.example/press/new-roof.html") == read("courier.example/2025/new-roof.html")
    for page in (FOLDER / "museum.example").rglob("*.html"):
        assert read(str(page.relative_to(FOLDER))) == read(f"mirror.{page.relative_to(FOLDER)}")
    assert read("kitchen.example/apple-crumble.html") != read(
        "kitchen.example/apple-crumble-for-eight.html"
    )


def test_configuration(site: SampleSite) -> None:
    config = parse_config("", sets=tuple(site.config_sets()))
    assert (
        config.fetch.connect_to["www.orchard.example"].endswith(f":{site.port}")
        and site.port in config.fetch.ports
    )


def test_two_sites_at_once() -> None:
    with serve(FOLDER) as one, serve(FOLDER) as two:
        assert (
            one.port != two.port
            and get(one, "http://library.example/")[0]
            == get(two, "http://library.example/")[0]
            == 200
        )
