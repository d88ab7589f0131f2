"""A whole slot against loopback servers: pace, outcomes, what is stored.

The servers' own log is the judge of the pace.
"""

from __future__ import annotations

import io as stdio
import json
import re
import threading
import time
from pathlib import Path

import pytest
from crawlkit.adapters.net.engine import Engine
from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.adapters.store.objects import StoreFull
from crawlkit.adapters.store.parts import WarcFile
from crawlkit.adapters.warc.file_check import check
from crawlkit.local.web_server import Reply
from crawlkit.model import Capture
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.slot import send as slot_send
from crawlkit.slot.run import run_slot
from warcio.archiveiterator import ArchiveIterator

from tests.slot.slotweb import HTML, SlotWeb, kept, last_states, outcomes, page, plan, slot_io, told

pytestmark = pytest.mark.waits

QUICK = {"politeness": {"delay_s": 0.02, "domain_delay_s": 0.0, "ip_delay_s": 0.0}}


def test_an_ordinary_slot(tmp_path):
    sites = {
        h: {f"/{i}": page(f"{h} {i}") for i in range(4)} for h in ("a.test", "b.test", "c.test")
    }
    io = slot_io(tmp_path)
    urls = [f"http://{h}/{i}" for i in range(4) for h in sites]
    with SlotWeb(sites) as web:
        counts = run_slot(plan(urls), web.config(), io)
    assert counts["planned"] == 15
    assert counts["fetched"] == 12
    assert counts["requests"] == 15
    assert set(told(io).values()) == {("fetched", None)}
    assert web.violations() == []
    assert max(x.in_flight for x in web.log) == 1
    assert web.asked("a.test") == ["/robots.txt", "/0", "/1", "/2", "/3"]
    assert_stored(io, {f"http://{h}/{i}": f"{h} {i}".encode() for i in range(4) for h in sites})
    assert list((tmp_path / "spool").iterdir()) == []


def assert_stored(io, bodies: dict[str, bytes]) -> None:
    """Each capture names a record that a public reader reads there, and the file passes the
    check.
    """
    files = {w.filename for w in kept(io, WarcFile)}
    assert files == {k for k in io.warcs.list()}
    for name in files:
        assert check(io.warcs.local_path(name))["ok"]
    found = outcomes(io)
    for url, body in bodies.items():
        c = found[url]
        record = next(
            iter(
                ArchiveIterator(
                    stdio.BytesIO(
                        io.warcs.open_range(
                            c.warc_filename, c.warc_record_offset, c.warc_record_length
                        ).read()
                    )
                )
            )
        )
        assert record.rec_headers["WARC-Target-URI"] == url
        assert record.rec_headers["WARC-Record-ID"] == c.warc_record_id
        assert record.content_stream().read() == body


def test_a_second_run_changes_nothing(tmp_path):
    io = slot_io(tmp_path)
    with SlotWeb({"a.test": {"/1": page("1")}}) as web:
        items = plan(["http://a.test/1", "http://a.test/2"])
        run_slot(items, web.config(**QUICK), io)
        before, asked = set(io.objects.list("parts/")), len(web.log)
        assert run_slot(items, web.config(**QUICK), io) == {"planned": 3, "done_before": 3}
        assert set(io.objects.list("parts/")) == before
        assert len(web.log) == asked


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(200, HTML, b""), ("fetched", None)),
        (Reply(404), ("http_error", "http_404")),
        (Reply(503), ("http_error", "http_5xx")),
        (Reply(301, [("Location", "/x")]), ("redirected", None)),
        (Reply(301, [("Location", "http://[bad")]), ("http_error", "url_invalid")),
        (Reply(302), ("http_error", "redirect_invalid")),
        (Reply(304), ("http_error", "http_3xx")),  # nothing was asked
        (Reply(200, [("Content-Type", "image/png")], b"png"), ("refused", "content_type")),
        (Reply(raw=b"nonsense\r\n\r\n"), ("failed", "http_malformed")),
        (Reply(raw=b"", ending="reset"), ("failed", "disconnected")),
    ],
)
def test_outcomes(tmp_path, reply, expected):
    io = slot_io(tmp_path)
    with SlotWeb({"a.test": {"/1": reply}}) as web:
        run_slot(plan(["http://a.test/1"]), web.config(**QUICK), io)
    assert told(io)["http://a.test/1"] == expected
    c = outcomes(io)["http://a.test/1"]
    assert (c.warc_filename is not None) == (c.status is not None)


