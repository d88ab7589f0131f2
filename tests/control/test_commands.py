"""Commands: done once, at once where they must, else with the next round."""

from __future__ import annotations

import json
import threading
import time

import pytest
from crawlkit.adapters.store.lease import Lease
from crawlkit.adapters.store.parts import encode_part, part_key, write_part
from crawlkit.adapters.store.pending_commands import read_pending
from crawlkit.adapters.store.stop_list import ORDERS_KEY, change_orders, read_orders
from crawlkit.control.commands import known_urls, run_command
from crawlkit.crawl.abandon import check_orders, finish_abandoned
from crawlkit.crawl.state import CrawlError
from crawlkit.round.command_intake import take_commands
from crawlkit.rules.frontier.command_rules import COLUMNS, BadCommand
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.tables import TABLES

from tests.control.smallcrawl import NOW, fill, known, make_crawl, write

pytestmark = pytest.mark.waits


class PlainJob:
    """What take_commands asks of a job."""

    def __init__(self, crawl):
        self.crawl, self.cfg, self.tables = crawl, crawl.cfg, crawl.plain_tables()


def rows(crawl, table, columns=None):
    return crawl.plain_tables().rows(table, columns or TABLES[table].column_names)


def test_a_block_holds_at_once_and_is_a_row(tmp_path):
    crawl = make_crawl(tmp_path)
    told = run_command(
        crawl, "block", {"host": "A.test", "reason": "asked to"}, actor="me", command_id="c1"
    )
    assert told["target"] == "a.test"
    assert read_orders(crawl.objects).stopped("a.test", "a.test") == "asked to"
    run_command(crawl, "block", {"domain": "b.example", "reason": ""}, actor="me")
    assert read_orders(crawl.objects).stopped("www.b.example", "b.example") is not None
    found = {r["command_id"]: r for r in rows(crawl, "commands")}
    assert found["c1"]["verb"] == "block"
    assert json.loads(found["c1"]["arguments"]) == {"kind": "host", "reason": "asked to"}
    run_command(crawl, "unblock", {"host": "a.test"}, actor="me")
    assert read_orders(crawl.objects).stopped("a.test", "a.test") is None
    assert len(rows(crawl, "commands")) == 3


def test_the_same_id_is_done_once(tmp_path):
    crawl = make_crawl(tmp_path)
    assert not run_command(crawl, "block", {"host": "a.test"}, actor="me", command_id="x")[
        "repeated"
    ]
    run_command(crawl, "unblock", {"host": "a.test"}, actor="me", command_id="y")
    assert run_command(crawl, "block", {"host": "a.test"}, actor="me", command_id="x")["repeated"]
    assert read_orders(crawl.objects).hosts == {}
    with pytest.raises(BadCommand, match="used for another"):
        run_command(crawl, "block", {"host": "b.test"}, actor="me", command_id="x")
    assert len(rows(crawl, "commands")) == 2


def test_a_dry_run_changes_nothing(tmp_path):
    crawl = make_crawl(tmp_path)
    before = crawl.objects.list()
    told = run_command(
        crawl, "recrawl", {"urls": ["http://a.test/", "mailto:x"]}, actor="me", dry_run=True
    )
    assert (told["queued"], told["added"], [r["reason"] for r in told["refused"]]) == (
        1,
        1,
        ["url_scheme"],
    )
    run_command(crawl, "block", {"host": "a.test"}, actor="me", dry_run=True)
    assert crawl.objects.list() == before
    assert rows(crawl, "commands") == []


@pytest.mark.parametrize(
    "verb,given,word",
    [
        ("block", {"host": "a.test", "domain": "b.test"}, "either"),
        ("block", {}, "either"),
        ("block", {"host": "http://a.test/"}, "host name"),
        ("block", {"domain": "www.a.example"}, "give it as host"),
        ("block", {"host": "*"}, "patterns"),
        ("block", {"host": "*.a.example"}, "patterns"),
        ("seeds", {"urls": []}, "list of URLs"),
        ("seeds", {"urls": "http://a.test/"}, "list of URLs"),
        ("seeds", {"urls": ["ftp://a.test/"]}, "none can be crawled"),
        ("recrawl", {"urls": ["http://a.test/"], "priority": "soon"}, "priority"),
        ("boost", {"urls": ["http://a.test/"]}, "boost"),
        ("host_set", {"host": "a.test", "delay_s": -1}, "delay_s"),
        ("host_set", {"host": "a.test", "delay_s": float("nan")}, "delay_s"),
        ("host_set", {"domain": "a.test"}, "one host"),
        ("complain", {"host": "a.test", "action": "sue"}, "action"),
        ("pause", {"round_id": "../x"}, "round_id"),
        ("pause", {"round_id": ".."}, "round_id"),
        ("dance", {}, "verb"),
    ],
)
def test_bad_commands_are_refused(tmp_path, verb, given, word):
    with pytest.raises(BadCommand, match=word):
        run_command(make_crawl(tmp_path), verb, given, actor="me")


