"""WebSub (A6): a real hub on loopback, the commands, `crawlkit serve`, and rounds."""

from __future__ import annotations

import contextlib
import datetime
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest
import yaml
from crawlkit.adapters.store.pending_commands import read_pending

from tests.cli.call import call
from tests.engines import run_on
from tests.rounds.crawlproc import Done, command, environment
from tests.rounds.row_web import EPOCH, Reply, RowWeb, page
from tests.servers.hub_server import Hub, call as http

pytestmark = [pytest.mark.rounds]
on = run_on("local")
A = "http://a.example"
TOPIC = f"{A}/feed?b=1&a=2"  # as the feed spells it
ENV = {"CRAWLKIT_TOKEN": "a-token-for-these-tests"}
ATOM = [("Content-Type", "application/atom+xml")]
LINKS = "<link rel='hub' href='http://hub.example/'/><link rel='self' href='/feed?b=1&amp;a=2'/>"


def feed(at: float, *paths: str, links: str = "") -> bytes:
    when = datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat()
    entries = "".join(
        f"<entry><id>{p}</id><link href='{p}'/><updated>{when}</updated></entry>" for p in paths
    )
    return f"<feed xmlns='http://www.w3.org/2005/Atom'>{links}{entries}</feed>".encode()


class World:
    """A site with a feed, its hub, and a crawl of it that is served."""

    def __init__(self, folder: Any, on: dict[str, Any], hub: Hub) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.hub = hub
        self.web = RowWeb(folder / "crawl", {"a.example": "127.85.6.1"}, on)
        names = {"a.example": f"127.85.6.1:{self.web.server.port}"}
        self.web.settings = {
            "fetch__connect_to": names | {"hub.example": f"127.0.0.1:{hub.port}"},
            "scope__any": False,
            "scope__domains": ["a.example"],
            "control__public_url": f"http://127.0.0.1:{self.port}/",
        }
        tree: dict[str, dict[str, Any]] = {}
        for key, value in self.web.cfg_keys().items():
            section, name = key.split(".")
            tree.setdefault(section, {})[name] = value
        self.config = folder / "config.yaml"
        self.config.write_text(yaml.safe_dump(tree))
        self.web.pages |= {f"{A}/{n}": page(f"page {n}") for n in range(5)}
        body = feed(EPOCH - 3600, "/1", "/2", links=LINKS)
        self.web.pages[f"{A}/feed"] = Reply(200, ATOM, body)

    def run(self, *words: str) -> Done:
        place = "--data", self.web.folder, "--config", self.config
        return call("websub", *words, *place, "--json", env=ENV)

    def subscriptions(self) -> list[dict[str, Any]]:
        return self.run("list").said["subscriptions"]

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        args = "serve", "--data", self.web.folder, "--config", self.config, "--port", self.port
        with subprocess.Popen(
            command(*args), stderr=subprocess.PIPE, text=True, env=environment(**ENV)
        ) as server:
            try:
                assert "control API" in server.stderr.readline()
                yield
            finally:
                server.terminate()
                server.wait(20)

    def asked(self, since: int) -> list[str]:
        return sorted(u.removeprefix(A) for u in self.web.log[since:])


@pytest.fixture(scope="module")
def shared(on, tmp_path_factory):
    with Hub() as hub:
        w = World(tmp_path_factory.mktemp("websub"), on, hub)
        with w.web:
            w.web.run(EPOCH, [f"{A}/feed\tkind=feed"])
            w.web.run(EPOCH + 60)
            with w.served():
                yield w


@pytest.fixture
def world(shared):
    """Without subscriptions yet."""
    objects, hub = shared.web.job().crawl.objects, shared.hub
    for key in objects.list("control/websub/"):
        objects.delete(key)
    hub.asked, hub.denies, hub.subscribers = [], set(), {}
    hub.lease_s, hub.has_moved = 86_400, False
    return shared


