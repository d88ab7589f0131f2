"""The right answer: which URLs a crawl of the web knows after some rounds, in which state, fetched
when.

The model is described in the package's docstring. It is a plain simulation of rounds over the plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.fakeweb.plan import DAY_S, EPOCH, MAX_BODY_BYTES, FakeWeb, Link, Page


def every(step_s: float, rounds: int, start: float = EPOCH) -> tuple[float, ...]:
    """`now` of each of so many rounds."""
    return tuple(start + step_s * k for k in range(rounds))


@dataclass(frozen=True)
class Policy:
    """What the crawler is set to, and the choices that the standards leave to it.

    nows: the `--now` of each round, Unix s; the server's day in a round is the day of its now.
    revisit: fetched, redirected and skipped URLs are due again after their interval (False: never).
    Other times in s. The `*_state` values name the state in which such a URL rests.
    """

    nows: tuple[float, ...] = every(600, 20)
    max_depth: int = 15
    max_redirects: int = 10
    retry_delays_s: tuple[float, ...] = (30.0, 120.0, 300.0)
    forbidden_s: float = 7 * DAY_S
    robots_ttl_s: float = DAY_S  # by the same clock as nows
    revisit: bool = True
    conditional: bool = True
    interval_s: float = DAY_S
    floor_s: float = DAY_S
    ceiling_s: float = 30 * DAY_S
    changed_factor: float = 0.5
    unchanged_factor: float = 1.5
    unreadable_state: str = "queued"  # robots 5xx or 429
    unreachable_state: str = "queued"  # refused connections: robots.txt cannot be had
    forbidden_state: str = "retrying"  # 403, until it is tried again
    given_up_state: str = (
        "retrying"  # after the last retry; due again after the interval (None if the state is dead)
    )
    malformed_state: str = "dead"  # an answer that is no HTTP
    chain_end_state: str = "dead"  # the redirect after max_redirects
    binary_state: str = "refused"  # content type that is not read


@dataclass
class Row:
    """A URL that the crawl knows.

    Rounds count from 1; `times` are the rounds in which it was requested.
    """

    url: str
    depth: int
    found_round: int  # 0: a seed
    parent: str | None
    state: str = "queued"
    next_fetch: float | None = None  # Unix s; None: never again
    interval_s: float | None = None
    status: int | None = None  # of the last answer
    times: list[int] = field(default_factory=list)
    first_fetched: int | None = None  # round of the first stored page
    last_fetched: int | None = None  # round of the last 200 or 304
    n_change: int = 0
    n_unchanged: int = 0
    failures: int = 0
    hops: int = 0  # redirects that led here
    has_text: bool = False
    truncated: str | None = None  # length, disconnect
    text_version: int | None = None
    body_version: tuple[int, int] | None = None
    low_depth: int = 0  # lowest depth at which it was ever found


@dataclass
class Expected:
    """The state after the last round.

    rows: every known URL. refused: URLs found but not let in, with the plan's word for why (and
        depth).
    requests: per round, page URL -> status (None: a fault). clusters: sets of two and more pages
        with text, alike by
    equal text or by a planned near pair. apart: pairs that must not share a cluster.
    """

    rows: dict[str, Row]
    refused: dict[str, str]
    requests: list[dict[str, int | None]]
    clusters: list[frozenset[str]]
    apart: list[tuple[str, str]]

    def states(self) -> dict[str, str]:
        return {u: r.state for u, r in self.rows.items()}


def expected(web: FakeWeb, policy: Policy = Policy()) -> Expected:
    """Simulate the rounds of `policy.nows`. Pure."""
    walk = _Walk(web, policy)
    for url in web.seeds:
        walk.find(url, None, 0, 0, policy.nows[0], 0)
    for number, now in enumerate(policy.nows, 1):
        walk.round(number, now)
    day = int((policy.nows[-1] - EPOCH) // DAY_S)
    return Expected(
        walk.rows,
        walk.refused,
        walk.requests,
        _clusters(web, walk.rows, day),
        [(a, b) for a, b, _ in web.far],
    )


class _Walk:
    def __init__(self, web: FakeWeb, policy: Policy) -> None:
        self.web, self.policy = web, policy
        self.rows: dict[str, Row] = {}
        self.refused: dict[str, str] = {}
        self.requests: list[dict[str, int | None]] = []
        self.asked: defaultdict[str, int] = defaultdict(int)
        self.robots: dict[str, tuple[float, int]] = {}  # host -> read at, day

    def find(
        self, url: str, parent: str | None, depth: int, number: int, now: float, hops: int
    ) -> None:
        if row := self.rows.get(url):
            row.low_depth = min(row.low_depth, depth)
        elif depth > self.policy.max_depth:
            self.refused[url] = "depth"
        else:
            self.rows[url] = Row(
                url, depth, number, parent, next_fetch=now, hops=hops, low_depth=depth
            )
            self.refused.pop(url, None)

    def round(self, number: int, now: float) -> None:
        sent: dict[str, int | None] = {}
        day = int((now - EPOCH) // DAY_S)
        for row in [
            r for r in self.rows.values() if r.next_fetch is not None and r.next_fetch <= now
        ]:
            host = self.web.hosts.get(row.url.split("/")[2])
            if (
                host is None
            ):  # the name does not exist: that is known at once, and tried again like any failure
                self._fail(row, 0, now)
            elif not host.listening:
                row.state = self.policy.unreachable_state
            elif not host.robots.readable:
                row.state = self.policy.unreadable_state
            elif self.web.allowed(row.url, self._robots_day(host.name, now, day)) is False:
                row.state, row.next_fetch = "robots_skipped", self._again(now)
            else:
                sent[row.url] = self._fetch(row, number, now, day)
        self.requests.append(sent)

    def _robots_day(self, host: str, now: float, day: int) -> int:
        at, read = self.robots.get(host, (None, day))
        if at is None or now - at >= self.policy.robots_ttl_s:
            self.robots[host] = (now, day)
            read = day
        return read

    def _fetch(self, row: Row, number: int, now: float, day: int) -> int | None:
        policy, page = self.policy, self.web.page(row.url)
        row.times.append(number)
        times = self.asked[row.url]
        self.asked[row.url] += 1
        if page is None:
            status: int | None = 404
        elif page.fault in ("reset", "garbage", "stall"):
            status = None
        else:
            status = (
                200
                if page.recovers_after is not None and times >= page.recovers_after
                else page.status
            )
        row.status = status
        if status == 200 and page.content_type == "image/png":
            row.state, row.next_fetch = policy.binary_state, None
        elif status == 200:
            return self._store(row, page, number, now, day)
        elif page is not None and page.to:
            if row.hops >= policy.max_redirects:
                row.state, row.next_fetch = policy.chain_end_state, None
            else:
                row.state, row.interval_s, row.next_fetch = (
                    "redirected",
                    self._initial(),
                    self._again(now),
                )
                self.find(page.to, row.url, row.depth, number, now, row.hops + 1)
        elif status == 403:
            row.state, row.next_fetch = policy.forbidden_state, now + policy.forbidden_s
        elif status == 429:
            row.state, row.next_fetch = (
                "retrying",
                now + max(page.retry_after_s or 0, policy.retry_delays_s[0]),
            )
        elif page is not None and page.fault == "garbage":
            row.state, row.next_fetch = policy.malformed_state, None
        elif status is None or status >= 500 or status == 408:
            self._fail(row, page.retry_after_s or 0, now)
        else:
            row.state, row.next_fetch = "dead", None
        return status

    def _initial(self) -> float:
        return min(max(self.policy.interval_s, self.policy.floor_s), self.policy.ceiling_s)

    def _again(self, now: float) -> float | None:
        return now + self._initial() if self.policy.revisit else None

    def _fail(self, row: Row, retry_after_s: float, now: float) -> None:
        policy = self.policy
        row.failures += 1
        if row.failures > len(policy.retry_delays_s):
            row.state = policy.given_up_state
            row.next_fetch = None if row.state == "dead" else self._again(now)
        else:
            wait = max(policy.retry_delays_s[row.failures - 1], retry_after_s)
            row.state, row.next_fetch = "retrying", now + wait

    def _store(self, row: Row, page: Page, number: int, now: float, day: int) -> int:
        policy, version = self.policy, page.version(day)
        body = (version, day if page.churn else 0)
        same_body, same_text = body == row.body_version, version == row.text_version
        status = 304 if policy.conditional and page.validators and same_body else 200
        row.state, row.failures, row.last_fetched = "fetched", 0, number
        if row.first_fetched is None:
            row.first_fetched, row.interval_s = number, self._initial()
        else:
            # changed means another text, or another body where no text is kept; a cut body proves
            # nothing
            same = None if row.truncated else same_body if page.noindex else same_text
            row.n_unchanged += same is True
            row.n_change += same is False
            factor = (
                1.0 if same is None else policy.unchanged_factor if same else policy.changed_factor
            )
            row.interval_s = min(max(row.interval_s * factor, policy.floor_s), policy.ceiling_s)
        row.status, row.text_version, row.body_version = status, version, body
        row.next_fetch = now + row.interval_s if policy.revisit else None
        row.has_text = not page.noindex
        row.truncated = (
            "disconnect"
            if page.fault == "cut"
            else "length"
            if page.pad_bytes > MAX_BODY_BYTES
            else None
        )
        if status == 200:
            for link in page.links:
                self._follow(row, page, link, number, now)
        return status

    def _follow(self, row: Row, page: Page, link: Link, number: int, now: float) -> None:
        why = link.why or ("nofollow" if page.nofollow else None)
        if why is None:
            self.find(link.to, row.url, row.depth + 1, number, now, 0)
        elif why not in ("ghost", "unusable") and link.to not in self.rows:
            self.refused[link.to] = why


def _clusters(web: FakeWeb, rows: Mapping[str, Row], day: int) -> list[frozenset[str]]:
    """Components of the pages with text under equal text, planned near pairs (text as of the
    version fetched), and of redirects and their targets.
    """
    texts: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
    for row in rows.values():
        if row.state == "fetched" and row.has_text and (page := web.page(row.url)) is not None:
            fetched_day = (row.text_version or 0) * page.every_days
            texts[tuple(page.text(fetched_day))].append(row.url)
    groups = [set(urls) for urls in texts.values()]
    grouped = {url for urls in groups for url in urls}
    kept = {u for u, r in rows.items() if r.state in ("fetched", "redirected")}
    groups += [{url} for url in kept - grouped]
    leads = ((u, web.page(u)) for u in kept if rows[u].state == "redirected")
    moved = [(u, page.to) for u, page in leads if page is not None and page.to in kept]
    for a, b in [*((a, b) for a, b, _ in web.near), *moved]:
        left = next((g for g in groups if a in g), None)
        right = next((g for g in groups if b in g), None)
        if left is not None and right is not None and left is not right:
            left |= right
            groups.remove(right)
    return sorted((frozenset(g) for g in groups if len(g) > 1), key=min)


def differences(
    answer: Expected,
    found: Mapping[str, Mapping[str, object]],
    columns: Iterable[str] = ("state", "depth"),
) -> list[str]:
    """What a crawl's table says otherwise: `found` maps canonical URL to its columns.

    Empty: all equal.
    """
    out = [
        f"missing: {u} ({r.state}, found in round {r.found_round} on {r.parent})"
        for u, r in answer.rows.items()
        if u not in found
    ]
    out += [f"not expected: {u} ({dict(found[u])})" for u in found if u not in answer.rows]
    for url in answer.rows.keys() & found.keys():
        for column in columns:
            want, got = getattr(answer.rows[url], column), found[url].get(column)
            if want != got:
                out.append(f"{column}: {url} is {got!r}, right is {want!r}")
    return sorted(out)
