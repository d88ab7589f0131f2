"""One URL by itself: fetched by a slot of its own, and read as the parse stage reads it.

The slot is a real one: address guard, robots.txt, pace and stop list hold.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from crawlkit.adapters.browser.rendering import (
    AnswerRequest,
    PageRequest,
    Rendered,
    Renders,
    StoredPage,
    open_browsers,
)
from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.adapters.store.objects import ObjectMissing
from crawlkit.adapters.store.parts import Record, read_slot
from crawlkit.adapters.store.stop_list import ORDERS_KEY
from crawlkit.adapters.warc.record_store import RecordReader
from crawlkit.config import Config, ConfigError
from crawlkit.crawl.state import Crawl, CrawlError
from crawlkit.model import Answer, Capture, FetchItem, RobotsCopy
from crawlkit.outcomes import Outcome, Reason, Refused
from crawlkit.parsing.single_page import parse_one
from crawlkit.rules.frontier.lifecycle import RENDER_AGAIN
from crawlkit.rules.http.content_coding import MAX_DECODED_BYTES
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.rules.render.cloaking import Compared, compare_rendered
from crawlkit.rules.render.foreign_origins import read_origins
from crawlkit.rules.url.canonical import canonicalize, host_of, origin_of, url_key
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.slot.inputs import SlotIO
from crawlkit.slot.run import run_slot

ROUND = "one"
_SUMMARY = (
    "url",
    "outcome",
    "reason",
    "detail",
    "status",
    "content_type",
    "body_bytes",
    "truncated",
    "redirect_to",
    "ip",
    "started",
    "ended",
    "robots_line",
)
_KIND_OF_SUFFIX = {
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".txt": "text/plain",
    ".json": "application/json",
    ".pdf": "application/pdf",
    ".xml": "application/xml",
}


@dataclasses.dataclass(slots=True)
class One:
    """What came of one URL: its outcome, and the answer if one was stored."""

    capture: Capture
    robots: Capture | None
    headers: list[tuple[str, str]]
    payload: bytes

    def summary(self) -> dict[str, Any]:
        """The outcome, robots.txt and header, without the body."""
        row = {name: getattr(self.capture, name) for name in _SUMMARY}
        robots = self.robots
        if robots is not None:
            row["robots"] = {k: getattr(robots, k) for k in ("outcome", "status", "reason")}
        return {**row, "robots": row.get("robots"), "headers": self.headers}


def fetch_one(url: str, cfg: Config, crawl: Crawl | None = None) -> One:
    """Fetch a URL now.

    With a crawl its hosts' pace and its stop list hold, and the pace is kept for the next call.

    Raises Refused (no such URL), ConfigError (the placeholder agent), CrawlError (a round is
    fetching that host).
    """
    url = canonicalize(url, policy=UrlPolicy.of(cfg.urls))
    host = host_of(url)
    cfg.check_agent([host])
    if crawl is None:
        return _fetch(url, cfg, None)
    with crawl.lock:  # no round can claim the bucket meanwhile
        return _fetch(url, cfg, crawl)


def _free_state(crawl: Crawl | None, host: str) -> str | None:
    """The host's newest pace. Raises CrawlError if a round is fetching its domain."""
    if crawl is None:
        return None
    domain = registered_domain(host)
    taken = crawl.claims().get(host_bucket(domain, crawl.cfg.frontier.buckets))
    if taken:
        raise CrawlError(
            f"round {taken} has the bucket of {host}: its pace is that round's; wait for its end"
        )
    return _state(crawl, host, domain)


def _state(crawl: Crawl, host: str, domain: str) -> str | None:
    """The host's newest pace: of the last round, or of a later call of ours."""
    rows = crawl.plain_tables().rows(
        "hostdb",
        ["state_json"],
        {"host_bucket": [host_bucket(domain, crawl.cfg.frontier.buckets)], "host": [host]},
    )
    texts = [r["state_json"] for r in rows if r["state_json"]]
    with contextlib.suppress(ObjectMissing):
        texts.append(crawl.objects.get(f"one/{host}.json")[0].decode())
    return max(texts, key=lambda t: HostState.from_json(t).last_request_end or 0.0, default=None)


def _fetch(url: str, cfg: Config, crawl: Crawl | None) -> One:
    """Fetch robots.txt and URL in a slot of their own."""
    with tempfile.TemporaryDirectory(prefix="crawlkit-one-") as folder:
        return _Slots(Path(folder), cfg, crawl).fetch(url)


