"""From an answer to the one outcome of a planned fetch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crawlkit.model import Answer
from crawlkit.outcomes import Outcome, Reason
from crawlkit.rules.http.redirects import redirect
from crawlkit.rules.url.canonical import UrlPolicy
from crawlkit.rules.url.ip_ranges import Network

# Errors with which no request reached the host: it was not asked, so it need not be left alone
# after it.
NEVER_SENT = frozenset(
    {
        Reason.URL_INVALID,
        Reason.URL_SCHEME,
        Reason.URL_HOST_EMPTY,
        Reason.ADDRESS_FORBIDDEN,
        Reason.PORT_FORBIDDEN,
    }
)
NO_ADDRESS = frozenset({Reason.DNS_FAIL, Reason.DNS_NXDOMAIN})
_REFUSALS = NEVER_SENT | {Reason.CONTENT_TYPE}


class Judged(NamedTuple):
    """`redirect_to` is canonical, `redirect_sent_url` how it is requested where not so; set with
    outcome redirected only.
    """

    outcome: Outcome
    reason: Reason | None = None
    detail: str | None = None
    redirect_to: str | None = None
    redirect_sent_url: str | None = None


def judge(
    url: str, answer: Answer, conditional: bool, policy: UrlPolicy, allow: Sequence[Network] = ()
) -> Judged:
    """The outcome of a request to `url` (canonical). `conditional`: validators were sent.

    `policy` and `allow` (networks that the guard lets through) decide about a redirect's target.
    """
    status = answer.status
    if status is None or answer.error:
        reason = Reason(answer.error or Reason.HTTP_MALFORMED)
        return Judged(
            Outcome.REFUSED if reason in _REFUSALS else Outcome.FAILED,
            reason,
            answer.error_detail or None,
        )
    if status == 304:
        if conditional:
            return Judged(Outcome.NOT_MODIFIED)
        return Judged(Outcome.HTTP_ERROR, Reason.HTTP_3XX, "304, but nothing conditional was asked")
    if 200 <= status < 300:
        return Judged(
            Outcome.FETCHED,
            None,
            "partial content that nobody asked for" if status == 206 else None,
        )
    if 300 <= status < 400:
        location = answer.header("location")
        hop = redirect(
            url,
            status,
            None if location is None else location.encode("latin-1", "replace"),
            policy,
            allow,
        )
        if hop.target is not None:
            return Judged(Outcome.REDIRECTED, None, None, hop.target, hop.sent_url)
        return Judged(Outcome.HTTP_ERROR, hop.reason or Reason.HTTP_3XX, hop.detail or None)
    other = Reason.HTTP_4XX if 400 <= status < 500 else Reason.HTTP_5XX
    return Judged(Outcome.HTTP_ERROR, _BY_STATUS.get(status, other))


_BY_STATUS = {
    403: Reason.HTTP_403,
    404: Reason.HTTP_404,
    410: Reason.HTTP_410,
    429: Reason.HTTP_429,
}


def refused_by_robots_error(error: str | None) -> Judged | None:
    """What the pages of an origin come to when its robots.txt could not even be asked for: the same
    would befall them.

    None: the ordinary case, they are deferred (RFC 9309 2.3.1.4).
    """
    if error in NEVER_SENT:
        return Judged(Outcome.REFUSED, Reason(error))
    if error == Reason.DNS_NXDOMAIN:
        return Judged(Outcome.FAILED, Reason.DNS_NXDOMAIN, "the host name does not exist")
    return None