def test_a_server_that_answers_with_a_type_we_do_not_want_has_not_failed(tmp_path):
    io = slot_io(tmp_path)
    with SlotWeb({"a.test": {"/1": Reply(200, [("Content-Type", "image/png")], b"png")}}) as web:
        run_slot(plan(["http://a.test/1"]), web.config(**QUICK), io)
    assert last_states(io)["a.test"].health.failures == 0


class NoSuchName:
    async def resolve(self, name):
        raise Refused(Reason.DNS_NXDOMAIN, name)


def test_names_and_addresses_that_cannot_be_asked(tmp_path):
    io = slot_io(tmp_path, engine=lambda fetch: Engine(fetch, NoSuchName()))
    with SlotWeb({"a.test": {}, "down.test": {}}) as web:
        cfg = web.config(**QUICK)
        cfg.fetch.connect_to["down.test"] = "127.0.1.253:9"
        run_slot(
            plan(
                [
                    "http://10.1.2.3/",
                    "http://10.1.2.3/x",
                    "http://a.test:81/",
                    "http://down.test/",
                    "http://nowhere.test/",
                ]
            ),
            cfg,
            io,
        )
    assert told(io) == {
        "http://10.1.2.3/": ("refused", "address_forbidden"),
        "http://10.1.2.3/x": ("refused", "address_forbidden"),
        "http://a.test:81/": ("refused", "port_forbidden"),
        "http://down.test/": ("deferred", "robots_unreachable"),  # RFC 9309 2.3.1.4
        "http://nowhere.test/": ("failed", "dns_nxdomain"),
    }
    assert outcomes(io)["http://down.test/robots.txt"].reason == "connect_refused"


def test_hosts_of_one_domain_and_of_one_address_keep_the_floor(tmp_path):
    sites = {
        h: {f"/{i}": page("x") for i in range(2)}
        for h in ("a.one.test", "b.one.test", "c.test", "d.test")
    }
    io = slot_io(tmp_path)
    with SlotWeb(sites, {"c.test": "127.0.1.254", "d.test": "127.0.1.254"}) as web:
        run_slot(
            plan([f"http://{h}/{i}" for i in range(2) for h in sites]),
            web.config(politeness={"delay_s": 0.1, "domain_delay_s": 0.1, "ip_delay_s": 0.1}),
            io,
        )
    assert len(web.log) == 12
    assert web.violations(0.1, 0.1, 0.1) == []


def test_many_hosts_at_once_up_to_the_limit(tmp_path):
    sites = {f"h{i}.test": {"/": page("x", delay_s=0.1)} for i in range(12)}
    io = slot_io(tmp_path)
    with SlotWeb(sites) as web:
        run_slot(
            plan([f"http://{h}/" for h in sites]),
            web.config(
                politeness={"delay_s": 0.0, "domain_delay_s": 0.0, "ip_delay_s": 0.0},
                fetch={"in_flight": 4},
            ),
            io,
        )
    slow = [x for x in web.log if x.request.target == "/"]
    most = max(sum(y.start <= x.start < y.end for y in slow) for x in slow)
    assert most == 4


def test_an_operators_rate_and_parallel_requests(tmp_path):
    io = slot_io(tmp_path)
    sites = {"a.test": {f"/{i}": page("x", delay_s=0.1) for i in range(6)}}
    with SlotWeb(sites) as web:
        state = HostState("a.test", operator_delay_s=0.0, parallel=3)
        run_slot(
            plan([f"http://a.test/{i}" for i in range(6)], {"a.test": state}), web.config(), io
        )
    assert max(x.in_flight for x in web.log) == 3
    assert last_states(io)["a.test"].parallel == 3


def test_retry_after_is_waited_for_if_it_fits_and_written_before_the_next_request(tmp_path):
    io = slot_io(tmp_path)
    known: list[float] = []

    def second(_):
        known.append(last_states(io)["a.test"].retry_after_until)
        return page("2")

    with SlotWeb({"a.test": {"/1": Reply(429, [("Retry-After", "1")]), "/2": second}}) as web:
        run_slot(plan(["http://a.test/1", "http://a.test/2"]), web.config(**QUICK), io)
    busy, later = (next(x for x in web.log if x.request.target == t) for t in ("/1", "/2"))
    assert 1.0 <= later.start - busy.end < 1.5
    assert known[0] > time.time() - 10


