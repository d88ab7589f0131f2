"""What a slot answers to pages in its browsers; here the browsers are ours, and ask what they are
told to.
"""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crawlkit.adapters.browser.rendering import AnswerRequest, PageRequest, Rendered, StoredPage
from crawlkit.adapters.net.dns import Lookup
from crawlkit.adapters.net.engine import Engine
from crawlkit.adapters.store.parts import read_slot
from crawlkit.adapters.warc.kept_scripts import KeptScripts, forget_scripts
from crawlkit.local.web_server import Reply, Request, WebServer
from crawlkit.model import Capture
from crawlkit.rules.render.foreign_origins import read_origins
from crawlkit.slot.inputs import SlotIO
from crawlkit.slot.run import run_slot

from tests.slot.slotweb import SlotWeb, kept, page, plan, slot_io

pytestmark = pytest.mark.waits
JS = ("Content-Type", "text/javascript")
CODE = b"let x = 1 // of some length"


class AskingBrowsers:
    """Each page asks for the same URLs, one after the other; all pages at the same time."""

    def __init__(self, urls: list[str], kind: str = "script") -> None:
        self.urls, self.kind = urls, kind
        self.got: list[tuple[int | None, bytes] | None] = []

    async def render(
        self, page: StoredPage, answer: AnswerRequest, *, screenshot: bool = False
    ) -> Rendered:
        for url in self.urls:
            got = await answer(PageRequest(url, "GET", self.kind))
            self.got.append(None if got is None else (got.status, got.body))
        return Rendered(html=b"<p>rendered", requests=len(self.urls))

    async def close(self) -> None:
        await asyncio.sleep(0)


class World:
    """A host with two pages that are stored and wait to be rendered."""

    def __init__(self, folder: Path, web: SlotWeb, **fetch: Any) -> None:
        self.folder, self.web = folder, web
        self.cfg = web.config(render={"enabled": True}, fetch=fetch)
        urls = ["http://a.test/1", "http://a.test/2"]
        io = slot_io(folder)
        run_slot(plan(urls), self.cfg, io)
        stored = {c.url: c for c in kept(io, Capture) if c.kind == "page"}
        self.items = [
            item
            if item.kind == "robots"
            else replace(
                item,
                kind="render",
                doc_filename=stored[item.url].warc_filename,
                doc_offset=stored[item.url].warc_record_offset,
                doc_length=stored[item.url].warc_record_length,
                prev_capture_id=stored[item.url].capture_id,
                prev_payload_digest=stored[item.url].payload_digest,
                prev_fetched_at=stored[item.url].started,
            )
            for item in plan(urls)
        ]

    def round(self, no: int, browsers: AskingBrowsers) -> dict[str, int]:
        """Render both pages in a round of this number; the slot's counts."""
        io = self.io(browsers)
        return run_slot([replace(i, round_id=f"r{no}") for i in self.items], self.cfg, io)

    def io(self, browsers: Any = None) -> SlotIO:
        return slot_io(self.folder, browsers=lambda _: browsers)


@pytest.fixture
def asked(tmp_path: Path) -> Any:
    """ask(headers, rounds) -> requests for a script with these fields, in each round."""

    def ask(*fields: tuple[str, str], rounds: int = 2, between: Any = None) -> list[list[str]]:
        conditions: list[str] = []

        def script(request: Request) -> Reply:
            named = request.headers
            condition = named.get("if-none-match") or named.get("if-modified-since") or ""
            conditions.append(condition)
            return Reply(304, [*fields], b"") if condition else Reply(200, [JS, *fields], CODE)

        sites = {"a.test": {"/1": page("1"), "/2": page("2"), "/s.js": script}}
        with SlotWeb(sites) as web:
            world, found = World(tmp_path, web), []
            for no in range(rounds):
                browsers = AskingBrowsers(["http://a.test/s.js"])
                web.log.clear()
                world.round(2 + no, browsers)
                assert web.violations() == []
                assert browsers.got == [(200, CODE)] * 2
                found.append(conditions[:])
                conditions.clear()
                if between is not None:
                    between(world)
            return found

    return ask


def test_pages_of_a_slot_share_a_script(asked):
    """Although both ask for it at the same time, and it may not be stored."""
    assert asked(("Cache-Control", "no-store")) == [[""], [""]]


def test_a_fresh_script_is_not_asked_for_again(asked):
    assert asked(("Cache-Control", "max-age=3600"), rounds=3) == [[""], [], []]


def test_a_stale_script_is_asked_for_with_its_validators(asked):
    changed = ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
    told = asked(("Cache-Control", "no-cache"), ("ETag", '"1"'), changed, rounds=3)
    assert told == [[""], ['"1"'], ['"1"']]


def test_an_answer_that_confirms_it_makes_it_fresh(asked):
    times = iter(["1.0"])  # the first time alone

    def make_stale(world: World) -> None:
        if until := next(times, None):
            for file in (world.folder / "state" / "scripts").rglob("*.json"):
                row = json.loads(file.read_text()) | {"fresh_until": float(until)}
                file.write_text(json.dumps(row))

    told = asked(("Cache-Control", "max-age=3600"), ("ETag", '"1"'), rounds=3, between=make_stale)
    assert told == [[""], ['"1"'], []]


