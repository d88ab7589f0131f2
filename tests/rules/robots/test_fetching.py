"""rules.robots_fetch: RFC 9309 2.3 and 2.4, as a table of answers."""

from __future__ import annotations

import pytest
from crawlkit.config import Robots
from crawlkit.outcomes import Reason
from crawlkit.rules.robots.fetching import RobotsFetch, fresh_verdict, robots_url, verdict
from hypothesis import given, strategies as st

from tests.examples import examples

URL = "http://site.example/robots.txt"
NOW = 1_700_000_000.0
RULES = b"User-agent: *\nDisallow: /x\n"
DAY = 86_400.0


def drive(
    answers: dict[str, tuple],
    page: str = "http://site.example/p",
    config: Robots = Robots(),
    **options,
):
    """Runs a fetch over {address: (status, headers, body)}; (requests, verdict)."""
    fetch = RobotsFetch(page, config, **options)
    asked = []
    while (url := fetch.next_request()) is not None:
        asked.append(url)
        assert len(asked) < 50
        fetch.receive(NOW, *answers.get(url, (404,)))
    return asked, fetch.verdict


@pytest.mark.parametrize(
    "status, kind, reason",
    [(200, "rules", None), (204, "rules", None), (206, "rules", None)]
    + [
        (status, "allow_all", Reason.HTTP_4XX)
        for status in (400, 401, 403, 404, 405, 410, 418, 451, 499)
    ]
    + [(429, "defer", Reason.ROBOTS_429)]
    + [
        (status, "defer", Reason.ROBOTS_UNREACHABLE)
        for status in (100, 304, 300, 306, 500, 502, 503, 504, 599, 600, 999, None)
    ],
)
def test_status_table(status, kind, reason):
    got = verdict(URL, NOW, Robots(), status, body=RULES)
    assert (got.kind, got.reason) == (kind, reason)
    match = got.match("crawlkit", "http://site.example/x")
    assert {
        "rules": match is not None and not match.allowed,
        "allow_all": match is not None and match.allowed,
        "defer": match is None,
    }[kind]
    assert got.expires_at == NOW + (600 if kind == "defer" else DAY)


@pytest.mark.parametrize(
    "fault",
    [
        {"error": Reason.CONTENT_ENCODING},
        {"error": Reason.DISCONNECTED, "truncated": "disconnect"},
        {"truncated": "time"},
        {"truncated": "length"},
        {"body": b"User-agent: *\nDisallow: /"},
    ],
)
@pytest.mark.parametrize("status", [400, 403, 404, 410, 451])
def test_what_is_wrong_with_the_body_of_a_4xx_does_not_matter(status, fault):
    got = verdict(URL, NOW, Robots(), status, **fault)
    assert got.match("crawlkit", "http://site.example/x").allowed


def test_errors_and_broken_bodies_are_unreachable():
    assert verdict(URL, NOW, Robots(), None, error=Reason.DNS_NXDOMAIN).error == Reason.DNS_NXDOMAIN
    assert verdict(URL, NOW, Robots(), 200, body=RULES, error=Reason.READ_STALLED).kind == "defer"
    assert verdict(URL, NOW, Robots(), 200, body=RULES, truncated="disconnect").kind == "defer"
    cut = verdict(
        URL,
        NOW,
        Robots(),
        200,
        body=b"User-agent: *\nDisallow: /x\nDisallow: /p",
        truncated="length",
    )
    assert cut.kind == "rules" and cut.match("crawlkit", "http://site.example/pq").allowed


def test_setting_for_429():
    assert verdict(URL, NOW, Robots(on_429="allow"), 429).kind == "allow_all"


@pytest.mark.parametrize(
    "value, wait_s",
    [
        ("1200", 1200),
        ("120", 120),
        ("0", 600),
        ("Tue, 14 Nov 2023 22:53:20 GMT", 2400),
        ("soon", 600),
        ("9999999", DAY),
    ],
)
def test_retry_after(value, wait_s):
    for status in (429, 503):
        assert verdict(URL, NOW, Robots(), status, [("retry-after", value)]).wait_s == wait_s


@pytest.mark.parametrize(
    "value, fresh_s",
    [
        ("max-age=7200", 7200),
        ("max-age=60", 3600),
        ("max-age=999999999", DAY),
        ("public, MAX-AGE = 7200, max-age=9000", 7200),
        ("no-store", 3600),
        ("no-cache, max-age=7200", 3600),
        ("s-maxage=7200", DAY),
        ("x-max-age=7200", DAY),
        ("junk", DAY),
    ],
)
def test_cache_control(value, fresh_s):
    assert (
        verdict(URL, NOW, Robots(), 200, [("Cache-Control", value)], RULES).expires_at
        == NOW + fresh_s
    )
    assert (
        verdict(
            URL, NOW, Robots(), 200, [("Cache-Control", "public"), ("cache-control", value)], RULES
        ).expires_at
        == NOW + fresh_s
    )  # RFC 9110 5.3


