"""pywb replays what was stored, by our CDXJ and WARC files; cdx-toolkit reads the index through
pywb's CDX server.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest
from crawlkit.config import Config
from crawlkit.exports.cdxj import export_cdxj
from crawlkit.exports.source import Source

from tests.exports import sample
from tests.outside import run_tool, wayback

pytestmark = pytest.mark.waits


def get(url: str) -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.headers.get("Content-Type", ""), answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers.get("Content-Type", ""), e.read()


@pytest.fixture(scope="module")
def replay(data, tmp_path_factory):
    """Address of a pywb collection of the sample crawl."""
    folder = tmp_path_factory.mktemp("pywb")
    export_cdxj(Source(data, Config()), folder / "index.cdxj")
    with wayback(folder, data / "warc", folder / "index.cdxj") as url:
        yield url


# url, time (of the first and the second round), body as it was served; a revisit is answered by the
# copy that it names
@pytest.mark.parametrize(
    ("n", "when"),
    [(0, "20240402120000"), (1, "20240402120001"), (2, "20240402120002"), (0, "20240403120000")],
)
def test_pages_are_replayed_byte_for_byte(replay, n, when):
    url, status, fields, body = sample.PAGES[n]
    assert get(f"{replay}/{when}id_/{url}") == (status, dict(fields)["Content-Type"], body)


def test_a_page_is_replayed_with_its_links_rewritten(replay):
    status, kind, body = get(f"{replay}/20240402120000mp_/http://www.site.test/")
    assert status == 200 and kind.startswith("text/html")
    assert (
        b"The harbour is open at high water." in body
        and b"/crawl/20240402120000mp_/http://other.test/x" in body
    )


def test_what_is_not_stored_is_not_found(replay):
    assert get(f"{replay}/20240402120000id_/http://www.site.test/never")[0] == 404


def test_cdx_toolkit_lists_the_captures(replay):
    lines = run_tool(
        "cdxt",
        "--source",
        f"{replay}/cdx",
        "--limit",
        "20",
        "iter",
        "--jsonl",
        "--fields",
        "url,timestamp,status",
        "www.site.test/*",
    ).splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    got = {(r["url"], r["timestamp"], r["status"]) for r in found}
    stored = {
        "http://www.site.test/",
        "http://www.site.test/b?z=1&a=2",
        "http://site.test/old",
        "http://site.test/none",
        "http://site.test/robots.txt",
    }
    assert {u for u, _, _ in got} == stored  # pywb's keys know no www
    assert ("http://www.site.test/", "20240402120000", "200") in got and (
        "http://site.test/none",
        "20240402120004",
        "404",
    ) in got