class _Slots:
    """Slots of one URL, one after the other, below a folder; each goes on with the hosts' pace."""

    def __init__(self, folder: Path, cfg: Config, crawl: Crawl | None) -> None:
        self._folder, self._cfg, self._crawl = folder, cfg, crawl
        self._objects = LocalObjects(folder / "state")
        self._warcs = LocalObjects(folder / "warc")
        self.origins: list[str] = []  # whose robots.txt the slots have rows of
        self._paces: dict[str, str | None] = {}
        self._copies: dict[str, RobotsCopy] = {}
        self._n = 0
        if crawl is not None:
            _copy_orders(crawl, self._objects)

    def add_origins(self, origins: Iterable[str]) -> None:
        """Let the slots ask these too. Raises CrawlError if a round is fetching one."""
        for origin in origins:
            host = host_of(origin + "/")
            if host not in self._paces:
                self._paces[host] = _free_state(self._crawl, host)
            self.origins.append(origin)

    def fetch(self, url: str) -> One:
        """Fetch robots.txt and URL; again with the hosts to which the robots.txt leads, as the next
        round would.
        """
        self.add_origins([origin_of(url)])
        while True:
            records = self.run(url, "page")
            one = _read_one(records, self._warcs, self.origins[0])
            leads = {o for r in records if isinstance(r, RobotsCopy) for o in r.leads_to}
            more = sorted(leads - {*self.origins})
            if one.capture.reason != Reason.ROBOTS_FOREIGN_HOST or not more:
                self._copies = {r.origin: r for r in records if isinstance(r, RobotsCopy)}
                return one
            self.add_origins(more)

    def run(
        self, url: str, kind: str, browsers: Renders | None = None, **fields: Any
    ) -> list[Record]:
        """One slot with the row of a URL, and what its parts hold. fields: of the row."""
        n, self._n = self._n, self._n + 1
        items = [self._robots_item(n, rank, origin) for rank, origin in enumerate(self.origins)]
        items.append(self._item(n, len(items), url, kind, **fields))
        io = SlotIO(self._objects, self._warcs, self._folder / "spool")
        if browsers is not None:
            io.browsers = lambda _: browsers
        run_slot(items, self._cfg, io)
        records = [r for part in read_slot(self._objects, ROUND, n) for r in part.records]
        self._paces |= {r.host: r.to_json() for r in records if isinstance(r, HostState)}
        if self._crawl is not None:
            _keep_states(self._crawl, records)
        return records

    def _robots_item(self, slot: int, rank: int, origin: str) -> FetchItem:
        state = self._paces[host_of(origin + "/")]
        item = self._item(slot, rank, f"{origin}/robots.txt", "robots", host_state=state)
        if copy := self._copies.get(origin):
            item.robots_status, item.robots_body = copy.status, copy.body
            item.robots_fetched_at, item.robots_expires_at = copy.fetched_at, copy.expires_at
        return item

    def _item(self, slot: int, rank: int, url: str, kind: str, **fields: Any) -> FetchItem:
        host = host_of(url)
        domain = registered_domain(host)
        return FetchItem(ROUND, url_key(url), url, host, domain, slot, rank, kind, **fields)

    def payload(self, capture: Capture) -> bytes:
        """What is stored of a capture."""
        place = capture.warc_record_offset or 0, capture.warc_record_length or 0
        return RecordReader(self._warcs)(str(capture.warc_filename), *place)[1]


def _copy_orders(crawl: Crawl, objects: LocalObjects) -> None:
    """Let the crawl's stop list hold for the slot."""
    with contextlib.suppress(ObjectMissing):
        objects.put(ORDERS_KEY, crawl.objects.get(ORDERS_KEY)[0])


def _keep_states(crawl: Crawl, records: list[Record]) -> None:
    """Store the hosts' newest pace for the next call."""
    states = sorted(
        (r for r in records if isinstance(r, HostState)), key=lambda s: s.last_request_end or 0.0
    )
    for host, newest in {s.host: s for s in states}.items():
        crawl.objects.put(f"one/{host}.json", newest.to_json().encode())


def _read_one(records: list[Record], warcs: LocalObjects, origin: str) -> One:
    """The outcomes among a slot's records, with the stored answer."""
    captures = [r for r in records if isinstance(r, Capture) and r.is_outcome]
    page = next(c for c in captures if c.kind == "page")
    key = url_key(f"{origin}/robots.txt")
    robots = next((c for c in captures if c.kind == "robots" and c.url_key == key), None)
    headers: list[tuple[str, str]] = []
    payload = b""
    if page.warc_filename:
        offset, length = page.warc_record_offset or 0, page.warc_record_length or 0
        headers, payload = RecordReader(warcs)(page.warc_filename, offset, length)
    return One(page, robots, headers, payload)


@dataclasses.dataclass(slots=True)
class RenderedOne:
    """A URL that was fetched and rendered.

    page: what came of its fetch. capture: of its render; None: it was not fetched, so not rendered.
    static, rendered: what `parse_one` reads from both documents. requests: of the page's scripts.
    """

    page: One
    capture: Capture | None = None
    static: dict[str, Any] | None = None
    rendered: dict[str, Any] | None = None
    requests: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    blocked: dict[str, int] = dataclasses.field(default_factory=dict)
    screenshot: bytes | None = None

    def summary(self) -> dict[str, Any]:
        """Both documents beside each other, as JSON."""
        had, has = (_link_urls(read) for read in (self.static, self.rendered))
        texts = [(read or {}).get("text", "") for read in (self.static, self.rendered)]
        compared = (
            compare_rendered(texts[0], texts[1], had, has)
            if self.rendered
            else Compared(None, None)
        )
        told = self.capture or self.page.capture
        return {
            **{name: getattr(told, name) for name in ("url", "outcome", "reason", "detail")},
            "render_ms": told.render_ms,
            "needs_js": (self.static or {}).get("needs_js"),
            "static": None if self.static is None else {"text": texts[0], "links": had},
            "rendered": None if self.rendered is None else {"text": texts[1], "links": has},
            "links_gained": [url for url in has if url not in {*had}],
            "similarity": compared.similarity,
            "cloaking": compared.cloaking,
            "requests": self.requests,
            "blocked": self.blocked,
            "page": self.page.summary(),
        }


