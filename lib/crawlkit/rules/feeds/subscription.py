"""WebSub (W3C Recommendation, 23 January 2018) from a subscriber's side: what a hub is asked, and
what is believed of its words.

A subscription has a name that nobody can guess, which is a part of its callback. What a hub sends
there is believed if it is signed with the secret of the subscription.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace

from crawlkit.rules.feeds.sitemaps import FEEDS, parse
from crawlkit.rules.page.encoding import header_charset
from crawlkit.rules.url.policy import UrlPolicy

LEASE_S = 10 * 86_400  # asked for
MAX_LEASE_S = 365 * 86_400.0
RENEW_SHARE = 1 / 3  # of a lease: with less of it left it is renewed
MAX_CHALLENGE_CHARS = 4096
MAX_REASON_CHARS = 300
_METHODS = ("sha1", "sha256", "sha384", "sha512")  # 7


@dataclass(frozen=True)
class Subscription:
    """One topic at one hub, as the crawled URL `feed` names both.

    state: asked, active, denied, failed or ended. pending: what the hub was asked and has not
    verified yet, subscribe or unsubscribe. Times are Unix s. lease_s: as asked, then as granted.
    taken, ignored: what was sent to the callback, and not believed.
    """

    id: str
    topic: str
    hub: str
    feed: str
    state: str
    pending: str | None
    asked_at: float
    lease_s: float
    verified_at: float | None = None
    ends_at: float | None = None
    reason: str | None = None
    taken: int = 0
    ignored: int = 0
    taken_at: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to renew or to end: it has ended, or the hub has denied it."""
        return self.state in ("ended", "denied")

    def is_due(self, now: float) -> bool:
        """Whether it is time to renew it, or to ask again what the hub has not verified."""
        if self.state == "active":
            left_s = (self.ends_at or 0.0) - now
            return left_s < self.lease_s * RENEW_SHARE
        return self.state in ("asked", "failed")


def secret_of(token: str, subscription_id: str) -> str:
    """The secret of a subscription, from the token of the control API: nothing has to be kept."""
    return hmac.digest(token.encode(), f"websub {subscription_id}".encode(), "sha256").hex()


def is_signed(secret: str, field: str | None, body: bytes) -> bool:
    """Whether a field X-Hub-Signature (`method=hexdigest`, 7) is the body's."""
    method, _, given = (field or "").strip().partition("=")
    if method not in _METHODS:
        return False
    digest = hmac.digest(secret.encode(), body, method).hex()
    return hmac.compare_digest(digest.encode(), given.strip().lower().encode("utf-8", "replace"))


def request_fields(
    subscription: Subscription, mode: str, callback: str, secret: str
) -> list[tuple[str, str]]:
    """The form that is sent to the hub (5.1). mode: subscribe or unsubscribe."""
    fields = [
        ("hub.callback", callback),
        ("hub.mode", mode),
        ("hub.topic", subscription.topic),
    ]
    if mode == "subscribe":
        fields += [("hub.lease_seconds", str(int(subscription.lease_s))), ("hub.secret", secret)]
    return fields


def confirm(
    subscription: Subscription, query: Mapping[str, str], now: float
) -> tuple[Subscription, str] | None:
    """The subscription after a hub's GET on its callback (5.2, 5.3), and the answer's body; None:
    we have not asked for this, so the answer is 404.
    """
    mode, challenge = query.get("hub.mode"), query.get("hub.challenge", "")
    if query.get("hub.topic") != subscription.topic:
        return None
    if mode == "denied" and subscription.state != "ended":
        reason = query.get("hub.reason", "")[:MAX_REASON_CHARS] or None
        return replace(subscription, state="denied", pending=None, reason=reason), ""
    is_challenge = 0 < len(challenge) <= MAX_CHALLENGE_CHARS
    if mode is None or mode != subscription.pending or not is_challenge:
        return None
    new = replace(subscription, pending=None, verified_at=now, reason=None)
    if mode == "unsubscribe":
        return replace(new, state="ended", ends_at=now), challenge
    given = query.get("hub.lease_seconds", "")
    lease_s = float(given[:12]) if given.isascii() and given.isdigit() else subscription.lease_s
    lease_s = min(max(lease_s, 1.0), MAX_LEASE_S)
    return replace(new, state="active", lease_s=lease_s, ends_at=now + lease_s), challenge


def pushed_urls(
    body: bytes, content_type: str | None, topic: str, policy: UrlPolicy, most: int
) -> dict[str, float | None]:
    """At most so many entries of a feed that a hub has sent: canonical URL -> when it changed, Unix
    s. None at all if it is no feed: then the topic alone is known to have changed.
    """
    found = parse(
        body, topic, charset=header_charset(content_type), policy=policy, max_entries=most
    )
    if found.kind not in FEEDS:
        return {}
    return {entry.url: entry.lastmod for entry in found.entries}
