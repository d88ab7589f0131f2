"""A web of given answers, crawled with the product's own decisions: for the topics robots-fetch and
redirect-chains.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crawlkit.config import Agent, Config, Robots
from crawlkit.model import Answer
from crawlkit.outcomes import Reason
from crawlkit.parsing.discovery import ParseRules, add_links, new_result
from crawlkit.rules.http.redirects import redirect
from crawlkit.rules.page.links import Link
from crawlkit.rules.robots.fetching import RobotsFetch, RobotsVerdict, robots_url
from crawlkit.rules.url.canonical import UrlPolicy, canonicalize, url_key

NOW = 1_700_000_000.0
AS_SENT = UrlPolicy(remove_session=False)
ERRORS = {
    "timeout": Reason.TIMEOUT,
    "refused": Reason.CONNECT_REFUSED,
    "dns": Reason.DNS_NXDOMAIN,
    "hang": Reason.READ_STALLED,
}


@dataclass
class WebLoop:
    """Requests made (`requested`), their answers (`records`) and agents, verdicts by origin, and
    flags.
    """

    web: dict[str, Any]
    requested: list[str] = field(default_factory=list)
    records: list[list[Any]] = field(default_factory=list)
    user_agents: set[str] = field(default_factory=set)
    verdicts: dict[str, RobotsVerdict] = field(default_factory=dict)
    flag: str | None = None
    known: bool = True  # every refusal had a reason

    def __post_init__(self) -> None:
        self.web = {canonicalize(url, None, AS_SENT): given for url, given in self.web.items()}

    def get(self, url: str) -> Answer:
        given = self.web.get(url, {"status": 404})
        headers = given.get("headers") or []
        headers = [
            (str(k), str(v))
            for k, v in (headers.items() if isinstance(headers, Mapping) else headers)
        ]
        body = (
            base64.b64decode(given["body_b64"])
            if "body_b64" in given
            else (given.get("body") or "").encode()
        )
        error = ERRORS.get(given["error"], Reason.CONNECT_FAIL) if given.get("error") else None
        answer = Answer(
            url,
            None if error else given.get("status", 200),
            headers=headers,
            body=body,
            error=error,
        )
        self.requested.append(url)
        self.records.append([url, answer.status])
        self.user_agents.add(Agent().user_agent)
        return answer

    def verdict(self, page: str) -> RobotsVerdict:
        origin = robots_url(page)
        if origin not in self.verdicts:
            fetch = RobotsFetch(page, Robots())
            while (url := fetch.next_request()) is not None:
                answer = self.get(url)
                fetch.receive(
                    NOW, answer.status, answer.headers, answer.body, answer.error, answer.truncated
                )
            assert fetch.verdict is not None
            self.verdicts[origin] = fetch.verdict
        return self.verdicts[origin]

    def crawl(self, page: str) -> str:
        """The decision on a page; if it is in the web, it is fetched, and so are its hops: each as
        a page of its own.
        """
        page = canonicalize(page, None, AS_SENT)
        decision = self.decide(page)
        known: set[str] = set()  # as in a frontier, a known URL is not fetched again
        while page in self.web and page not in known and self.decide(page) == "allow":
            answer = self.get(page)
            hop = redirect(page, answer.status or 0, answer.header("location"), AS_SENT)
            refusal = hop.reason or refusal_of_hop(page, hop.target, len(known))
            known.add(page)
            if refusal is Reason.REDIRECT_TOO_LONG:
                self.flag = "redirect_chain_too_long"
            elif refusal:
                self.flag = str(refusal)
            if refusal or hop.target is None:
                break
            page = hop.target
        return decision

    def decide(self, page: str) -> str:
        verdict = self.verdict(page)
        match = verdict.match(Agent().name, page)
        if match is None:
            self.known &= verdict.reason is not None
            return "defer"
        self.known &= match.allowed or match.line is not None
        return "allow" if match.allowed else "deny"


def refusal_of_hop(page: str, target: str | None, hops: int) -> Reason | None:
    """Why parse does not let a redirect's target into the frontier; hops: that led to `page`."""
    if target is None:
        return None
    item = {"url_key": url_key(page), "url": page, "kind": "page", "quality": 1.0}
    out = new_result("")
    link = Link("redirect", target)
    add_links(out, item | {"depth": 0, "redirects": hops}, [link], ParseRules(Config(), NOW))
    return out["links"][0][-2]