@pytest.mark.parametrize("verb", ["seeds", "recrawl", "hint"])
def test_what_is_out_of_scope_is_refused_at_once(tmp_path, verb):
    crawl = make_crawl(tmp_path, scope={"hosts": ["a.test"]})
    urls = ["http://a.test/", "http://b.test/"]
    told = run_command(crawl, verb, {"urls": urls}, actor="me")
    assert [(r["url"], r["reason"]) for r in told["refused"]] == [("http://b.test/", "scope_host")]
    assert (told["queued"], told["arguments"]["urls"]) == (1, ["http://a.test/"])


def test_a_round_must_be_open(tmp_path):
    crawl = make_crawl(tmp_path)
    with pytest.raises(CrawlError, match="no round"):
        run_command(crawl, "pause", {"round_id": "r9"}, actor="me")
    with pytest.raises(BadCommand, match="is closed"):
        run_command(crawl, "pause", {"round_id": "r000001"}, actor="me")


def test_what_is_known_is_told_apart(tmp_path):
    crawl = make_crawl(tmp_path)
    write(crawl, "crawldb", [known(crawl, "http://a.test/")])
    told = run_command(
        crawl,
        "seeds",
        {"urls": ["http://a.test", "http://a.test/new", "http://a.test/new#x"]},
        actor="me",
    )
    assert (told["added"], told["duplicates"]) == (1, 2)
    assert known_urls(crawl, ["http://a.test/new", "http://a.test/other"]) == {"http://a.test/new"}


def test_the_next_round_takes_them_once(tmp_path):
    crawl = make_crawl(tmp_path)
    fill(crawl)
    run_command(crawl, "recrawl", {"urls": ["http://a.test/dead"]}, actor="me", command_id="c1")
    run_command(crawl, "boost", {"urls": ["http://a.test/"], "boost": 7}, actor="me")
    run_command(crawl, "hint", {"urls": ["http://new.test/"], "priority": "high"}, actor="me")
    run_command(crawl, "block", {"host": "a.test", "reason": "why"}, actor="me")
    round_ = crawl.open_round(NOW + 100)
    with crawl.lock:
        buckets, urgent = take_commands(PlainJob(crawl), round_)
        assert take_commands(PlainJob(crawl), round_) == (
            buckets,
            urgent,
        )  # a round cut off here finds them again
    found = sorted(rows(crawl, "crawldb_log"), key=lambda r: r["seq"])
    assert [(r["url"], r["force"], r["mode"], r["due_at"], r["source"]) for r in found] == [
        ("http://a.test/dead", True, "keep", NOW + 100, "operator"),
        ("http://a.test/", False, "update", None, "operator"),
        ("http://new.test/", False, "update", NOW + 100, "hint"),
    ]
    assert (found[1]["boost"], found[1]["priority_class"], found[2]["priority_class"]) == (
        7.0,
        3,
        1,
    )
    assert urgent == [found[0]["url_key"]]
    assert [(r["host"], r["blacklisted"], r["reason"]) for r in rows(crawl, "hostdb")] == [
        ("a.test", True, "why")
    ]
    assert read_pending(crawl.objects) == []
    crawl.close(round_)
    with crawl.lock:
        assert take_commands(PlainJob(crawl), crawl.open_round(NOW + 200)) == ([], [])


def test_a_command_whose_sender_died_gets_its_row(tmp_path):
    crawl = make_crawl(tmp_path)
    row = {
        "command_id": "c9",
        "at": NOW,
        "verb": "recrawl",
        "target": "http://a.test/",
        "arguments": json.dumps({"urls": ["http://a.test/"]}),
        "actor": "me",
    }
    crawl.objects.put("control/pending/c9.json", json.dumps(row).encode())
    with crawl.lock:
        take_commands(PlainJob(crawl), crawl.open_round(NOW))
    assert rows(crawl, "commands", COLUMNS) == [row]


