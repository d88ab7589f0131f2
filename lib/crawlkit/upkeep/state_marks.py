"""Marks in a crawl's state while its tables are rewritten: nothing else works on it then."""

from __future__ import annotations

import json

from crawlkit.adapters.store.objects import ObjectMissing
from crawlkit.crawl.state import Crawl, CrawlError
from crawlkit.model import Round


def begin_rebucket(crawl: Crawl, buckets: int) -> int:
    """The bucket count so far; from now until `set_buckets` nothing else works on the crawl.

    The caller holds W. Raises CrawlError.
    """
    try:
        raw, etag = crawl.objects.get("crawl.json")
    except ObjectMissing:
        raise CrawlError(
            f"no crawl in {crawl.data}: set frontier.buckets before the first round instead"
        ) from None
    state = json.loads(raw)
    if state["open"]:
        raise CrawlError(
            f"round {', '.join(sorted(state['open']))} is open: finish it (`crawlkit round`)"
            " before the host buckets change"
        )
    if state.get("rebucket_to", buckets) != buckets:
        raise CrawlError(
            f"{crawl.data} is on its way to {state['rebucket_to']} host buckets: finish that"
            f" first with `crawlkit rebucket {state['rebucket_to']}`"
        )
    crawl.write_state(state | {"rebucket_to": buckets}, etag)
    return state["buckets"]


def set_buckets(crawl: Crawl, buckets: int) -> None:
    """Record the new bucket count: the tables are rewritten. The caller holds W."""
    raw, etag = crawl.objects.get("crawl.json")
    state = json.loads(raw)
    state.pop("rebucket_to", None)
    crawl.write_state(state | {"buckets": buckets}, etag)


def begin_rebuild(crawl: Crawl) -> None:
    """From now until `end_rebuild` nothing else works on the crawl. The caller holds W.

    Raises CrawlError if there is a crawl.
    """
    try:
        raw, etag = crawl.objects.get("crawl.json")
    except ObjectMissing:
        raw = json.dumps({"buckets": crawl.cfg.frontier.buckets, "next_no": 1, "open": {}}).encode()
        etag = None
    state = json.loads(raw)
    if etag is not None and "rebuilding" not in state:
        raise CrawlError(
            f"{crawl.data} has a crawl already: leave out --from-warc to rebuild its crawldb,"
            " or move its tables and state away"
        )
    crawl.write_state(state | {"rebuilding": True}, etag)


def end_rebuild(crawl: Crawl, rounds: list[Round]) -> None:
    """The crawl goes on after these rounds. The caller holds W."""
    raw, etag = crawl.objects.get("crawl.json")
    state = json.loads(raw)
    state.pop("rebuilding", None)
    crawl.write_state(state | {"next_no": max((r.no for r in rounds), default=0) + 1}, etag)
