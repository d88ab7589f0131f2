"""robots.txt in a slot: what is known of each origin, and which pages wait. No IO here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from crawlkit.config import Config
from crawlkit.model import Answer, Capture, FetchItem, RobotsCopy
from crawlkit.outcomes import Outcome, Reason
from crawlkit.rules.frontier.fetch_outcome import Judged, refused_by_robots_error
from crawlkit.rules.http.content_coding import Decoded, decode_body
from crawlkit.rules.http.visit import Sent
from crawlkit.rules.robots.fetching import RobotsFetch, RobotsVerdict, fresh_verdict, robots_url
from crawlkit.rules.url.canonical import host_of
from crawlkit.rules.url.ip_ranges import Network


@dataclass(slots=True, eq=False)
class Origin:
    """One scheme, host and port.

    `waiting`: pages that may not be requested before the verdict is known.
    """

    name: str  # scheme://host[:port]
    host: str
    item: FetchItem | None = None  # its robots row, until that has an outcome
    fetch: RobotsFetch | None = None  # under way
    verdict: RobotsVerdict | None = None
    refusal: Judged | None = None  # it could not be requested: the outcome of its pages
    is_ours: bool = False  # the verdict was fetched by this attempt
    waiting: list[PageJob | SubJob] = field(default_factory=list)

    def usable(self, now: float) -> bool:
        """Whether the verdict holds now.

        One that this attempt fetched holds to its end: the round is short.
        """
        return self.verdict is not None and (self.is_ours or now < self.verdict.expires_at)

    def give_up(self) -> list[PageJob | SubJob]:
        """Stop asking; the jobs that have no outcome because of it, its robots row as the first."""
        jobs = [*([PageJob(self.item, self)] if self.item else []), *self.waiting]
        self.fetch = None
        self.item = None
        self.waiting = []
        return jobs

    @property
    def known(self) -> RobotsVerdict:
        """The verdict, once there is one."""
        assert self.verdict is not None
        return self.verdict


@dataclass(slots=True, eq=False)
class PageJob:
    """A planned page (or sitemap, feed ...).

    `sent`: the requests of this visit, whose last one is to be sent now; none yet: the row's own.
    """

    item: FetchItem
    origin: Origin
    sent: tuple[Sent, ...] = ()
    is_page = True

    @property
    def url(self) -> str:
        """What is requested."""
        return self.sent[-1].url if self.sent else self.item.sent_url or self.item.url


@dataclass(slots=True, eq=False)
class SubJob:
    """A request of a page that is rendered; without one (`is_gate`) what robots.txt says of it.

    `done`: the answer, or why there is none; of a gate None if its URL may be fetched. `capture`:
    of the answer.
    """

    item: FetchItem  # kind subresource; of a gate the page's own
    origin: Origin
    is_gate: bool = False
    capture: Capture | None = None
    done: asyncio.Future[Answer | Judged | None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    is_page = False

    @property
    def url(self) -> str:
        """What is requested."""
        return self.item.url

    def end(self, result: Answer | Judged | None) -> None:
        """Tell who waits for it, if anybody still does."""
        if not self.done.done():
            self.done.set_result(result)


@dataclass(slots=True, eq=False)
class RobotsJob:
    """The next request for an origin's robots.txt."""

    origin: Origin
    url: str
    is_page = False


class Origins:
    """All origins of a slot."""

    def __init__(self, cfg: Config, allow: Sequence[Network], owns: Callable[[str], bool]) -> None:
        self._cfg = cfg
        self._allow = allow
        self._owns = owns
        self._origins: dict[str, Origin] = {}
        self._of_host: dict[str, list[Origin]] = {}

    def __getitem__(self, name: str) -> Origin:
        origin = self._origins.get(name)
        if origin is None:
            origin = self._origins[name] = Origin(name, host_of(name + "/"))
            self._of_host.setdefault(origin.host, []).append(origin)
        return origin

    def load(
        self, origin: Origin, now: float, item: FetchItem | None, copy: RobotsCopy | None
    ) -> None:
        """Take the copy of an earlier attempt, else the one of an earlier round, if it is fresh."""
        if copy is not None:
            origin.verdict = fresh_verdict(
                origin.name,
                now,
                self._cfg.robots,
                copy.status,
                copy.body,
                copy.fetched_at,
                copy.expires_at,
            )
        if origin.verdict is None and item is not None:
            origin.verdict = fresh_verdict(
                origin.name,
                now,
                self._cfg.robots,
                item.robots_status,
                item.robots_body,
                item.robots_fetched_at,
                item.robots_expires_at,
            )

    def begin(self, origin: Origin) -> str:
        """Start asking; the first address."""
        origin.verdict = None
        origin.fetch = RobotsFetch(origin.name + "/", self._cfg.robots, self._allow, self._owns)
        return robots_url(origin.name + "/")

    def receive(self, origin: Origin, now: float, answer: Answer) -> str | None:
        """Take the answer to the last request; the next URL, or None: `origin.verdict` is known."""
        body = decode_answer(answer, self._cfg.robots.max_bytes + 1)
        error = Reason.CONTENT_ENCODING if body.error and not answer.truncated else answer.error
        status = answer.status if answer.error is None else answer.broken_status
        assert origin.fetch is not None
        origin.fetch.receive(
            now, status, answer.headers, body.body, error, answer.truncated or body.truncated
        )
        url = origin.fetch.next_request()
        if answer.url == robots_url(origin.name + "/"):
            origin.refusal = refused_by_robots_error(answer.error)
        if url is None:
            origin.verdict = origin.fetch.verdict
            origin.fetch = None
            origin.is_ours = True
        return url

    def crawl_delay_s(self, host: str, before: float | None) -> float | None:
        """The longest Crawl-delay for us among the host's robots files, in s.

        `before` if all of them are unavailable.
        """
        read = [
            o.verdict.robots
            for o in self._of_host.get(host, ())
            if o.verdict is not None and o.verdict.kind != "defer"
        ]
        delays = [robots.crawl_delay_s(self._cfg.agent.name) for robots in read]
        return max((d for d in delays if d is not None), default=None) if read else before


def decode_answer(answer: Answer, limit_bytes: int) -> Decoded:
    """The payload without its content codings."""
    return decode_body(answer.body, answer.headers, limit_bytes)


def copy_of(origin: Origin) -> RobotsCopy | None:
    """The verdict as a row of `robots`; None if no request was sent.

    None is sent if the guard refuses, or if there is no such name.
    """
    v = origin.known
    if origin.refusal is not None:
        return None
    # a 2xx whose body broke off is no answer: kept as unreachable, or it would be read as "no
    # rules" later
    status = None if v.kind == "defer" and v.status is not None and v.status < 400 else v.status
    return RobotsCopy(
        origin.name,
        origin.host,
        v.fetched_at,
        status,
        None if v.error is None else str(v.error),
        v.final_url,
        v.body,
        v.expires_at,
        leads_to=list(v.leads_to),
    )


def no_robots(origin: Origin) -> Judged:
    """The outcome of the pages of an origin whose verdict is a deferral."""
    v = origin.known
    return origin.refusal or Judged(
        Outcome.DEFERRED,
        v.reason or Reason.ROBOTS_UNREACHABLE,
        None if v.error is None else str(v.error),
    )