def test_what_does_not_fit_is_given_back_at_once_with_the_reason(tmp_path):
    io = slot_io(tmp_path)
    sites = {
        "a.test": {"/0": Reply(503, [("Retry-After", "600")])},
        "b.test": {f"/{i}": Reply(500) for i in range(5)},
        "c.test": {"/0": Reply(403, [("cf-mitigated", "challenge")])},
        "d.test": {},
        "e.test": {},
        "f.test": {},
        "g.test": {},
    }
    states = {
        "d.test": HostState("d.test", quota_max=1),
        "g.test": HostState("g.test", cycle_quota_max=2),
        "e.test": HostState("e.test", robots_delay_s=2.0, last_request_end=time.time()),
        "f.test": HostState("f.test", retry_after_until=time.time() + 500),
    }
    began = time.time()
    with SlotWeb(sites) as web:
        cfg = web.config(**QUICK, round={"minutes": 0.3})
        run_slot(plan([f"http://{h}/{i}" for h in sites for i in range(6)], states), cfg, io)
    assert time.time() - began < 16
    reasons = {h: [told(io)[f"http://{h}/{i}"][1] for i in range(6)] for h in sites}
    assert reasons["a.test"] == ["http_5xx"] + ["retry_after"] * 5
    assert reasons["b.test"] == ["http_5xx"] * 5 + ["breaker_open"]
    assert reasons["c.test"] == ["http_403"] + ["host_blocked"] * 5
    assert reasons["d.test"] == ["http_404"] + ["host_day_quota"] * 5
    assert reasons["g.test"] == ["http_404"] * 2 + ["host_cycle_quota"] * 4
    assert reasons["e.test"] == ["http_404"] * 6  # robots.txt no longer asks for a delay
    assert reasons["f.test"] == ["retry_after"] * 6
    assert web.asked("f.test") == []


def test_the_time_budget_ends_the_round(tmp_path):
    io = slot_io(tmp_path)
    with SlotWeb({"a.test": {f"/{i}": page("x") for i in range(20)}}) as web:
        counts = run_slot(
            plan([f"http://a.test/{i}" for i in range(20)]),
            web.config(round={"minutes": 1 / 60}),
            io,
        )
    assert counts["deferred"] + counts["fetched"] == 20
    assert 2 <= counts["fetched"] <= 4
    assert {r for o, r in told(io).values() if o == "deferred"} == {"round_time"}


def test_rows_that_are_not_due_yet_wait_or_are_given_back(tmp_path):
    io = slot_io(tmp_path)
    with SlotWeb({"a.test": {"/soon": page("x")}}) as web:
        soon = plan(["http://a.test/soon"], not_before=time.time() + 0.5)
        late = plan(["http://a.test/late"], not_before=time.time() + 3600)[1:]
        began = time.time()
        run_slot(soon + late, web.config(**QUICK), io)
    assert told(io) == {
        "http://a.test/soon": ("fetched", None),
        "http://a.test/late": ("deferred", "round_time"),
    }
    assert time.time() - began >= 0.5