def redirects(count: int) -> dict[str, tuple]:
    hops = [URL, *(f"http://h{n}.example/r" for n in range(count))]
    return {url: (301, [("Location", to)]) for url, to in zip(hops, hops[1:], strict=False)} | {
        hops[-1]: (200, [], RULES)
    }


def test_five_hops_across_hosts_bind_the_first():
    asked, got = drive(redirects(5))
    assert len(asked) == 6 and got.kind == "rules" and got.final_url == asked[-1]
    assert not got.match("crawlkit", "http://site.example/x").allowed


def test_a_sixth_hop_is_unavailable():
    asked, got = drive(redirects(6))
    assert len(asked) == 6
    assert (got.kind, got.reason) == ("allow_all", Reason.REDIRECT_TOO_LONG)


@pytest.mark.parametrize(
    "location, kind, detail",
    [
        (URL, "allow_all", None),
        ("http://169.254.169.254/robots.txt", "defer", Reason.ADDRESS_FORBIDDEN),
        ("ftp://site.example/robots.txt", "defer", Reason.URL_SCHEME),
        ("http://[::1", "defer", Reason.URL_INVALID),
        (None, "defer", Reason.REDIRECT_INVALID),
    ],
)
def test_hops_that_lead_nowhere(location, kind, detail):
    asked, got = drive({URL: (302, [("Location", location)] if location else [])})
    assert (asked, got.kind, got.error) == ([URL], kind, detail)


def test_foreign_hosts_are_not_asked():
    asked, got = drive(redirects(1), owns=lambda host: host.endswith("site.example"))
    assert (asked, got.kind, got.reason, got.final_url) == (
        [URL],
        "defer",
        Reason.ROBOTS_FOREIGN_HOST,
        "http://h0.example/r",
    )
    assert got.leads_to == ("http://h0.example",)
    assert got.expires_at == got.fetched_at  # the next round asks again, and owns it


@pytest.mark.parametrize(
    ("hops", "leads_to"),
    [
        (["http://www.site.example/r"], ()),
        (["https://other.test:8443/r"], ("https://other.test:8443",)),
        (["http://a.test/r", "http://a.test/s"], ("http://a.test",)),
        (["http://a.test/r", "http://site.example/r"], ("http://a.test",)),
        (["http://b.test/r", "http://a.test/r"], ("http://b.test", "http://a.test")),
    ],
)
def test_a_verdict_tells_to_which_other_domains_it_led(hops, leads_to):
    answers = {u: (302, [("Location", hop)]) for u, hop in zip([URL, *hops], hops, strict=False)}
    asked, got = drive(answers | {hops[-1]: (200, [])})
    assert (len(asked), got.kind, got.leads_to) == (len(hops) + 1, "rules", leads_to)


def test_origin_is_scheme_host_and_port():
    assert robots_url("https://site.example:8443/a?b") == "https://site.example:8443/robots.txt"


def test_stored_copies():
    def kept(status, expires_at=NOW + 1):
        return fresh_verdict(
            "http://site.example", NOW, Robots(), status, RULES, NOW - 5, expires_at
        )

    assert [kept(status).kind for status in (200, 404, 301, 429, 503, None)] == [
        "rules",
        "allow_all",
        "allow_all",
        "defer",
        "defer",
        "defer",
    ]
    assert kept(200, expires_at=NOW) is None
    assert fresh_verdict("http://site.example", NOW, Robots(), None, None, None, None) is None
    assert not kept(200).match("crawlkit", "http://site.example/x").allowed


HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["Location", "Retry-After", "Cache-Control", "Date"]), st.text(max_size=20)
    ),
    max_size=4,
)


@examples(200)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(100, 999), st.sampled_from([200, 301, 302])),
            HEADERS,
            st.binary(max_size=40),
            st.sampled_from([None, "timeout"]),
            st.sampled_from([None, "length", "time"]),
        ),
        min_size=8,
        max_size=8,
    )
)
def test_any_answers_end_in_a_verdict(answers):
    fetch = RobotsFetch("http://site.example/p", Robots())
    for answer in answers:
        if fetch.next_request() is None:
            break
        fetch.receive(NOW, *answer)
    assert fetch.next_request() is None
    assert fetch.verdict.expires_at > NOW
    assert (fetch.verdict.reason is None) == (fetch.verdict.kind == "rules")
