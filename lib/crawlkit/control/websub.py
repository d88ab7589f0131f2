"""Subscriptions to topics by WebSub: asked for, verified, renewed and ended, and what hubs send.

Each is an object `control/websub/ID.json`; ID is a part of its callback and cannot be guessed. What
a hub sends becomes a hint (docs/operations.md): nothing is fetched outside a round.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from crawlkit.adapters.net.form_post import post_form
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.config import Config, ConfigError
from crawlkit.control.commands import run_command
from crawlkit.crawl.json_objects import change_object, read_object
from crawlkit.crawl.state import Crawl
from crawlkit.model import Answer, header_list
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.feeds.subscription import (
    Subscription,
    confirm,
    is_signed,
    pushed_urls,
    request_fields,
    secret_of,
)
from crawlkit.rules.frontier.command_rules import MAX_URLS, BadCommand
from crawlkit.rules.page.links import HUB_KINDS
from crawlkit.rules.url.canonical import as_sent, canonicalize, host_of
from crawlkit.rules.url.domains import registered_domain
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.url.scope import Scope, check_seed

FOLDER = "control/websub/"
MAX_HOPS = 3
_ID = re.compile(r"[0-9a-f]{32}")


class Topic(NamedTuple):
    """A topic that a stored feed or page names, and its hub."""

    topic: str
    hub: str
    named_by: str


def find_topics(crawl: Crawl) -> list[Topic]:
    """What can be subscribed to: topics in scope that stored feeds and pages name with a hub, by
    the newest record of each; of several hubs the first.
    """
    columns = ["capture_id", "round_id", "n", "from_url", "kind", "to_url", "sent_url", "refused"]
    rows = crawl.plain_tables().rows("links", columns, {"kind": sorted(HUB_KINDS)})
    numbers = {name: crawl.round(name).no for name in crawl.round_ids()}
    rows.sort(key=lambda r: (numbers.get(r["round_id"], 0), r["capture_id"], r["n"]))
    newest = {r["from_url"]: r["capture_id"] for r in rows}
    named: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for r in rows:
        if newest[r["from_url"]] == r["capture_id"] and r["refused"] == Reason.HUB_LINK:
            named[r["from_url"]][r["kind"]].append(r["sent_url"] or r["to_url"])
    scope = Scope.of(crawl.cfg.scope, UrlPolicy.of(crawl.cfg.urls))
    found = {}
    for url, of_kind in named.items():
        if of_kind["hub"] and len({*of_kind["self"]}) == 1:  # 4: exactly one
            topic = of_kind["self"][0]
            with contextlib.suppress(Refused):
                check_seed(canonicalize(topic), 0, scope)
                found[topic] = Topic(topic, of_kind["hub"][0], url)
    return sorted(found.values())


def subscriptions(crawl: Crawl) -> list[Subscription]:
    """All of them, by topic."""
    rows = (read_object(crawl.objects, key) for key in crawl.objects.list(FOLDER))
    return sorted((Subscription(**r) for r in rows if r), key=lambda s: (s.topic, s.id))


def drop_subscriptions(crawl: Crawl, is_of: Callable[[str], bool], dry_run: bool = False) -> int:
    """Delete those whose feed or topic a predicate takes; how many. dry_run: they stay.

    The hub is not asked: what it sends is answered 404, until its lease ends.
    """
    found = [s for s in subscriptions(crawl) if is_of(s.feed) or is_of(s.topic)]
    for s in [] if dry_run else found:
        crawl.objects.delete(f"{FOLDER}{s.id}.json")
    return len(found)


def _change(crawl: Crawl, subscription_id: str, **fields: Any) -> Subscription:
    def change(row: dict[str, Any] | None) -> dict[str, Any]:
        return (row or {}) | fields

    row = change_object(crawl.objects, f"{FOLDER}{subscription_id}.json", change)
    return Subscription(**(row or {}))


class Hubs:
    """Requests to hubs: one at a time, each hub's apart by the delay of hosts.

    token: of the control API, from which the secrets of subscriptions come. Raises ConfigError: we
    have no public address, or no agent to name.
    """

    def __init__(self, crawl: Crawl, cfg: Config, token: str) -> None:
        if not cfg.control.public_url:
            raise ConfigError(
                "control.public_url is not set: give the address at which hubs reach `crawlkit"
                " serve`, for example --set control.public_url=https://you.example/crawl"
            )
        self._crawl, self._cfg, self._token = crawl, cfg, token
        self._asked: dict[str, float] = {}  # host of a hub -> end of its last answer, monotonic s

    def subscribe(self, topic: Topic, lease_s: float) -> Subscription:
        """Ask a hub for a topic; again, if it was asked for before. Raises ConfigError, OSError."""
        s = next((s for s in subscriptions(self._crawl) if s.topic == topic.topic), None)
        if s is None:
            name = secrets.token_hex(16)
            s = Subscription(name, *topic, "asked", None, time.time(), lease_s)
        state = "active" if s.state == "active" else "asked"
        s = replace(s, hub=topic.hub, feed=topic.named_by, lease_s=lease_s, state=state)
        return self.ask(s, "subscribe")

    def ask(self, subscription: Subscription, mode: str) -> Subscription:
        """Send one request; the subscription as it is when the hub has answered.

        It is stored as pending before: the hub may verify it before it answers. Raises ConfigError,
        OSError.
        """
        s = replace(subscription, pending=mode, asked_at=time.time(), reason=None)
        self._cfg.check_agent([host_of(canonicalize(s.hub))])
        _change(self._crawl, s.id, **asdict(s))
        callback = f"{self._cfg.control.public_url.rstrip('/')}/websub/{s.id}"
        fields = request_fields(s, mode, callback, secret_of(self._token, s.id))
        refusal = self._send(s.hub, fields)
        if refusal is None:
            row = read_object(self._crawl.objects, f"{FOLDER}{s.id}.json")
            return s if row is None else Subscription(**row)
        state = "failed" if s.state == "asked" else s.state
        return _change(self._crawl, s.id, pending=None, state=state, reason=refusal)

    def _send(self, url: str, fields: list[tuple[str, str]]) -> str | None:
        """Why the hub did not accept a request; None: it did (5.2: 307 and 308 are followed)."""
        for _ in range(MAX_HOPS + 1):
            host = host_of(canonicalize(url))
            stopped = read_orders(self._crawl.objects).stopped(host, registered_domain(host))
            if stopped is not None:
                return f"{Reason.STOP_LIST}: {host}: {stopped}"
            last = self._asked.get(host)
            if last is not None:
                wait_s = self._cfg.politeness.delay_s - (time.monotonic() - last)
                time.sleep(max(0.0, wait_s))
            answer = post_form(url, fields, self._cfg)
            self._asked[host] = time.monotonic()
            target = header_list(answer.headers, "location")
            if answer.status not in (307, 308) or target is None:
                return _refusal(answer)
            try:
                url = as_sent(target, url)
            except Refused as e:
                return f"{e.reason}: {e.detail}"
        return f"{Reason.REDIRECT_TOO_LONG}: over {MAX_HOPS} hops"


def _refusal(answer: Answer) -> str | None:
    if answer.error:
        return f"{answer.error}: {answer.error_detail}".rstrip(": ")
    if answer.status is not None and answer.status // 100 == 2:
        return None
    text = re.sub(r"[^ -~]+", " ", answer.body[:300].decode("latin-1")).strip()
    return f"HTTP {answer.status}: {text}".rstrip(": ")


def answer_hub(crawl: Crawl, subscription_id: str, query: Mapping[str, str]) -> str | None:
    """The body of the answer to a hub's verification or denial; None: 404 (5.3)."""
    body: str | None = None

    def change(row: dict[str, Any] | None) -> dict[str, Any] | None:
        nonlocal body
        confirmed = None if row is None else confirm(Subscription(**row), query, time.time())
        body = None if confirmed is None else confirmed[1]
        return None if confirmed is None else asdict(confirmed[0])

    if _ID.fullmatch(subscription_id):
        change_object(crawl.objects, f"{FOLDER}{subscription_id}.json", change)
    return body


