"""Fetching robots.txt: which requests to make, and what the answers allow (RFC 9309 2.3;
docs/rules/robots.md).

No IO here. Whoever has the network drives it:

    fetch = RobotsFetch(page_url, config.robots)
    while (url := fetch.next_request()) is not None:
        answer = ...send GET url, reading at most config.robots.max_bytes + 1 bytes of the body...
        fetch.receive(now, answer.status, answer.headers, body, answer.error, answer.truncated)
    verdict = fetch.verdict
    match = verdict.match(agent, page_url)  # None: not now

`body` is decoded (no Content-Encoding); a body that cannot be decoded is
`error=Reason.CONTENT_ENCODING`. A refusal of the guard is an error like any other. A copy kept from
an earlier round becomes a verdict by `fresh_verdict`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from crawlkit.config import Robots as RobotsConfig
from crawlkit.outcomes import Reason
from crawlkit.rules.http.fresh_until import max_age_s
from crawlkit.rules.http.redirects import FOLLOWED, redirect
from crawlkit.rules.http.retry_after import retry_after_s
from crawlkit.rules.robots.parser import Match, Robots, parse
from crawlkit.rules.url.canonical import UrlPolicy, host_of, origin_of
from crawlkit.rules.url.domains import registered_domain
from crawlkit.rules.url.ip_ranges import Network

MAX_RETRY_AFTER_S = 86_400.0
_AS_SENT = UrlPolicy(remove_session=False)  # a hop is followed as it was sent


@dataclass(frozen=True, slots=True)
class RobotsVerdict:
    """What one origin's robots.txt says, until `expires_at` (Unix s).

    kind: `rules` (2xx: `robots` holds them), `allow_all` (unavailable: 4xx, or too many hops),
    `defer` (unreachable, or 429: nothing may be fetched; to be asked again at `expires_at`).
    `status` is the last hop's (None: no answer), `error` a Reason value, `reason` why it is no
    `rules`. `leads_to`: origins of other registered domains to which redirects led.
    """

    kind: Literal["rules", "allow_all", "defer"]
    final_url: str
    fetched_at: float
    expires_at: float
    status: int | None = None
    error: str | None = None
    reason: Reason | None = None
    body: bytes = b""
    robots: Robots = field(default_factory=Robots)
    leads_to: tuple[str, ...] = ()

    @property
    def wait_s(self) -> float | None:
        """Seconds until robots.txt is to be asked for again, if nothing is allowed until then."""
        return self.expires_at - self.fetched_at if self.kind == "defer" else None

    def match(self, agent: str, url: str) -> Match | None:
        """Whether `agent` may fetch `url` (canonical); None: not now."""
        if self.kind == "defer":
            return None
        return self.robots.match(agent, url)


class RobotsFetch:
    """The requests for one origin's robots.txt, up to its verdict.

    Hops are followed at once, across hosts too, and the rules apply to the first origin (RFC 9309
    2.3.1.2).

    `page_url` is any canonical URL of the origin. `owns` tells whether a host is this task's own: a
    hop to another is not requested, and the verdict is a deferral with ROBOTS_FOREIGN_HOST and the
    hop as `final_url`, which expires at once: the next round owns what `leads_to` names.
    """

    def __init__(
        self,
        page_url: str,
        config: RobotsConfig,
        allow: Sequence[Network] = (),
        owns: Callable[[str], bool] = lambda host: True,
    ) -> None:
        self._config = config
        self._allow = allow
        self._owns = owns
        self._first = self._url = robots_url(page_url)
        self._hops = 0
        self._leads_to: list[str] = []
        self.verdict: RobotsVerdict | None = None

    def next_request(self) -> str | None:
        """The address to request now; None: the verdict is there."""
        return None if self.verdict else self._url

    def receive(
        self,
        now: float,
        status: int | None,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        error: str | None = None,
        truncated: str | None = None,
    ) -> None:
        """Takes the answer to the last `next_request`.

        `now` is Unix seconds; header values are Latin-1 text.
        """
        if status in FOLLOWED and not error:
            self._follow(now, status, _header(headers, "location"))
        else:
            self.verdict = verdict(
                self._url, now, self._config, status, headers, body, error, truncated
            )
        if self.verdict is not None and self._leads_to:
            self.verdict = replace(self.verdict, leads_to=tuple(self._leads_to))

    def _note_lead(self, hop: str) -> None:
        """Remember the origin of a hop to another registered domain."""
        domain = registered_domain(host_of(hop))
        is_known = origin_of(hop) in self._leads_to
        if domain != registered_domain(host_of(self._first)) and not is_known:
            self._leads_to.append(origin_of(hop))

    def _follow(self, now: float, status: int, location: str | None) -> None:
        hop = redirect(
            self._url,
            status,
            None if location is None else location.encode("latin-1", "replace"),
            _AS_SENT,
            self._allow,
        )
        if hop.reason is Reason.REDIRECT_LOOP or (
            hop.target and self._hops >= self._config.max_redirects
        ):
            # RFC 9309 2.3.1.2: after five hops a crawler may take it as unavailable.
            self.verdict = RobotsVerdict(
                "allow_all",
                self._url,
                now,
                now + self._config.ttl_s,
                status,
                reason=hop.reason or Reason.REDIRECT_TOO_LONG,
            )
        elif hop.target is None:
            self.verdict = _defer(
                self._url,
                now,
                now + self._config.retry_s,
                error=hop.reason,
                reason=Reason.ROBOTS_UNREACHABLE,
            )
        elif not self._owns(host_of(hop.target)):
            self._note_lead(hop.target)
            self.verdict = _defer(
                hop.target,
                now,
                now,
                error=Reason.ROBOTS_FOREIGN_HOST,
                reason=Reason.ROBOTS_FOREIGN_HOST,
            )
        else:
            self._note_lead(hop.target)
            self._hops += 1
            self._url = hop.target


def robots_url(page_url: str) -> str:
    """Address of the robots.txt that holds for a canonical URL: of the same scheme, host and port
    (RFC 9309 2.3).
    """
    return origin_of(page_url) + "/robots.txt"


def verdict(
    url: str,
    now: float,
    config: RobotsConfig,
    status: int | None,
    headers: Iterable[tuple[str, str]] = (),
    body: bytes = b"",
    error: str | None = None,
    truncated: str | None = None,
) -> RobotsVerdict:
    """The verdict of a last answer (RFC 9309 2.3.1): 2xx rules, 4xx none, all else nothing allowed;
    429 by setting.

    The body of an error is not looked at, whatever is wrong with it. Rules that broke off
    (`truncated` time or disconnect) are unreachable: the missing part may forbid.
    """
    headers = list(headers)
    if status is not None and 400 <= status < 500 and (status != 429 or config.on_429 == "allow"):
        return RobotsVerdict(
            "allow_all", url, now, now + config.ttl_s, status, reason=Reason.HTTP_4XX
        )
    is_whole = not error and truncated not in ("time", "disconnect")
    if status is not None and 200 <= status < 300 and is_whole:
        expires_at = now + _fresh_s(
            [value for name, value in headers if name.lower() == "cache-control"], config
        )
        return RobotsVerdict(
            "rules",
            url,
            now,
            expires_at,
            status,
            body=body[: config.max_bytes],
            robots=parse(body, config.max_bytes, truncated is not None),
        )
    return _unread(url, now, config, status, headers, error or _CUT.get(truncated or ""))


_CUT = {"disconnect": Reason.DISCONNECTED, "time": Reason.TIMEOUT}


def _unread(
    url: str,
    now: float,
    config: RobotsConfig,
    status: int | None,
    headers: list[tuple[str, str]],
    error: str | None,
) -> RobotsVerdict:
    """Nothing is allowed until the file is requested again: after its Retry-After, else
    `robots.retry_s`.
    """
    wait_s = retry_after_s(
        _header(headers, "retry-after"), now, MAX_RETRY_AFTER_S, _header(headers, "date")
    )
    until = now + (wait_s or config.retry_s)
    reason = Reason.ROBOTS_429 if status == 429 and not error else Reason.ROBOTS_UNREACHABLE
    return _defer(url, now, until, status, error, reason)


class KeptCopy(NamedTuple):
    """A robots.txt as it was fetched: `status` None: unreachable; times are Unix s."""

    origin: str
    status: int | None
    body: bytes | None
    fetched_at: float
    expires_at: float = 0.0


def verdict_of(copy: KeptCopy, config: RobotsConfig) -> RobotsVerdict:
    """What a copy says, whether or not it is still fresh: the one opinion on what could be read."""
    url, status, body = copy.origin + "/robots.txt", copy.status, copy.body or b""
    times = copy.fetched_at, copy.expires_at
    if status is not None and 200 <= status < 300:
        robots = parse(body, config.max_bytes)
        return RobotsVerdict("rules", url, *times, status, body=body, robots=robots)
    if status is not None and 300 <= status < 500 and (status != 429 or config.on_429 == "allow"):
        reason = Reason.HTTP_4XX if status >= 400 else Reason.REDIRECT_TOO_LONG
        return RobotsVerdict("allow_all", url, *times, status, reason=reason)
    reason = Reason.ROBOTS_429 if status == 429 else Reason.ROBOTS_UNREACHABLE
    return _defer(url, *times, status, reason=reason)


def fresh_verdict(
    origin: str,
    now: float,
    config: RobotsConfig,
    status: int | None,
    body: bytes | None,
    fetched_at: float | None,
    expires_at: float | None,
) -> RobotsVerdict | None:
    """The verdict of a copy from an earlier round; None: there is none that is still fresh, so ask.

    `status` None with a `fetched_at`: it was unreachable.
    """
    if fetched_at is None or expires_at is None or now >= expires_at:
        return None
    return verdict_of(KeptCopy(origin, status, body, fetched_at, expires_at), config)


def _defer(
    url: str,
    now: float,
    until: float,
    status: int | None = None,
    error: str | None = None,
    reason: Reason = Reason.ROBOTS_UNREACHABLE,
) -> RobotsVerdict:
    return RobotsVerdict("defer", url, now, until, status, error, reason)


def _fresh_s(cache_control: Sequence[str], config: RobotsConfig) -> float:
    """Seconds that a copy is used: Cache-Control (RFC 9111 5.2.2; its lines are one list) between
    min_ttl_s and ttl_s.
    """
    age_s = max_age_s(", ".join(cache_control))
    ttl_s = config.ttl_s if age_s is None else age_s
    return min(max(ttl_s, config.min_ttl_s), config.ttl_s)


def _header(headers: Iterable[tuple[str, str]], name: str) -> str | None:
    return next((value for key, value in headers if key.lower() == name), None)