def test_commands_at_once_are_all_kept(tmp_path):
    crawl = make_crawl(tmp_path)
    threads = [
        threading.Thread(
            target=run_command,
            args=(crawl, "block", {"host": f"h{i}.test"}),
            kwargs={"actor": "me"},
        )
        for i in range(8)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert set(read_orders(crawl.objects).hosts) == {f"h{i}.test" for i in range(8)}
    assert len(rows(crawl, "commands")) == 8


def test_commands_do_not_wait_for_a_stage(tmp_path):
    crawl = make_crawl(tmp_path)
    with crawl.lock:
        thread = threading.Thread(
            target=run_command,
            args=(make_crawl(tmp_path / "other"), "block", {"host": "a.test"}),
            kwargs={"actor": "me"},
        )
        thread.start()
        began = time.monotonic()
        run_command(crawl, "block", {"host": "a.test"}, actor="me")
        thread.join()
    assert time.monotonic() - began < 30


def test_a_paused_round_starts_no_stage(tmp_path):
    crawl = make_crawl(tmp_path)
    round_ = crawl.open_round(NOW)
    run_command(crawl, "pause", {"round_id": round_.id}, actor="me")
    with pytest.raises(CrawlError, match="is paused"):
        check_orders(crawl, round_)
    run_command(crawl, "resume", {"round_id": round_.id}, actor="me")
    check_orders(crawl, round_)


def test_abandon_frees_the_claims_and_keeps_the_pace(tmp_path):
    crawl = make_crawl(tmp_path)
    fill(crawl)
    round_ = crawl.open_round(NOW)
    with crawl.lock:
        crawl.claim(round_, [0, 1])
    state = HostState("a.test", last_request_end=time.time(), retry_after_until=time.time() + 500)
    write_part(
        crawl.objects,
        part_key(round_.id, 0, 1, 0),
        encode_part([state, HostState("b.test", last_request_end=1.0)]),
    )
    told = run_command(crawl, "abandon", {"round_id": round_.id}, actor="me")
    assert told["state"] == "abandoned"
    assert crawl.claims() == {}
    kept = {r["host"]: r for r in rows(crawl, "hostdb")}
    assert kept["a.test"]["next_allowed_at"] == pytest.approx(state.retry_after_until, abs=0.01)
    assert HostState.from_json(kept["a.test"]["state_json"]) == state
    assert kept["a.test"]["pages"] == 1
    assert "b.test" in kept
    assert [r["url"] for r in rows(crawl, "crawldb", ["url"])]  # untouched


def test_abandon_waits_for_living_tasks(tmp_path):
    crawl = make_crawl(
        tmp_path, lease={"ttl_s": 3.0, "renew_s": 0.2, "margin_s": 0.1}, fetch={"timeout_s": 1.0}
    )
    round_ = crawl.open_round(NOW)
    lease = Lease(crawl.objects, f"leases/{round_.id}/00000.json", "task", crawl.cfg.lease, 1.0)
    lease.acquire()
    assert (
        run_command(crawl, "abandon", {"round_id": round_.id}, actor="me")["state"] == "abandoning"
    )
    with crawl.driver_lock(round_):
        assert (
            finish_abandoned(crawl, round_) == "abandoning"
        )  # its driver lives and will see to it
    threading.Timer(0.5, lease.release).start()
    with pytest.raises(CrawlError, match="abandoned"):
        check_orders(crawl, round_)
    assert crawl.round(round_.id).state == "abandoned"


def test_orders_that_cannot_be_read_are_no_free_way(tmp_path):
    crawl = make_crawl(tmp_path)
    for raw in (
        b"[1",
        b"[]",
        b'{"hosts": 5}',
        b'{"policies": {"a": 3}}',
        b'{"policies": {"a": {"delay_s": "x"}}}',
    ):
        crawl.objects.put(ORDERS_KEY, raw)
        with pytest.raises(ValueError):
            read_orders(crawl.objects)
        with pytest.raises(ValueError):
            change_orders(crawl.objects, lambda row: None)
