"""JSON Feed 1.0 and 1.1 (jsonfeed.org): the addresses of its items and when they changed."""

from __future__ import annotations

import json
from typing import Any

from crawlkit.rules.feeds.collect import MAX_HUBS, Collector
from crawlkit.rules.feeds.timestamps import w3c_date

MAX_JSON_CHARS = 10 * 2**20  # its objects take several times as much memory


def read_json_feed(text: str, out: Collector) -> bool | None:
    """Take the items of a feed; None: it is no JSON Feed. False: it was longer than is read.

    An item's address is its `url`, else its `id` where that is one.
    """
    if len(text) > MAX_JSON_CHARS:
        return None
    try:
        feed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    version = feed.get("version") if isinstance(feed, dict) else None
    if not isinstance(version, str) or "jsonfeed.org/version/" not in version:
        return None
    out.out.kind = "json"
    _take_hubs(feed, out)
    items = feed.get("items")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            _take(item, out)
        else:
            out.out.bad_entries += 1
    return True


def _take_hubs(feed: dict[str, Any], out: Collector) -> None:
    """`feed_url`, and the `hubs` of type WebSub (JSON Feed 1.1, "Subscribing to Real-time
    Notifications").
    """
    hubs = feed.get("hubs")
    urls = [
        hub.get("url")
        for hub in (hubs if isinstance(hubs, list) else [])[:MAX_HUBS]
        if isinstance(hub, dict) and str(hub.get("type")).lower() == "websub"
    ]
    for rel, url in (("self", feed.get("feed_url")), *(("hub", url) for url in urls)):
        if isinstance(url, str):
            out.hub(rel, url)


def _take(item: dict[str, Any], out: Collector) -> None:
    named = [item.get(key) for key in ("url", "id")]
    address = next((v for v in named if isinstance(v, str) and v.strip()), "")
    entry = out.page(address, out.url if item.get("url") else None)
    dates = (item.get(key) for key in ("date_modified", "date_published"))
    date = next((d for d in dates if isinstance(d, str)), None)
    if entry is not None and date is not None:
        entry.lastmod = w3c_date(date)
