"""One URL by itself: fetched by a slot of its own, and read as the parse stage reads it.

The slot is a real one: address guard, robots.txt, pace and stop list hold.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.adapters.store.objects import ObjectMissing
from crawlkit.adapters.store.parts import Record, read_slot
from crawlkit.adapters.store.stop_list import ORDERS_KEY
from crawlkit.adapters.warc.record_store import RecordReader
from crawlkit.config import Config, ConfigError
from crawlkit.crawl.state import Crawl, CrawlError
from crawlkit.model import Capture, FetchItem, RobotsCopy
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.http.content_coding import MAX_DECODED_BYTES, decode_body
from crawlkit.rules.page.links import Link
from crawlkit.rules.page.page import parse_page
from crawlkit.rules.politeness.host_state import HostState
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
    """Fetch robots.txt and URL in a slot of their own; again with the hosts to which the
    robots.txt leads, as the next round would.
    """
    origins = [origin_of(url)]
    paces = {host_of(url): _free_state(crawl, host_of(url))}
    while True:
        one, records = _run_slot(url, origins, paces, cfg, crawl)
        leads = {o for r in records if isinstance(r, RobotsCopy) for o in r.leads_to}
        more = sorted(leads - {*origins})
        if one.capture.reason != Reason.ROBOTS_FOREIGN_HOST or not more:
            return one
        paces |= {r.host: r.to_json() for r in records if isinstance(r, HostState)}
        for origin in more:
            paces.setdefault(host_of(origin + "/"), _free_state(crawl, host_of(origin + "/")))
        origins += more


def _run_slot(
    url: str, origins: list[str], paces: dict[str, str | None], cfg: Config, crawl: Crawl | None
) -> tuple[One, list[Record]]:
    """One slot, below a folder that is deleted. origins: whose robots.txt it has rows of."""
    items = [_item(f"{o}/robots.txt", n, "robots", paces) for n, o in enumerate(origins)]
    items.append(_item(url, len(origins), "page", paces))
    with tempfile.TemporaryDirectory(prefix="crawlkit-one-") as folder:
        objects, warcs = LocalObjects(Path(folder, "state")), LocalObjects(Path(folder, "warc"))
        if crawl is not None:
            _copy_orders(crawl, objects)
        run_slot(items, cfg, SlotIO(objects, warcs, Path(folder, "spool")))
        records = [r for part in read_slot(objects, ROUND, 0) for r in part.records]
        if crawl is not None:
            _keep_states(crawl, records)
        return _read_one(records, warcs, origins[0]), records


def _item(url: str, rank: int, kind: str, paces: dict[str, str | None]) -> FetchItem:
    host = host_of(url)
    state = paces.get(host) if kind == "robots" else None
    domain = registered_domain(host)
    return FetchItem(ROUND, url_key(url), url, host, domain, 0, rank, kind, host_state=state)


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


def parse_one(
    body: bytes,
    url: str,
    cfg: Config,
    content_type: str | None = None,
    headers: list[tuple[str, str]] | None = None,
) -> dict[str, Any]:
    """What the parse stage reads from a body: title, texts, links, robots directives, digests.

    body: with its content coding. Raises Refused (no such URL).
    """
    policy = UrlPolicy.of(cfg.urls)
    decoded = decode_body(body, headers or ())
    page = parse_page(
        decoded.body,
        canonicalize(url, policy=policy),
        content_type,
        headers or (),
        cfg.agent.name,
        policy,
    )
    robots, meta = page.robots, page.metadata
    return {
        "url": page.url,
        "kind": page.kind,
        "charset": page.encoding.name if page.encoding else None,
        "title": page.title,
        "description": meta.description,
        "language": page.language,
        "canonical": page.links.canonical,
        "robots": list(robots.directives),
        "noindex": robots.noindex,
        "nofollow": robots.nofollow,
        "text": page.text,
        "main_text": page.main_text,
        "page_kind": page.page_kind,
        "links": [_link_row(link) for link in page.links.links],
        "structured": json.loads(json.dumps(page.structured, default=str)),
        "body_sha256": page.body_sha256,
        "text_sha256": page.prints.text_sha256,
        "simhash": page.prints.simhash,
        "flags": list(page.flags),
        "error": None if page.error is None else str(page.error),
    }


def _link_row(link: Link) -> dict[str, Any]:
    return {
        "kind": link.kind,
        "url": link.url,
        "anchor": link.anchor,
        "rel": link.rel,
        "refused": None if link.refused is None else str(link.refused),
    }


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
