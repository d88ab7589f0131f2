"""robots.txt in a slot: what is known of each origin, the request that comes next, and who waits for it. No IO here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from crawlkit.config import Config
from crawlkit.outcomes import Reason
from crawlkit.records import Answer, FetchItem, RobotsCopy
from crawlkit.rules.addresses import Network
from crawlkit.rules.answers import NEVER_SENT
from crawlkit.rules.content_coding import decode_content
from crawlkit.rules.robots_fetch import RobotsFetch, RobotsVerdict, robots_url, stored
from crawlkit.rules.urls import host_of


@dataclass(slots=True, eq=False)
class Origin:
    """One scheme, host and port. `waiting`: pages that may not be asked for before the verdict is there."""

    name: str  # scheme://host[:port]
    host: str
    item: FetchItem | None = None  # its robots row, until that has an outcome
    fetch: RobotsFetch | None = None  # under way
    verdict: RobotsVerdict | None = None
    is_ours: bool = False  # the verdict was fetched by this attempt
    waiting: list[FetchItem] = field(default_factory=list)

    def usable(self, now: float) -> bool:
        """Whether the verdict holds now. One that this attempt fetched holds to its end: the round is short."""
        return self.verdict is not None and (self.is_ours or now < self.verdict.expires_at)


class Origins:
    """All origins of a slot."""

    def __init__(self, cfg: Config, allow: Sequence[Network], owns: Callable[[str], bool]) -> None:
        self._cfg, self._allow, self._owns = cfg, allow, owns
        self._origins: dict[str, Origin] = {}
        self._of_host: dict[str, list[Origin]] = {}

    def __getitem__(self, name: str) -> Origin:
        origin = self._origins.get(name)
        if origin is None:
            origin = self._origins[name] = Origin(name, host_of(name + "/"))
            self._of_host.setdefault(origin.host, []).append(origin)
        return origin

    def all(self) -> list[Origin]:
        return list(self._origins.values())

    def load(self, origin: Origin, now: float, item: FetchItem | None, copy: RobotsCopy | None) -> None:
        """Take the copy of an earlier attempt, else the one of an earlier round, if it is fresh."""
        if copy is not None:
            origin.verdict = stored(origin.name, now, self._cfg.robots, copy.status, copy.body, copy.fetched_at, copy.expires_at)
        if origin.verdict is None and item is not None:
            origin.verdict = stored(origin.name, now, self._cfg.robots, item.robots_status, item.robots_body, item.robots_fetched_at, item.robots_expires_at)

    def begin(self, origin: Origin) -> str:
        """Start asking; the first address."""
        origin.verdict = None
        origin.fetch = RobotsFetch(origin.name + "/", self._cfg.robots, self._allow, self._owns)
        return robots_url(origin.name + "/")

    def receive(self, origin: Origin, now: float, answer: Answer) -> str | None:
        """Take the answer to the last request; the next address, or None: `origin.verdict` is there."""
        body, error = answer.body, answer.error
        if answer.status is not None and 200 <= answer.status < 300:
            body, error = decode_content(answer.headers, body, self._cfg.robots.max_bytes + 1), None
            if body is None:
                body, error = b"", Reason.CONTENT_ENCODING
        origin.fetch.receive(now, answer.status, answer.headers, body, error, answer.truncated)
        url = origin.fetch.next_request()
        if url is None:
            origin.verdict, origin.fetch, origin.is_ours = origin.fetch.verdict, None, True
        return url

    def crawl_delay_s(self, host: str) -> float | None:
        """The longest Crawl-delay for us among the host's readable robots files."""
        verdicts = [o.verdict for o in self._of_host.get(host, ()) if o.verdict is not None and o.verdict.kind != "defer"]
        return max((d for v in verdicts if (d := v.robots.crawl_delay_s(self._cfg.agent.name)) is not None), default=None)


def copy_of(origin: Origin) -> RobotsCopy | None:
    """The verdict as a row of `robots`; None if nobody was asked (a hop of another task's, or the guard's refusal)."""
    v = origin.verdict
    if v.reason is Reason.ROBOTS_FOREIGN_HOST or v.error in NEVER_SENT:
        return None
    # a 2xx whose body broke off says nothing: kept as unreachable, or it would be read as "no rules" later
    status = None if v.kind == "defer" and v.status is not None and v.status < 400 else v.status
    return RobotsCopy(origin.name, origin.host, v.fetched_at, status, None if v.error is None else str(v.error), v.final_url, v.body, v.expires_at)