def test_revisits(tmp_path):
    io = slot_io(tmp_path)

    def conditional(request):
        return Reply(304) if request.headers.get("if-none-match") == '"v1"' else page("never")

    digest = "sha1:7YC3ZXG4JEUACJ4BUXY2FJ34XNJZRYIG"  # SHA-1 of b"one"
    earlier = {
        "prev_payload_digest": digest,
        "prev_capture_id": "r0-0-1-7",
        "prev_fetched_at": 1_700_000_000.0,
    }
    with SlotWeb(
        {
            "a.test": {
                "/kept": conditional,
                "/same": page("one"),
                "/twin1": page("two"),
                "/twin2": page("two"),
            }
        }
    ) as web:
        items = plan(["http://a.test/kept"], etag='"v1"', **earlier)
        items += (
            plan(["http://a.test/same"], **earlier)[1:]
            + plan(["http://a.test/twin1", "http://a.test/twin2"])[1:]
        )
        for rank, item in enumerate(items):
            item.rank = rank
        run_slot(items, web.config(**QUICK), io)
    got = outcomes(io)
    facts = {
        u.rpartition("/")[2]: (c.outcome, c.record_type, c.revisit_of)
        for u, c in got.items()
        if c.kind == "page"
    }
    assert facts == {
        "kept": ("not_modified", "revisit", "r0-0-1-7"),
        "same": ("fetched", "revisit", "r0-0-1-7"),
        "twin1": ("fetched", "response", None),
        "twin2": ("fetched", "revisit", got["http://a.test/twin1"].capture_id),
    }
    headers = {}
    for name in io.warcs.list():
        with io.warcs.open_range(name) as f:
            headers |= {
                r.rec_headers["WARC-Target-URI"]: r.rec_headers
                for r in ArchiveIterator(f)
                if r.rec_type == "revisit"
            }
    assert headers["http://a.test/kept"]["WARC-Profile"].endswith("server-not-modified")
    assert headers["http://a.test/same"]["WARC-Refers-To-Date"] == "2023-11-14T22:13:20Z"
    assert headers["http://a.test/twin2"]["WARC-Refers-To-Target-URI"] == "http://a.test/twin1"


def test_files_roll_and_each_part_names_its_own(tmp_path):
    io = slot_io(tmp_path)
    with SlotWeb({"a.test": {f"/{i}": page(f"{i}" * 400) for i in range(6)}}) as web:
        run_slot(
            plan([f"http://a.test/{i}" for i in range(6)]),
            web.config(**QUICK, warc={"roll_bytes": 2048}),
            io,
        )
    files = kept(io, WarcFile)
    assert len(files) > 2
    assert_stored(io, {f"http://a.test/{i}": f"{i}".encode() * 400 for i in range(6)})


def test_the_stop_list_is_heeded_before_the_next_request(tmp_path):
    io = slot_io(tmp_path, stop_list_s=0.2)
    io.objects.put(
        "control/stop.json", json.dumps({"hosts": ["b.test"], "domains": ["c.test"]}).encode()
    )

    def third(_):
        io.objects.put(
            "control/stop.json", json.dumps({"hosts": ["a.test"], "domains": []}).encode()
        )
        return page("x")

    sites = {
        "a.test": {f"/{i}": page("x") for i in range(20)} | {"/2": third},
        "b.test": {},
        "www.c.test": {},
    }
    with SlotWeb(sites) as web:
        run_slot(
            plan(
                [f"http://a.test/{i}" for i in range(20)] + ["http://b.test/", "http://www.c.test/"]
            ),
            web.config(politeness={"delay_s": 0.1}),
            io,
        )
    assert web.asked("b.test") == web.asked("www.c.test") == []
    assert 4 <= len(web.asked("a.test")) <= 8
    assert told(io)["http://a.test/19"] == ("deferred", "stop_list")
    assert told(io)["http://b.test/"] == told(io)["http://www.c.test/"] == ("deferred", "stop_list")


def test_an_operator_sets_the_pace_of_a_running_slot(tmp_path):
    io = slot_io(tmp_path, stop_list_s=0.1)

    def third(_):
        io.objects.put(
            "control/stop.json",
            json.dumps(
                {"policies": {"a.test": {"delay_s": 0.6, "parallel": 1, "cycle_quota_max": 6}}}
            ).encode(),
        )
        return page("x")

    with SlotWeb({"a.test": {f"/{i}": page("x") for i in range(8)} | {"/2": third}}) as web:
        run_slot(
            plan([f"http://a.test/{i}" for i in range(8)]),
            web.config(politeness={"delay_s": 0.15}),
            io,
        )
    starts = [x.start for x in sorted(web.log, key=lambda x: x.start)]
    gaps = [b - a for a, b in zip(starts, starts[1:])]
    assert len(starts) == 7  # robots.txt and the quota's 6 pages
    assert max(gaps[:3]) < 0.5
    assert min(gaps[-2:]) >= 0.6
    assert last_states(io)["a.test"].operator_delay_s == 0.6
    assert told(io)["http://a.test/7"] == ("deferred", "host_cycle_quota")


