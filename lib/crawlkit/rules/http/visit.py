"""One visit: redirects that lead to the same page, followed at once.

A hop to another spelling of the same canonical URL is one, since the frontier has one row for both;
for hosts with a session (fetch.cookie_hosts) so is each hop within the origin, since the cookies
end with the task. A loop is a request that was sent before, with no new cookie since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crawlkit.outcomes import Refused
from crawlkit.rules.http.redirects import FOLLOWED
from crawlkit.rules.url.canonical import UrlPolicy, as_sent, canonicalize, origin_of

MAX_HOPS = 10


class Sent(NamedTuple):
    """A request of a visit. cookies: answers before it that set one."""

    url: str
    cookies: int = 0


def next_hop(
    sent: Sequence[Sent],
    status: int | None,
    location: str | None,
    sets_cookie: bool,
    has_session: bool,
    policy: UrlPolicy,
) -> Sent | None:
    """The request that a visit sends next; None: the answer is its last.

    Args:
        sent: what was sent so far, the first as the row is requested.
        location: the field's value, as decoded text.
        sets_cookie: whether the answer sets one.
        has_session: whether the host's cookies are sent back.
    """
    if status not in FOLLOWED or location is None or len(sent) > MAX_HOPS:
        return None
    first, last = sent[0].url, sent[-1]
    raw = location.encode("latin-1", "replace")
    try:
        url = as_sent(raw, last.url)
        target = canonicalize(raw, last.url, policy)
    except Refused:
        return None
    hop = Sent(url, last.cookies + (sets_cookie and has_session))
    is_same = target == canonicalize(first, None, policy)
    is_session = has_session and origin_of(target) == origin_of(first)
    return hop if (is_same or is_session) and hop not in sent else None