def test_what_a_hub_tells_is_fetched_in_the_next_round(world):
    rows = world.web.job().tables.rows("links", ["kind", "to_url", "sent_url", "refused"])
    assert sorted((r["kind"], r["sent_url"] or r["to_url"], r["refused"]) for r in rows) == [
        ("hub", "http://hub.example/", "hub_link"),
        ("self", TOPIC, "hub_link"),
    ]
    listed = world.run("list").said
    assert listed["topics"] == [
        {"topic": TOPIC, "hub": "http://hub.example/", "named_by": f"{A}/feed"}
    ]
    done = world.run("subscribe", f"{A}/feed")
    assert done.code == 0, done.err
    (s,) = world.subscriptions()
    assert (s["state"], s["pending"], s["lease_s"]) == ("active", None, 86_400)
    assert abs(s["ends_at"] - time.time() - 86_400) < 60
    (form,) = world.hub.asked
    assert form["hub.topic"] == TOPIC and form["hub.lease_seconds"] == "864000"
    assert 32 <= len(form["hub.secret"]) < 200 and ENV["CRAWLKIT_TOKEN"] not in str(form)
    assert world.run("subscribe", "--all").code == 0 and len(world.hub.asked) == 1  # not again
    assert "crawlkit-test" in world.hub.agents[0]

    body = feed(EPOCH + 600, "/1", "/3", "http://b.example/x")
    callback = form["hub.callback"]
    for field in ("", "sha256=00", "sha1=" + "0" * 40):
        assert http(callback, body, X_Hub_Signature=field)[0] == 202  # and ignored
    assert read_pending(world.web.job().crawl.objects) == []
    assert world.hub.publish(TOPIC, body) == world.hub.publish(TOPIC, body, "sha512") == [202]
    (s,) = world.subscriptions()
    assert (s["taken"], s["ignored"]) == (2, 3)
    (waiting,) = read_pending(world.web.job().crawl.objects)  # the same content is one command
    assert waiting["actor"] == "websub:http://hub.example/"
    seen = len(world.web.log)
    world.web.pages[f"{A}/1"] = page("page 1, changed")
    world.web.run(EPOCH + 1200)
    assert world.asked(seen) == ["/1", "/3", "/feed"]  # /2 is as it was; b.example is out of scope
    known = world.web.rows("crawldb", "source", "state", "fetch_kind", "history", "flags")
    assert known[f"{A}/3"]["source"] == "websub" and known[f"{A}/1"]["history"] == "NC"
    assert known[f"{A}/feed"]["fetch_kind"] == "feed" and "http://b.example/x" not in known
    host = world.web.rows("hostdb", "hints_true", "hints_false", key="host")["a.example"]
    assert (host["hints_true"], host["hints_false"]) == (1, 0)
    assert all("hinted" not in (r["flags"] or ()) for r in known.values())


def test_what_was_not_asked_for_is_not_confirmed(world):
    callback = f"http://127.0.0.1:{world.port}/websub/"
    form = {"hub.callback": callback + "0" * 32, "hub.topic": TOPIC}
    question = {"hub.mode": "subscribe", "hub.challenge": "c", "hub.lease_seconds": "60"}
    assert world.hub.ask(form, question)[0] == 404
    assert http(form["hub.callback"], b"<feed/>")[0] == 404
    assert http(callback + "..", b"")[0] == 404
    world.run("subscribe", "--all")
    own = world.hub.asked[0]
    assert world.hub.ask(own, question) == (404, b"")  # nothing is pending any more
    assert world.hub.ask(own, question | {"hub.mode": "unsubscribe"})[0] == 404
    connection = HTTPConnection("127.0.0.1", world.port)
    connection.putrequest("POST", "/websub/" + own["hub.callback"].rpartition("/")[2])
    connection.putheader("Content-Length", str(4 * 2**20 + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_leases_denials_and_ends(world):
    world.run("subscribe", "--all")
    assert world.run("renew").said["subscriptions"] == [] and len(world.hub.asked) == 1
    world.hub.lease_s = 1
    assert world.run("renew", "--all").code == 0
    time.sleep(1)
    assert len(world.run("renew").said["subscriptions"]) == 1  # its second is over
    assert len(world.hub.asked) == 3 and len({f["hub.callback"] for f in world.hub.asked}) == 1

    world.hub.denies = {TOPIC}
    world.run("renew", "--all")
    (s,) = world.subscriptions()
    assert (s["state"], s["reason"]) == ("denied", "not here")
    assert world.hub.publish(TOPIC, feed(EPOCH, "/4")) == [410]
    world.hub.denies, world.hub.lease_s = set(), 600
    world.run("subscribe", "--all")
    assert world.subscriptions()[0]["state"] == "active"

    assert world.run("unsubscribe", TOPIC).code == 0
    assert world.subscriptions()[0]["state"] == "ended" and world.hub.subscribers == {}
    assert http(world.hub.asked[-1]["hub.callback"], b"<feed/>")[0] == 410
    assert world.run("unsubscribe", TOPIC).code == 2  # there is none


def test_hubs_that_move_refuse_or_are_blocked(world):
    world.hub.has_moved = True
    world.run("subscribe", "--all")
    assert world.subscriptions()[0]["state"] == "active"  # 307 was followed
    assert len(world.hub.asked) == 2 and world.hub.most_in_flight == 1
    world.web.give("block", host="hub.example", reason="asked to")
    done = world.run("renew", "--all")
    assert (done.code, len(world.hub.asked)) == (1, 2)
    assert done.said["subscriptions"][0]["reason"] == "stop_list: hub.example: asked to"
    world.web.give("unblock", host="hub.example")
    gone = ("--set", 'fetch.connect_to={"hub.example": "127.0.0.1:9"}')
    (s,) = world.run("renew", "--all", *gone).said["subscriptions"]
    assert s["reason"].startswith("connect_refused") and s["state"] == "active"


def test_nothing_is_sent_without_a_public_address_or_a_name(world):
    unset = world.run("subscribe", "--all", "--set", "control.public_url=")
    assert unset.code == 2 and "control.public_url" in unset.err
    unknown = world.run("subscribe", f"{A}/1")
    assert unknown.code == 2 and "no stored feed" in unknown.err
    assert world.hub.asked == [] and json.loads(world.run("list").out)["subscriptions"] == []
