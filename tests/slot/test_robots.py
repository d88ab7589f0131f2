"""robots.txt in a slot: asked once for each origin, before its pages, at the host's pace; nothing
disallowed is sent (D1, D10).
"""

from __future__ import annotations

import gzip
import time

import pytest
from crawlkit.local.web_server import Reply
from crawlkit.model import Capture
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.slot.run import run_slot

from tests.slot.slotweb import (
    SlotWeb,
    kept,
    last_states,
    outcomes,
    page,
    plan,
    robots,
    robots_copies,
    slot_io,
    told,
)

pytestmark = pytest.mark.waits

QUICK = {"politeness": {"delay_s": 0.02, "domain_delay_s": 0.0, "ip_delay_s": 0.0}}
DENY = "User-agent: *\nDisallow: /no\n"


def test_denied_pages_are_never_sent(tmp_path):
    io = slot_io(tmp_path)
    with SlotWeb(
        {"a.test": {"/robots.txt": robots(DENY), "/yes": page("x"), "/no/1": page("x")}}
    ) as web:
        run_slot(
            plan(["http://a.test/no/1", "http://a.test/yes", "http://a.test/no/2"]),
            web.config(**QUICK),
            io,
        )
    assert web.asked("a.test") == ["/robots.txt", "/yes"]
    denied = outcomes(io)["http://a.test/no/1"]
    assert (denied.outcome, denied.reason, denied.robots_line) == (
        "robots_denied",
        "robots_rule",
        "Disallow: /no",
    )


def test_our_own_group_holds_for_us(tmp_path):
    io = slot_io(tmp_path)
    text = "User-agent: *\nDisallow: /\n\nUser-agent: crawlkit\nDisallow: /no\n"
    with SlotWeb({"a.test": {"/robots.txt": robots(text), "/yes": page("x")}}) as web:
        run_slot(plan(["http://a.test/yes", "http://a.test/no"]), web.config(**QUICK), io)
    assert web.asked("a.test") == ["/robots.txt", "/yes"]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(404, body=DENY.encode()), ("fetched", None)),
        (Reply(403), ("fetched", None)),
        (
            Reply(raw=b"HTTP/1.1 410 Gone\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
            ("fetched", None),
        ),
        (
            Reply(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
            ("deferred", "robots_unreachable"),
        ),
        (Reply(500), ("deferred", "robots_unreachable")),
        (Reply(503), ("deferred", "robots_unreachable")),
        (Reply(429), ("deferred", "robots_429")),
        (Reply(raw=b"", ending="reset"), ("deferred", "robots_unreachable")),
        (
            Reply(
                200, [("Content-Encoding", "gzip")], gzip.compress(b"User-agent: *\nDisallow: /\n")
            ),
            ("robots_denied", "robots_rule"),
        ),
        (
            Reply(200, [("Content-Encoding", "gzip")], b"no gzip"),
            ("deferred", "robots_unreachable"),
        ),
        (
            Reply(200, [("Content-Type", "image/png")], b"User-agent: *\nDisallow: /\n"),
            ("robots_denied", "robots_rule"),
        ),
        (
            Reply(301, [("Location", "/robots.txt")]),
            ("fetched", None),
        ),  # a loop leads nowhere: unavailable
        (
            Reply(301, [("Location", "http://10.0.0.1/robots.txt")]),
            ("deferred", "robots_unreachable"),
        ),
        (
            Reply(301, [("Location", "http://other.example/robots.txt")]),
            ("deferred", "robots_foreign_host"),
        ),
    ],
)
def test_answers_to_robots_txt(tmp_path, reply, expected):
    io = slot_io(tmp_path)
    with SlotWeb({"a.test": {"/robots.txt": reply, "/x": page("x")}}) as web:
        run_slot(plan(["http://a.test/x"]), web.config(**QUICK), io)
    assert told(io)["http://a.test/x"] == expected
    assert (
        web.asked("a.test") == ["/robots.txt", "/x"]
        if expected[0] == "fetched"
        else ["/robots.txt"]
    )
    assert len(kept(io, Capture)) == (3 if expected[1] == "robots_foreign_host" else 2)


def test_a_body_that_broke_off_is_kept_as_unreachable(tmp_path):
    io = slot_io(tmp_path)
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\nUser-agent: *\nAllow: /\n"
    with SlotWeb({"a.test": {"/robots.txt": Reply(raw=raw)}}) as web:
        run_slot(plan(["http://a.test/x"]), web.config(**QUICK), io)
    assert told(io)["http://a.test/x"] == ("deferred", "robots_unreachable")
    assert robots_copies(io)["http://a.test"].status is None