def is_expecting(crawl: Crawl, subscription_id: str) -> bool | None:
    """Whether a callback takes what its hub sends; None: it took it once, and is over."""
    is_id = _ID.fullmatch(subscription_id)
    row = read_object(crawl.objects, f"{FOLDER}{subscription_id}.json") if is_id else None
    if row is None:
        return False
    s = Subscription(**row)
    return None if s.is_over else s.state == "active"


def take_push(
    crawl: Crawl,
    cfg: Config,
    token: str,
    subscription_id: str,
    headers: Iterable[tuple[str, str]],
    body: bytes,
) -> bool:
    """Take what a hub has sent to an active subscription, if it is signed: a hint of the topic and
    its entries. Whether it was taken; what is not is counted. Raises LockHeld, OSError.
    """
    key = f"{FOLDER}{subscription_id}.json"
    row = read_object(crawl.objects, key)
    if row is None:
        return False
    s, fields = Subscription(**row), list(headers)
    signature = header_list(fields, "x-hub-signature")
    is_taken = is_signed(secret_of(token, s.id), signature, body) and _hint(
        crawl, cfg, s, header_list(fields, "content-type"), body
    )

    def count(row: dict[str, Any] | None) -> dict[str, Any] | None:
        if row is None:
            return None
        if is_taken:
            return row | {"taken": row["taken"] + 1, "taken_at": time.time()}
        return row | {"ignored": row["ignored"] + 1}

    change_object(crawl.objects, key, count)
    return is_taken


def _hint(
    crawl: Crawl, cfg: Config, s: Subscription, content_type: str | None, body: bytes
) -> bool:
    """One command for what was sent: the same again is the same command."""
    dates = pushed_urls(body, content_type, s.feed, UrlPolicy.of(cfg.urls), MAX_URLS - 1)
    given = {
        "urls": list(dict.fromkeys([s.feed, *dates])),
        "source": "websub",
        "feed": s.feed,
        "dates": {url: at for url, at in dates.items() if at is not None},
    }
    name = hashlib.sha256(body).hexdigest()[:32]
    with contextlib.suppress(BadCommand):  # the scope has changed: nothing of it is wanted
        run_command(
            crawl, "hint", given, actor=f"websub:{s.hub}", command_id=f"websub-{s.id}-{name}"
        )
        return True
    return False
