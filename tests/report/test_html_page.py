"""The report page: hostile texts stay texts, nothing from elsewhere, small with 400 rounds."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from crawlkit.config import Freshness
from crawlkit.report.freshness import freshness_queries
from crawlkit.report.html_page import render
from crawlkit.report.html_parts import host_anchor, link, show_bytes
from crawlkit.report.queries import OF_HISTORY, PLOTTED, read_queries

EVIL = "</script><b>\"'&"
QUERIES = read_queries("r000001", PLOTTED | OF_HISTORY) | freshness_queries(Freshness(), 0.0)
PROMISE = {
    "promise": "top",
    "within_s": 86_400.0,
    "pages": 3,
    "late": 1,
    "kept": 2 / 3,
    "worst_lag_s": 3600.0,
}


def host(name: str, **more) -> dict:
    numbers = {"hosts": 1, "pages": 3, "errors": 1, "waiting": 7, "p50": 5.0, "p95": 9.0}
    told = {"p99": 9.5, "robots": "200: its rules hold", "held": "", "delay_s": 1.5}
    return {"host": name, **numbers, **told, "delay_source": "robots.txt, Crawl-delay"} | more


def report(**more) -> dict:
    drawn = {name: [] for name in QUERIES}
    totals = {"pages fetched": 30, "not modified": 10, "body bytes": 2048, "stored bytes": 1024}
    rule = {"state": "ok", "value": 1.0, "threshold": 2.0, "fires": "above", "summary": EVIL}
    return {
        "crawl": EVIL,
        "round_id": "r000001",
        "nominal_time": "2026-01-01 00:00:00 UTC",
        "agent": EVIL,
        **drawn,
        "totals": [totals | {"errors": 4}],
        "fetch_time": [{"seconds": 8.0, "cpu_s": 1.0}],
        "percentiles": [{"p50": 12.0, "p95": 80.0, "p99": 250.0}],
        "hosts": [host('a".test'), host(EVIL)],
        "alerts": [{"name": "errors_warn", "severity": "warn", "metric": "m", **rule}],
        "promises": [PROMISE],
        "late_pages": [{"url": EVIL, "promise": "top", "age_s": 90_000.0, "lag_s": 3600.0}],
        "stages": [],
        "settings": {"fetch": {"user": EVIL}},
        "diffs": [],
        "warc": "../warc/",
        "audit": {k: 0 for k in ("requests", "disallowed", "host", "domain", "address")}
        | {"closest": None},
    } | more


class Seen(HTMLParser):
    """Tags, attributes and text outside of them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(k, v or "") for k, v in attrs]

    def handle_data(self, data):
        self.text += data


def error(url: str, **more) -> dict:
    row = {"url": url, "host": "a.test", "outcome": "failed", "reason": EVIL, "status": None}
    return row | {"detail": EVIL, "referrer": None, "round_id": "r000001", "started": 0.0} | more


def test_hostile_texts_stay_texts():
    page = render(
        report(
            newest_errors=[error("javascript:alert(1)"), error(f"http://a.test/{EVIL}")],
            clusters=[
                {"canonical_url": EVIL, "members": 2, "least_jaccard": 1.0}
                | {"example": f"http://x/{EVIL}", "another": None}
            ],
            states=[{"label": EVIL, "value": 1}],
            slowest=[{"label": EVIL, "value": 3.0}],
        ),
        QUERIES,
    )
    seen = Seen(page)
    plain = Seen(render(report(crawl="c", agent="a", hosts=[]), QUERIES))
    assert seen.tags.count("b") == plain.tags.count("b")
    assert seen.tags.count("script") == 1
    assert not [k for k, _ in seen.attributes if k.startswith("on")]
    assert not [v for k, v in seen.attributes if k == "href" and v.startswith("javascript")]
    assert seen.text.count("</script><b>") >= 5


def test_nothing_is_loaded_from_elsewhere():
    seen = Seen(render(report(), QUERIES))
    assert not {"link", "img", "iframe"} & set(seen.tags)
    assert not [k for k, _ in seen.attributes if k == "src"]
    policy = next(v for k, v in seen.attributes if v.startswith("default-src"))
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    assert all(
        "noreferrer" in tag for tag in re.findall(r"<a [^>]*http[^>]*>", render(report(), QUERIES))
    )


def test_rates_are_over_the_fetch_stages():
    page = Seen(render(report(), QUERIES)).text
    # 40 pages and 2048 bytes in 8 s
    assert "5pages a second" in page and "256\u202fBbody bytes a second" in page
    assert "2.0\u202fKiBbody bytes" in page and "1.0\u202fKiBstored bytes" in page
    assert "250\u202fmsp99 of an answer" in page


def test_hosts_have_anchors_that_plots_lead_to():
    page = render(report(slowest=[{"label": 'a".test', "value": 3.0}]), QUERIES)
    assert host_anchor('a".test') == "host-a_22.test"
    assert 'id="host-a_22.test"' in page and '<a href="#host-a_22.test">' in page
    assert "2 of 1 hosts" in page  # as the query told


def test_rounds_lead_to_the_pages_that_compare_them():
    rounds = [{"label": f"r{n:06d}", "fetched": n, "redirected": 0, "errors": 0} for n in (1, 2)]
    diffs = [("r000001", "r000002", "diff-r000001-r000002.html")]
    page = render(report(rounds=rounds, diffs=diffs), QUERIES)
    assert '<a href="diff-r000001-r000002.html">r000001</a>' in page


def test_four_hundred_rounds_and_full_tables_stay_below_two_megabytes():
    rounds = [
        {"label": f"r{n:06d}", "fetched": n, "redirected": 1, "errors": 2} for n in range(400)
    ]
    growth = [{"x": n, "known": n * n, "waiting": n} for n in range(400)]
    hosts = [host(f"host-{n}.{'long' * 15}.test", hosts=9000) for n in range(200)]
    errors = [error(f"http://a.test/{'x' * 2000}") for _ in range(30)]
    page = render(report(rounds=rounds, growth=growth, hosts=hosts, newest_errors=errors), QUERIES)
    assert len(page.encode()) < 1_000_000
    assert "Each column is the sum of 10 neighbours." in page
    assert "40 of 400 rounds" in page and "200 of 9\u202f000 hosts" in page


@pytest.mark.parametrize(
    ("n", "shown"), [(7, "7\u202fB"), (2048, "2.0\u202fKiB"), (5 << 20, "5.0\u202fMiB")]
)
def test_bytes_have_units(n, shown):
    assert show_bytes(n) == shown


def test_only_pages_of_the_web_are_links():
    assert link("javascript:x") == "<span class=url>javascript:x</span>"
    assert 'rel="noreferrer nofollow"' in link("http://a.test/")
