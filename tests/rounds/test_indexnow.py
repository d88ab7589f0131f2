"""IndexNow (A6): pings whose keys rounds prove, and how far pings are believed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from crawlkit.adapters.store.pending_commands import read_pending
from crawlkit.control.app import make_app
from crawlkit.control.commands import run_command
from crawlkit.control.websub import subscriptions
from crawlkit.crawl import waiting_pings
from crawlkit.crawl.json_objects import change_object
from crawlkit.report.audit import audit
from crawlkit.rules.feeds.subscription import Subscription
from crawlkit.upkeep.purge import purge
from starlette.testclient import TestClient

from tests.engines import run_on
from tests.rounds.row_web import DAY_S, EPOCH, Reply, RowWeb, page
from tests.slot.slotweb import robots

pytestmark = [pytest.mark.rounds]
on = run_on("local")
A, B = "http://a.example", "http://b.example"
KEY, TOKEN = "0123abcd", "a-token-for-this-test"


def text(body: str) -> Reply:
    return Reply(200, [("Content-Type", "text/plain")], body.encode())


class Pings:
    """The API as webmasters reach it, without a token."""

    def __init__(self, web: RowWeb) -> None:
        self.client = TestClient(make_app(web.folder, web.cfg(), TOKEN))

    def get(self, url: str, key: str = KEY, **more: str) -> tuple[int, dict[str, Any]]:
        answer = self.client.get("/indexnow", params={"url": url, "key": key, **more})
        return answer.status_code, answer.json()

    def post(self, host: str, urls: list[str], **more: Any) -> tuple[int, dict[str, Any]]:
        body = {"host": host, "key": KEY, "urlList": urls, **more}
        answer = self.client.post("/indexnow", json=body)
        return answer.status_code, answer.json()


@pytest.fixture
def web(on, tmp_path):
    names = {"a.example": "127.85.7.1", "b.example": "127.85.7.2"}
    with RowWeb(tmp_path / "crawl", names, on, control__public_url="http://x.example") as web:
        web.settings |= {"scope__any": False, "scope__domains": ["a.example", "b.example"]}
        web.pages |= {f"{h}/{n}": page(f"page {n} of {h}") for h in (A, B) for n in range(6)}
        yield web


def test_pings_are_taken_once_their_key_is_proven(web):
    web.pages |= {f"{A}/{KEY}.txt": text(f"{KEY}\n"), f"{A}/dir/key": text(KEY)}
    web.pages[f"{B}/robots.txt"] = robots("User-agent: *\nDisallow: /0123\n")
    web.run(EPOCH, [f"{A}/0", f"{A}/1", f"{B}/0"])
    pings = Pings(web)
    assert pings.get(f"{A}/1")[0] == 202
    assert pings.post("a.example", [f"{A}/2", f"{A}/2", "http://A.example:80/3"])[0] == 202
    assert pings.get(f"{A}/dir/5", keyLocation=f"{A}/dir/key")[0] == 202
    assert pings.get(f"{A}/4", key="another-key")[0] == 202  # no such file
    assert pings.get(f"{B}/1")[0] == 202  # robots.txt forbids its key
    assert read_pending(web.job().crawl.objects) == []
    files = [f"{A}/{KEY}.txt", f"{A}/another-key.txt", f"{A}/dir/key"]
    seen = len(web.log)
    web.run(EPOCH + 60)
    assert sorted(web.log[seen:]) == files  # once each, and nothing else yet
    assert pings.get(f"{A}/4")[0] == 202  # no round has judged it
    seen = len(web.log)
    web.pages[f"{A}/dir/5"] = page("five")
    web.run(EPOCH + 120)
    assert sorted(web.log[seen:]) == [f"{A}/{n}" for n in ("1", "2", "3", "4", "dir/5")]
    rows = web.rows("crawldb", "source", "state", "history")
    assert {rows[f"{A}/{n}"]["source"] for n in (2, 3, 4)} == {"indexnow"}
    assert rows[f"{A}/1"]["history"] == "NU" and f"{B}/1" not in rows
    rejects = web.rows("rejects", "reason", "detail", key="item")
    why = {u: (r["reason"], r["detail"]) for u, r in rejects.items()}
    assert why == {
        f"{A}/4": ("key_unproven", f"IndexNow: {A}/another-key.txt: http_404"),
        f"{B}/1": ("key_unproven", f"IndexNow: {B}/{KEY}.txt: robots_rule"),
    }
    assert pings.get(f"{A}/0") == (200, {"queued": 1, "refused": []})  # proven for a month
    assert pings.get(f"{A}/4", key="another-key")[0] == 403
    assert pings.get(f"{B}/1")[0] == 403
    seen = len(web.log)
    web.run(EPOCH + 180)
    assert web.log[seen:] == [f"{A}/0"]
    commands = web.rows("commands", "verb", "actor", key="command_id").values()
    assert {c["actor"] for c in commands} == {"indexnow:a.example", "indexnow:b.example"}
    proof = audit(web.job())
    assert (proof["requests"], proof["violations"]) == (14, 0)


def test_what_a_ping_may_not_say(web):
    web.job().crawl.open_round(EPOCH)
    pings = Pings(web)
    assert pings.post("a.example", [f"{A}/1", f"{B}/1"])[0] == 422  # not of that host
    status, body = pings.post("a.example", [f"{A}/1"], keyLocation=f"{A}/dir/key")
    assert status == 422 and "not below" in body["detail"]
    assert pings.post("a.example", [f"{A}/1"], keyLocation=f"{B}/key")[0] == 422
    status, body = pings.post("a.example", [f"{A}/1"], keyLocation="ftp://a.example/key")
    assert status == 422 and body["detail"].startswith("keyLocation: url_scheme")
    assert pings.get(f"http://{'a.' * 500}a.example/1")[0] == 400
    long = "ü." * 100 + "a.example"  # `xn--tda.` each: 809 characters
    assert pings.post(long, [f"http://{long}/1"])[0] == 422
    assert pings.get(f"{A}/1", key="short")[0] == 422
    status, body = pings.get("http://c.example/1")
    assert status == 422 and "scope_domain" in body["detail"]
    assert pings.get("ftp://a.example/1")[0] == 400
    assert pings.post("a.example", [])[0] == pings.post("a.example", [7])[0] == 400
    assert pings.post("a.example", [f"{A}/1"], other=1)[0] == 400
    assert pings.client.post("/indexnow", content=b"{" * 10_000).status_code == 400
    assert pings.client.get("/indexnow?url=x").status_code == 422
    huge = pings.client.post("/indexnow", content=b" " * (4 * 2**20 + 1))
    assert huge.status_code == 413
    assert web.job().crawl.objects.list("control/indexnow/") == []


def test_pings_that_wait_are_bounded(web):
    web.job().crawl.open_round(EPOCH)
    pings = Pings(web)
    statuses = [pings.get(f"{A}/1", key=f"key-number-{n}")[0] for n in range(12)]
    assert statuses == [202] * 10 + [429] * 2
    assert pings.post("b.example", [f"{B}/{n}" for n in range(10_000)])[0] == 202
    answer = pings.client.get("/indexnow", params={"url": f"{B}/new", "key": KEY})
    assert answer.status_code == 429 and int(answer.headers["retry-after"]) > 0
    assert pings.get(f"{B}/7")[0] == 202  # waits already


def test_a_host_whose_pings_prove_wrong_is_believed_no_more(web):
    """As with dates (test_dates_believed.py): three visits in vain, none that was right."""
    trusted = TestClient(make_app(web.folder, web.cfg(), TOKEN))
    trusted.headers["Authorization"] = f"Bearer {TOKEN}"
    alive = [0]
    web.pages[f"{B}/0"] = lambda _: page(f"page of day {alive[0]}")
    web.run(EPOCH, [f"{h}/{n}" for h in (A, B) for n in (0, 1)])
    for day in (1, 2, 3):
        alive[0] = day
        for host, url in (("a.example", f"{A}/0"), ("b.example", f"{B}/0")):
            body = {"host": host, "key": KEY, "urlList": [url]}
            assert trusted.post("/indexnow", json=body).json() == {"queued": 1}
        web.run(EPOCH + day * 0.1 * DAY_S)
    rows = web.rows("crawldb", "history")
    assert (rows[f"{A}/0"]["history"], rows[f"{B}/0"]["history"]) == ("NUUU", "NCCC")
    hosts = web.rows("hostdb", "hints_true", "hints_false", "dates_false", "hints_at", key="host")
    assert hosts["a.example"]["hints_false"] > 2.9 and hosts["b.example"]["hints_true"] > 2.9
    assert hosts["a.example"]["dates_false"] in (None, 0)
    seen = len(web.log)
    for host, site in (("a.example", A), ("b.example", B)):
        urls = [f"{site}/{n}" for n in (0, 1, 2)]
        trusted.post("/indexnow", json={"host": host, "key": KEY, "urlList": urls})
    web.run(EPOCH + 0.5 * DAY_S)
    asked = sorted(web.log[seen:])
    assert asked == [f"{A}/2", f"{B}/0", f"{B}/1", f"{B}/2"]  # new ones are candidates still


def test_false_keys_do_not_keep_a_host_out_for_good(web, monkeypatch):
    web.pages[f"{A}/{KEY}.txt"] = text(KEY)
    web.run(EPOCH, [f"{A}/0"])
    pings = Pings(web)
    assert {pings.get(f"{A}/1", key=f"key-number-{n}")[0] for n in range(10)} == {202}
    for n in (1, 2):
        web.run(EPOCH + 60 * n)
    assert pings.get(f"{A}/1", key="key-number-1")[0] == 403
    assert pings.get(f"{A}/1")[0] == 429
    monkeypatch.setattr(waiting_pings, "REFUTED_S", 0.0)  # a day later
    web.run(EPOCH + 180)
    assert web.job().crawl.objects.list(waiting_pings.PINGS) == []
    assert pings.get(f"{A}/1")[0] == 202


def test_what_a_purge_forgets_of_those_who_tell(web):
    """Also of a host that no round has asked yet."""
    web.run(EPOCH, [f"{A}/0"])
    pings, objects = Pings(web), web.job().crawl.objects
    assert pings.post("a.example", [f"{A}/1", f"{A}/2"])[0] == 202
    assert pings.get(f"{B}/1")[0] == 202
    for n, site in enumerate((A, B)):
        s = Subscription(f"{n:032x}", f"{site}/feed", f"{A}/hub", f"{site}/f", "active", None, 0, 1)
        change_object(objects, f"control/websub/{s.id}.json", lambda _, s=s: asdict(s))
    counts = {"pings": 1, "subscriptions": 1}
    for dry_run in (True, False):
        job = web.job()
        done = purge(job, "host", "b.example", "asked to", "test", dry_run)
        assert counts.items() <= done.items() and not done["repeated"]
    assert waiting_pings.ping_hosts(objects) == {"a.example"}
    assert [s.topic for s in subscriptions(web.job().crawl)] == [f"{A}/feed"]
    assert purge(web.job(), "host", "b.example", "asked to", "test")["repeated"]
    assert pings.get(f"{B}/1") == (
        403,
        {"detail": "b.example: stop_list: the key file is not fetched"},
    )
    assert purge(web.job(), "url", f"{A}/1", "asked to", "test")["pings"] == 1
    (place,) = objects.list(waiting_pings.PINGS)
    assert waiting_pings.read_object(objects, place)["urls"] == [f"{A}/2"]
    run_command(web.job().crawl, "unblock", {"host": "b.example"}, actor="test")
    assert pings.get(f"{B}/1")[0] == 202
    assert purge(web.job(), "domain", "b.example", "asked to", "test")["pings"] == 1
