"""Redirects: which answers are followed, and whereto (docs/rules/urls.md).

A hop to another page is never followed at once: its target is a found row for a later round, so
that robots, scope and pace hold there too and nothing is fetched twice. Followed at once are hops
of robots.txt (rules/robots/fetching.py) and those that lead to the same page (visit.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.url.canonical import DEFAULT_POLICY, UrlPolicy, as_found, canonicalize, split
from crawlkit.rules.url.ip_ranges import Network, address_refusal

# RFC 9110 15.4: 300 and 304 name no single other resource, 305 and 306 are no longer used.
FOLLOWED = frozenset({301, 302, 303, 307, 308})
PERMANENT = frozenset({301, 308})


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where an answer points.

    `target` is canonical; None: nothing to follow, and `reason` says why (None: no redirect).
    `sent_url`: how it is requested, where not as `target`.
    """

    target: str | None
    permanent: bool = False
    reason: Reason | None = None
    detail: str = ""
    sent_url: str | None = None

    @property
    def refused(self) -> bool:
        """A target was named and is forbidden or no URL."""
        return self.reason not in (None, Reason.HTTP_3XX, Reason.REDIRECT_LOOP)


def redirect(
    from_url: str,
    status: int,
    location: str | bytes | None,
    policy: UrlPolicy = DEFAULT_POLICY,
    allow: Sequence[Network] = (),
) -> Redirect:
    """The redirect in an answer to `from_url` (canonical). Never raises.

    `location` is the field's value: the bytes received, or decoded text. Each hop is resolved
    against the address that sent it (RFC 9110 10.2.2); fragments play no part. An address literal
    or `localhost` that the guard would refuse is refused here (`allow`: networks that it lets
    through). A redirect to itself is a loop.
    """
    if status not in FOLLOWED:
        return Redirect(None, reason=Reason.HTTP_3XX if 300 <= status < 400 else None)
    permanent = status in PERMANENT
    if location is None:
        return Redirect(None, permanent, Reason.REDIRECT_INVALID, "no Location")
    try:
        target = canonicalize(location, from_url, policy)
    except Refused as refused:
        return Redirect(None, permanent, refused.reason, refused.detail)
    if why := _host_refusal(split(target).host, allow):
        return Redirect(None, permanent, Reason.ADDRESS_FORBIDDEN, why)
    if target == from_url or target == canonicalize(from_url, None, policy):
        return Redirect(None, permanent, Reason.REDIRECT_LOOP, target)
    return Redirect(target, permanent, sent_url=as_found(location, target, from_url, policy))


def _host_refusal(host: str, allow: Sequence[Network]) -> str | None:
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761 6.3: always loopback
        return address_refusal("127.0.0.1", allow)
    if host.startswith("["):
        return address_refusal(host[1:-1], allow)
    # The canonical host ends in a digit only if it is an IPv4 address (WHATWG URL 3.5).
    return (
        address_refusal(host, allow)
        if host[-1].isdigit() and host.replace(".", "").isdigit()
        else None
    )