def test_a_paused_round_sends_nothing_until_it_is_resumed(tmp_path):
    io = slot_io(tmp_path, stop_list_s=0.05)
    paused_at = []

    def second(_):
        io.objects.put("control/stop.json", json.dumps({"paused": ["r1"]}).encode())
        paused_at.append(time.monotonic())
        threading.Timer(1.2, io.objects.put, ("control/stop.json", b"{}")).start()
        return page("x")

    with SlotWeb({"a.test": {f"/{i}": page("x") for i in range(5)} | {"/1": second}}) as web:
        run_slot(plan([f"http://a.test/{i}" for i in range(5)]), web.config(), io)
    later = [x.start - paused_at[0] for x in web.log if x.start > paused_at[0]]
    assert len(later) == 3
    assert min(later) >= 1.2
    assert set(told(io).values()) == {("fetched", None)}


def test_an_abandoned_round_gives_its_urls_back(tmp_path):
    io = slot_io(tmp_path, stop_list_s=0.05)

    def second(_):
        io.objects.put("control/stop.json", json.dumps({"abandoned": ["r1"]}).encode())
        return page("x")

    began = time.monotonic()
    with SlotWeb({"a.test": {f"/{i}": page("x") for i in range(30)} | {"/1": second}}) as web:
        run_slot(plan([f"http://a.test/{i}" for i in range(30)]), web.config(), io)
    assert time.monotonic() - began < 25
    assert len(web.log) <= 5
    assert told(io)["http://a.test/29"] == ("deferred", "round_time")


def test_progress_is_shown(tmp_path):
    io = slot_io(tmp_path, progress_s=0.05)
    seen = []

    def look(_):
        time.sleep(0.3)
        seen.append(json.loads(io.objects.get("progress/r1/0.json")[0]))
        return page("x")

    with SlotWeb({"a.test": {"/1": page("x", delay_s=0.3), "/2": look, "/3": page("x")}}) as web:
        run_slot(plan([f"http://a.test/{i}" for i in range(1, 4)]), web.config(**QUICK), io)
    assert seen[0]["done"] + seen[0]["queued"] + seen[0]["in_flight"] == 4
    last = json.loads(io.objects.get("progress/r1/0.json")[0])
    shown = {name: last[name] for name in ("queued", "in_flight", "done", "failed", "waiting")}
    assert shown == {"queued": 0, "in_flight": 0, "done": 4, "failed": 1, "waiting": []}
    assert last["at"] - last["began"] >= last["recent"][0] > 0


def test_each_request_is_in_the_log_when_it_is_answered(tmp_path):
    io = slot_io(tmp_path)
    lines = []

    def look(_):
        time.sleep(0.2)
        lines.extend((tmp_path / "state/logs/r1/00000-001.log").read_text().splitlines())
        return page("x")

    with SlotWeb({"a.test": {"/1": page("x"), "/2": look, "/3": Reply(404)}}) as web:
        run_slot(plan([f"http://a.test/{i}" for i in range(1, 5)]), web.config(**QUICK), io)
        asked = len(web.log)
    assert [line.split(" ")[3] for line in lines] == ["http://a.test/robots.txt", "http://a.test/1"]
    every = (tmp_path / "state/logs/r1/00000-001.log").read_text().splitlines()
    assert len(every) == asked == 5
    columns = every[1].split(" ")
    assert columns[1:7] == ["200", "1", "http://a.test/1", "page:-", "text/html", "#0"]
    assert columns[8] == "fetched" and re.fullmatch(r"2\S+Z", columns[0])
    assert re.fullmatch(r"2\S+Z\+[0-9]+", columns[7])


def test_one_poisonous_answer_does_not_sink_the_slot(tmp_path, monkeypatch):
    io = slot_io(tmp_path)
    real = slot_send.FetchRequest

    def build(url, headers):
        return None if url.endswith("/bad") else real(url, headers)  # the engine stumbles over it

    monkeypatch.setattr(slot_send, "FetchRequest", build)
    with SlotWeb({"a.test": {"/good": page("x")}}) as web:
        run_slot(plan(["http://a.test/bad", "http://a.test/good"]), web.config(**QUICK), io)
    assert told(io) == {
        "http://a.test/bad": ("failed", "http_malformed"),
        "http://a.test/good": ("fetched", None),
    }


