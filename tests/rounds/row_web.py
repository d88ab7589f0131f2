"""A small web of scripted answers and a crawl of it in this process, for tests of single rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crawlkit.config import parse_config
from crawlkit.control.commands import run_command
from crawlkit.crawl.state import Crawl
from crawlkit.local.web_server import Reply, Request, WebServer
from crawlkit.round.drive import run_round
from crawlkit.round.job import Job

EPOCH, DAY_S = 1_767_225_600.0, 86_400.0  # 2026-01-01
HTML = [("Content-Type", "text/html")]
Script = Callable[[Request], Reply]


def page(title: str, text: str = "", head: str = "", *headers: tuple[str, str]) -> Reply:
    """A page of its own words, with `text` as HTML in its body."""
    words = f"The page about {title} has words of its own, {title} from its start to its end."
    body = f"<!doctype html><title>{title}</title>{head}<p>{words}</p>{text}"
    return Reply(200, [*HTML, *headers], body.encode())


class RowWeb:
    """Hosts on loopback, each with pages by URL; what has none is 404.

    pages: URL -> reply, or a function of the request. log: URLs in the order of their requests.
    """

    def __init__(self, folder: Path, hosts: dict[str, str], on: dict[str, Any], **settings: Any):
        self.folder, self.on, self.settings = folder, on, settings
        self.hosts = hosts
        self.pages: dict[str, Reply | Script] = {}
        self.log: list[str] = []
        self.requests: list[Request] = []
        self.server = WebServer(hosts.values(), self._answer)

    def _answer(self, request: Request) -> Reply:
        url = f"http://{request.host}{request.target}"
        self.log.append(url)
        self.requests.append(request)
        found = self.pages.get(url, Reply(404, HTML, b"<title>none</title>"))
        return found if isinstance(found, Reply) else found(request)

    def __enter__(self) -> RowWeb:
        self.server.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.stop()

    def cfg_keys(self, **changes: Any) -> dict[str, Any]:
        """The settings by key, with some changed (`section__key`)."""
        keys = {
            "agent.name": "crawlkit-test",
            "fetch.connect_to": {h: f"{a}:{self.server.port}" for h, a in self.hosts.items()},
            "fetch.allow_private": ["127.0.0.0/8"],
            "fetch.ports": [80, 443, self.server.port],
            "politeness.delay_s": 0.02,
            "politeness.domain_delay_s": 0.01,
            "politeness.ip_delay_s": 0.01,
            "frontier.explore": 0,
            "frontier.guess_sitemap": False,
            "scope.any": True,
        }
        for name, value in {**self.settings, **changes}.items():
            keys[name.replace("__", ".")] = value
        return keys

    def cfg(self, **changes: Any) -> Any:
        """The settings, with some changed (`section__key`)."""
        keys = self.cfg_keys(**changes)
        return parse_config("", "test", tuple(f"{k}={json.dumps(v)}" for k, v in keys.items()))

    def job(self, **changes: Any) -> Job:
        """The crawl, opened."""
        return Job(Crawl(self.folder, self.cfg(**changes)), quick=True, **self.on)

    def give(self, verb: str, **given: Any) -> dict[str, Any]:
        """An operator's command."""
        return run_command(self.job().crawl, verb, given, actor="test")

    def run(self, now: float, seeds: list[str] | None = None, **changes: Any) -> Job:
        """One round at a nominal time."""
        job = self.job(**changes)
        round_ = job.crawl.open_round(now)
        if seeds:
            job.run("inject", round_, force=True, lines=seeds)
        run_round(job, round_)
        return job

    def rows(self, table: str, *columns: str, key: str = "url") -> dict[str, dict[str, Any]]:
        """Rows of a table by one column; of several the last one counts."""
        names = [key, *(c for c in columns if c != key)]
        return {r[key]: r for r in self.job().tables.rows(table, names)}