def _link_urls(read: dict[str, Any] | None) -> list[str]:
    links = [] if read is None else read["links"]
    return list(dict.fromkeys(link["url"] for link in links if link["refused"] is None))


class _Watched:
    """Browsers of a slot, with what the page asks for and a screenshot."""

    def __init__(self, browsers: Renders, one: RenderedOne, has_screenshot: bool) -> None:
        self._browsers, self._one, self._has_screenshot = browsers, one, has_screenshot

    async def render(
        self, page: StoredPage, answer: AnswerRequest, *, screenshot: bool = False
    ) -> Rendered:
        """As `Renders.render`."""
        self._one.requests.clear()

        async def note(request: PageRequest) -> Answer | None:
            got = await answer(request)
            status, size = (None, 0) if got is None else (got.status, len(got.body))
            row = {"kind": request.kind, "method": request.method, "url": request.url}
            self._one.requests.append(row | {"status": status, "body_bytes": size})
            return got

        done = await self._browsers.render(page, note, screenshot=self._has_screenshot)
        self._one.blocked, self._one.screenshot = done.blocked, done.screenshot
        return done

    async def close(self) -> None:
        """As `Renders.close`."""
        await self._browsers.close()


def render_one(
    url: str, cfg: Config, crawl: Crawl | None = None, screenshot: bool = False
) -> RenderedOne:
    """Fetch a URL as `fetch_one` does, and render it as the next rounds would: again with the
    origins that it asks for.

    Raises as `fetch_one`, and BrowserMissing.
    """
    url = canonicalize(url, policy=UrlPolicy.of(cfg.urls))
    cfg.check_agent([host_of(url)])
    open_browsers(cfg.render, cfg.agent)  # missing: told before anything is sent
    with (
        contextlib.nullcontext() if crawl is None else crawl.lock,
        tempfile.TemporaryDirectory(prefix="crawlkit-one-") as folder,
    ):
        slots = _Slots(Path(folder), cfg, crawl)
        one = RenderedOne(slots.fetch(url))
        if one.page.capture.outcome == Outcome.FETCHED and one.page.capture.warc_filename:
            _render(slots, one, cfg, screenshot)
        return one


def _render(slots: _Slots, one: RenderedOne, cfg: Config, screenshot: bool) -> None:
    page, headers = one.page.capture, one.page.headers
    one.static = parse_one(one.page.payload, page.url, cfg, page.content_type, headers)
    fields = {
        "doc_filename": page.warc_filename,
        "doc_offset": page.warc_record_offset,
        "doc_length": page.warc_record_length,
        "prev_capture_id": page.capture_id,
        "prev_payload_digest": page.payload_digest,
        "prev_fetched_at": page.started,
    }
    for _ in range(1 + len(RENDER_AGAIN)):
        watched = _Watched(open_browsers(cfg.render, cfg.agent), one, screenshot)
        records = slots.run(page.url, "render", watched, **fields)
        one.capture = next(r for r in records if isinstance(r, Capture) and r.kind == "render")
        more = sorted({*read_origins(one.capture.detail)} - {*slots.origins})
        if not more:
            break
        slots.add_origins(more)
    if one.capture is not None and one.capture.warc_filename:
        kept = [(k, v) for k, v in headers if k.lower() != "content-encoding"]
        html = slots.payload(one.capture)
        one.rendered = parse_one(html, page.url, cfg, one.capture.content_type, kept)


def read_and_parse(
    source: str,
    cfg: Config,
    crawl: Crawl | None = None,
    url: str | None = None,
    content_type: str | None = None,
) -> dict[str, Any]:
    """parse_one of a file (`url` is its address), or of a URL that is fetched first.

    Raises OSError, Refused, ConfigError, CrawlError.
    """
    if source.startswith(("http://", "https://")):
        got = fetch_one(source, cfg, crawl)
        if not got.capture.warc_filename or got.capture.status is None or got.capture.status >= 300:
            raise Refused(
                Reason(got.capture.reason) if got.capture.reason else Reason.HTTP_3XX,
                f"{got.capture.url}: {got.capture.outcome}, status {got.capture.status}",
            )
        return parse_one(got.payload, got.capture.url, cfg, got.capture.content_type, got.headers)
    path = Path(source)
    if path.stat().st_size > MAX_DECODED_BYTES:
        raise ConfigError(f"{source}: larger than {MAX_DECODED_BYTES} bytes")
    kind = content_type or _KIND_OF_SUFFIX.get(path.suffix.lower())
    address = url or f"http://localhost/{path.name.replace('%', '')}"
    return parse_one(path.read_bytes(), address, cfg, kind)