def test_hops_are_followed_at_the_pace_of_the_host_they_go_to(tmp_path):
    io = slot_io(tmp_path)
    sites = {
        "a.test": {
            "/robots.txt": Reply(301, [("Location", "http://www.a.test/r")]),
            "/no": page("x"),
            "/yes": page("x"),
        },
        "www.a.test": {
            "/r": Reply(302, [("Location", "/r2")]),
            "/r2": robots(DENY),
            "/1": page("x"),
        },
    }
    with SlotWeb(sites) as web:
        run_slot(
            plan(["http://a.test/no", "http://a.test/yes", "http://www.a.test/1"]), web.config(), io
        )
    assert web.violations() == []
    assert web.asked("a.test") == ["/robots.txt", "/yes"]
    assert sorted(web.asked("www.a.test")) == ["/1", "/r", "/r2", "/robots.txt"]
    assert robots_copies(io)["http://a.test"].final_url == "http://www.a.test/r2"
    beside = [c.url for c in kept(io, Capture) if not c.is_outcome]
    assert beside == ["http://a.test/robots.txt", "http://www.a.test/r"]
    assert outcomes(io)["http://www.a.test/r2"].url_key == plan(["http://a.test/no"])[0].url_key


def test_each_origin_has_its_own(tmp_path):
    io = slot_io(tmp_path)
    with SlotWeb({"a.test": {"/robots.txt": robots(DENY)}}) as web:
        run_slot(
            plan(["http://a.test/no", "http://a.test:8080/no"]),
            web.config(**QUICK, fetch={"ports": [80, 8080]}),
            io,
        )
    assert web.asked("a.test") == ["/robots.txt", "/robots.txt"]
    assert len(robots_copies(io)) == 2


def test_a_fresh_copy_is_used_and_a_stale_one_is_not(tmp_path):
    for name, expires_in_s, expected in (("fresh", 100, []), ("stale", -1, ["/robots.txt", "/no"])):
        io = slot_io(tmp_path / name)
        with SlotWeb({"a.test": {"/robots.txt": robots(""), "/no": page("x")}}) as web:
            items = plan(["http://a.test/no"])
            items[0].robots_status, items[0].robots_body = 200, DENY.encode()
            items[0].robots_fetched_at, items[0].robots_expires_at = (
                time.time() - 100,
                time.time() + expires_in_s,
            )
            run_slot(items, web.config(**QUICK), io)
            assert web.asked("a.test") == expected
    assert (
        outcomes(slot_io(tmp_path / "fresh"))["http://a.test/robots.txt"].outcome == "robots_cached"
    )


def test_a_copy_that_expires_in_the_round_is_asked_for_again(tmp_path):
    io = slot_io(tmp_path)
    with SlotWeb({"a.test": {"/robots.txt": robots(DENY), "/1": page("x")}}) as web:
        items = plan(["http://a.test/1", "http://a.test/2", "http://a.test/no"])
        items[0].robots_status, items[0].robots_body = 200, b""
        items[0].robots_fetched_at, items[0].robots_expires_at = (
            time.time() - 100,
            time.time() + 1.5,
        )
        run_slot(items, web.config(politeness={"delay_s": 1.6}), io)
    assert web.asked("a.test") == ["/1", "/robots.txt", "/2"]
    assert told(io)["http://a.test/no"][0] == "robots_denied"


def test_a_crawl_delay_counts_from_the_next_request_on(tmp_path):
    io = slot_io(tmp_path)
    with SlotWeb(
        {
            "a.test": {
                "/robots.txt": robots("User-agent: *\nCrawl-delay: 0.6\n"),
                "/1": page("x"),
                "/2": page("x"),
            }
        }
    ) as web:
        run_slot(plan(["http://a.test/1", "http://a.test/2"]), web.config(), io)
    assert web.violations(0.6) == []
    assert last_states(io)["a.test"].robots_delay_s == 0.6
    assert outcomes(io)["http://a.test/1"].delay_ms == 600


def test_a_crawl_delay_that_is_gone_no_longer_counts(tmp_path):
    io = slot_io(tmp_path)
    with SlotWeb({"a.test": {"/robots.txt": robots("")}}) as web:
        run_slot(
            plan(["http://a.test/1"], {"a.test": HostState("a.test", robots_delay_s=60.0)}),
            web.config(**QUICK),
            io,
        )
    assert web.asked("a.test") == ["/robots.txt", "/1"]
    assert last_states(io)["a.test"].robots_delay_s is None


def test_a_host_that_may_not_be_asked_defers_its_robots_row_too(tmp_path):
    io = slot_io(tmp_path)
    with SlotWeb({"a.test": {}}) as web:
        run_slot(
            plan(
                ["http://a.test/1"],
                {"a.test": HostState("a.test", retry_after_until=time.time() + 900)},
            ),
            web.config(**QUICK),
            io,
        )
    assert {(c.outcome, c.reason) for c in outcomes(io).values()} == {("deferred", "retry_after")}
    assert web.log == []


def test_one_user_agent_for_everything(tmp_path):
    io = slot_io(tmp_path)
    with SlotWeb({"a.test": {"/1": page("x")}}) as web:
        cfg = web.config(**QUICK)
        run_slot(plan(["http://a.test/1"]), cfg, io)
    assert {x.request.headers["user-agent"] for x in web.log} == {cfg.agent.user_agent}