def moved(to: str, *fields: tuple[str, str]) -> Reply:
    return Reply(302, [("Location", to), *fields])


def test_spellings_of_one_page_are_asked_for_in_one_visit(tmp_path):
    io = slot_io(tmp_path)
    pages = {
        "/a%2Cb": moved("/a%2cb"),
        "/a%2cb": page("x"),
        "/loop%2C": moved("/loop%2c"),
        "/loop%2c": moved("/loop%2C"),
        "/other": moved("/else"),
    }
    rows = [f"http://a.test/{path}" for path in ("a%2Cb", "loop%2C", "other")]
    with SlotWeb({"a.test": pages}) as web:
        began = time.monotonic()
        run_slot(plan(rows), web.config(politeness={"delay_s": 0.3}), io)
        asked = [x.request.target for x in web.log]
    got = told(io)
    assert got["http://a.test/a%2Cb"][0] == "fetched"
    assert got["http://a.test/loop%2C"] == ("http_error", "redirect_loop")
    assert got["http://a.test/other"][0] == "redirected"
    assert sorted(asked) == ["/a%2Cb", "/a%2cb", "/loop%2C", "/loop%2c", "/other", "/robots.txt"]
    assert time.monotonic() - began > 0.3 * (len(asked) - 1)  # each at the host's pace


def test_a_session_is_one_visit(tmp_path):
    def start(request):
        has = "k=1" in (request.headers.get("cookie") or "")
        return page("the page") if has else moved("/doi/1?set=1")

    back = moved("/doi/1", ("Set-Cookie", "k=1"))
    for hosts, outcome in ((["a.test"], "fetched"), ([], "redirected")):
        with SlotWeb({"a.test": {"/doi/1": start, "/doi/1?set=1": back}}) as web:
            config = web.config(**QUICK, fetch={"cookie_hosts": hosts})
            folder = slot_io(tmp_path / outcome)
            run_slot(plan(["http://a.test/doi/1"]), config, folder)
        assert told(folder)["http://a.test/doi/1"][0] == outcome


def test_a_disk_that_fills_up_ends_the_round_with_all_that_was_asked_kept(tmp_path, monkeypatch):
    io = slot_io(tmp_path, progress_s=0.05)
    free = [10**9]
    monkeypatch.setattr("crawlkit.slot.task.free_bytes", lambda places: free[0])

    def fill(_):
        free[0] = 10**8  # less than storage.min_free_bytes
        time.sleep(0.3)
        return page("x")

    with SlotWeb({"a.test": {"/1": page("x"), "/2": fill}}) as web:
        run_slot(plan([f"http://a.test/{i}" for i in range(1, 30)]), web.config(**QUICK), io)
        asked = {x.request.target for x in web.log}
    got = told(io)
    assert asked == {"/robots.txt", "/1", "/2"}
    assert got["http://a.test/2"][0] == "fetched"
    assert {got[f"http://a.test/{n}"] for n in range(3, 30)} == {("deferred", "disk_full")}


def test_a_full_store_ends_the_attempt_and_the_next_one_loses_nothing(tmp_path, monkeypatch):
    io = slot_io(tmp_path)
    items = plan([f"http://a.test/{i}" for i in range(4)])
    with SlotWeb({"a.test": {f"/{i}": page(f"{i}") for i in range(4)}}) as web:
        cfg = web.config(**QUICK, warc={"roll_bytes": 1024})
        real, calls = LocalObjects.put_file_if_absent, []

        def full(self, key, path):
            calls.append(key)
            if len(calls) == 2:
                raise StoreFull(28, "no room left in the store")
            return real(self, key, path)

        monkeypatch.setattr(LocalObjects, "put_file_if_absent", full)
        with pytest.raises(StoreFull):
            run_slot(items, cfg, io)
        first = {c.url for c in kept(io, Capture)}
        assert first
        monkeypatch.undo()
        counts = run_slot(items, cfg, io)
    assert counts["done_before"] == len(first)
    assert set(told(io).values()) == {("fetched", None)}
    assert len(told(io)) == 4
    assert_stored(io, {f"http://a.test/{i}": f"{i}".encode() for i in range(4)})
    assert web.violations(0.02, 0, 0) == []
    assert list(Path(tmp_path / "spool").iterdir()) == []
