"""The receiving side of IndexNow: a ping judged by its key, and its URLs taken as hints."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.control.backend import Backend, Sender
from crawlkit.control.forms import PingBody
from crawlkit.crawl.waiting_pings import TooMany, take_ping
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.feeds.ping_keys import KEY, is_governed, key_location
from crawlkit.rules.frontier.command_rules import BadCommand, Order, check, host_name
from crawlkit.rules.url.canonical import canonicalize, host_of
from crawlkit.rules.url.domains import registered_domain
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.url.scope import Scope, check_seed

RETRY_AFTER_S = 3600
MAX_HOST_CHARS = 253  # of a name in DNS (RFC 1035 2.3.4, without the root)


class Reply(NamedTuple):
    """The answer to a ping: its status as IndexNow gives it a meaning, and the JSON body."""

    status: int
    body: dict[str, Any]


def take(app: Backend, sender: Sender, ping: PingBody, is_trusted: bool) -> Reply:
    """Judge a ping: 200 taken, 202 taken once its key is proven, 403 the key is not the host's, 422
    URLs that it may not name, 429 too many.

    is_trusted: the sender has the API's token, and has checked the key. Raises BadCommand.
    """
    if not KEY.fullmatch(ping.key):
        return Reply(422, {"detail": "key: expected 8 to 128 letters, digits and hyphens"})
    host, policy = host_name(ping.host), UrlPolicy.of(app.cfg.urls)
    if len(host) > MAX_HOST_CHARS:
        return Reply(422, {"detail": f"host: over {MAX_HOST_CHARS} characters"})
    where = "urlList"
    try:
        urls = [canonicalize(u.strip(), policy=policy) for u in ping.urlList]
        where = "keyLocation"
        location = key_location(host, ping.key, ping.keyLocation, urls[0])
    except Refused as e:
        return Reply(422, {"detail": f"{where}: {e.reason} {e.detail:.300}".rstrip()})
    except ValueError as e:
        return Reply(422, {"detail": str(e)})
    if stray := [u for u in urls if host_of(u) != host]:
        return Reply(422, {"detail": f"urlList: {stray[0]!r:.200} is not of {host}"})
    if stray := [u for u in urls if not is_governed(u, location)]:
        detail = f"urlList: {stray[0]!r:.200} is not below {location!r:.200}"
        return Reply(422, {"detail": detail})
    given = {"urls": urls, "source": "indexnow"}
    try:
        order = check("hint", given, app.cfg)
    except BadCommand as e:
        return Reply(422, {"detail": str(e)})
    if is_trusted:
        return Reply(200, {"queued": app.run("hint", given, sender)["queued"]})
    return _wait(app, ping.key, location, order, sender.dry_run)


def _wait(app: Backend, key: str, location: str, order: Order, is_trial: bool) -> Reply:
    """Let the URLs wait for a round, which proves the key if it has to."""
    if is_trial:
        raise BadCommand("dry_run: only with the token")
    try:
        check_seed(location, 0, Scope.of(app.cfg.scope, UrlPolicy.of(app.cfg.urls)))
    except Refused as e:
        return Reply(403, {"detail": f"{location}: {e.reason}: the key file is not fetched"})
    objects, host = app.crawl().objects, host_of(location)
    if read_orders(objects).stopped(host, registered_domain(host)) is not None:
        return Reply(403, {"detail": f"{host}: {Reason.STOP_LIST}: the key file is not fetched"})
    urls: Sequence[str] = order.arguments["urls"]
    try:
        ping = take_ping(objects, key, location, urls, time.time())
    except TooMany as e:
        return Reply(429, {"detail": str(e)})
    if ping["state"] == "refuted":
        return Reply(403, {"detail": f"{location}: {ping['reason']}"})
    told = {"refused": order.refused}
    if ping["state"] == "proven":
        return Reply(200, {"queued": len(urls), **told})
    return Reply(202, {"waiting": len(urls), "key": location, **told})