@pytest.mark.parametrize("damage", ["rewritten", "forgotten", "broken index"])
def test_a_script_that_is_not_where_it_was_is_asked_for_again(asked, damage):
    def do(world: World) -> None:
        for file in (world.folder / "state" / "scripts").rglob("*.json"):
            if damage == "rewritten":  # another record is at this place now
                file.write_text(file.read_text().replace('"sha1:', '"sha1:AA'))
            if damage == "broken index":
                file.write_text("[]")
        if damage == "forgotten":
            forget_scripts(world.io().objects, ["a.test"])

    assert asked(("Cache-Control", "max-age=3600"), between=do) == [[""], [""]]


def test_a_script_whose_body_is_another_urls_is_kept_with_its_own_fields(tmp_path):
    first = Reply(200, [JS, ("Cache-Control", "max-age=60")], CODE)
    other = ("Access-Control-Allow-Origin", "*")
    second = Reply(200, [("Content-Type", "application/json"), other, *first.headers[1:]], CODE)
    sites = {"a.test": {"/1": page("1"), "/2": page("2"), "/s.js": first, "/t.js": second}}
    with SlotWeb(sites) as web:
        world = World(tmp_path, web)
        for no in (2, 3):
            web.log.clear()
            world.round(no, AskingBrowsers(["http://a.test/s.js", "http://a.test/t.js"]))
        assert [target for target in web.asked("a.test") if "js" in target] == []
    found = KeptScripts(world.io().objects, world.io().warcs).find("http://a.test/t.js")
    assert found is not None and found[1].body == CODE
    assert found[1].header("access-control-allow-origin") == "*"
    assert found[1].header("content-type") == "application/json"
    assert found[0].copy_url == "http://a.test/s.js"


def test_an_unchanged_script_is_stored_once(tmp_path):
    """Asked for again and sent whole, it becomes a revisit record of the first."""
    fields = [
        JS,
        ("Cache-Control", "max-age=0"),
        ("ETag", "a, b"),
    ]  # no condition can be made of it
    sites = {"a.test": {"/1": page("1"), "/2": page("2"), "/s.js": Reply(200, fields, CODE)}}
    with SlotWeb(sites) as web:
        world = World(tmp_path, web)
        io = world.io()
        for no in (2, 3):
            world.round(no, AskingBrowsers(["http://a.test/s.js"]))
        types = [
            (r.record_type, r.revisit_of)
            for no in (2, 3)
            for r in kept_of(io, f"r{no}")
            if r.kind == "subresource"
        ]
        assert web.asked("a.test").count("/s.js") == 2
    assert [record_type for record_type, _ in types] == ["response", "revisit"]
    assert types[1][1] is not None and types[1][1].startswith("r2-")


def kept_of(io: SlotIO, round_id: str) -> list[Capture]:
    parts = read_slot(io.objects, round_id, 0)
    return [r for part in parts for r in part.records if isinstance(r, Capture)]


class Rebinding:
    """Names that lead to the web at first, and inside once `is_bad`."""

    def __init__(self, good: str, bad: str) -> None:
        self.good, self.bad, self.is_bad = good, bad, False

    async def resolve(self, name: str) -> Lookup:
        inside = name != "rebind.test" or self.is_bad
        return Lookup((self.bad if inside else self.good,))


def test_no_socket_inside_is_reached(tmp_path):
    """By redirects, by names that lead inside, and by a name that leads there the second time."""
    with socket.socket() as inside:
        inside.bind(("127.0.0.1", 0))
        inside.listen()
        inside.setblocking(False)
        port = inside.getsockname()[1]
        places = [
            f"http://127.0.0.1:{port}/",
            "http://169.254.169.254/latest/",
            "file:///etc/passwd",
        ]
        places += [
            f"http://[::1]:{port}/",
            f"http://localhost:{port}/",
            f"http://2130706433:{port}/",
        ]
        moved = {f"/{n}.to": Reply(302, [("Location", to)], b"") for n, to in enumerate(places)}
        names: Rebinding

        def robots_then_inside(request: Request) -> Reply:
            names.is_bad = True
            return Reply(404, [("Connection", "close")], b"")

        sites = {"a.test": {"/1": page("1"), "/2": page("2"), **moved}}
        other = WebServer(["127.0.1.254"], robots_then_inside, port, lambda _: None)
        with SlotWeb(sites) as web, other:
            names = Rebinding("127.0.1.254", "127.0.0.1")
            ports = [80, 443, port]
            world = World(tmp_path, web, allow_private=["127.0.1.0/24"], ports=ports)
            urls = [f"http://rebind.test:{port}/data", f"http://inside.test:{port}/data"]
            world.items = [
                *(i for i in plan(urls) if i.kind == "robots"),
                *(replace(i, rank=i.rank + 9) for i in world.items),
            ]
            tried = [*places, *urls, *(f"http://a.test/{n}.to" for n in range(len(places)))]
            for kind in ("fetch", "script"):
                names.is_bad = False
                browsers = AskingBrowsers(tried, kind)
                io = world.io(browsers)
                io.engine = lambda fetch: Engine(fetch, resolver=names)
                run_slot([replace(i, round_id=kind) for i in world.items], world.cfg, io)
                assert browsers.got == [None] * 2 * len(tried)
                assert names.is_bad
        with pytest.raises(BlockingIOError):
            inside.accept()
    details = [c.detail for c in kept_of(io, "script") if c.kind == "render"]
    assert len(details) == 2 and all("address_forbidden" in str(d) for d in details)
    assert not any(read_origins(d) for d in details)
