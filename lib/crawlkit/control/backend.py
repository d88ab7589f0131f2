"""What the control API's routes work with: the crawl, and who sends a command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from crawlkit.config import Config
from crawlkit.control import responses as views
from crawlkit.control.commands import run_command
from crawlkit.control.forms import CommandId, DryRun, HostBody
from crawlkit.crawl.state import Crawl, Place
from crawlkit.rules.frontier.command_rules import host_name
from crawlkit.rules.url.domains import registered_domain


@dataclass(frozen=True)
class Sender:
    """Who sends a command, under which id, and whether it is only a trial."""

    actor: str
    command_id: str | None
    dry_run: bool


async def sender_of(
    request: Request, command_id: CommandId = None, dry_run: DryRun = False
) -> Sender:
    """The sender of a request's command, from its header and query."""
    host = request.client.host if request.client else "unknown"
    return Sender(f"api:{host}", command_id, dry_run)


FromSender = Annotated[Sender, Depends(sender_of)]


class Backend:
    """The crawl behind the routes, opened again for each request: nothing is kept but figures."""

    def __init__(self, data: Place, cfg: Config, token: str, figures_age_s: float) -> None:
        self._data = data
        self.cfg = cfg
        self.token = token
        self._figures = views.Cached(lambda: views.table_figures(data, cfg), figures_age_s)

    def crawl(self) -> Crawl:
        """The crawl as it is now. Raises CrawlError."""
        return Crawl(self._data, self.cfg)

    def run(self, verb: str, arguments: Mapping[str, Any], sender: Sender) -> dict[str, Any]:
        """Run an operator command. Raises what run_command raises."""
        return run_command(
            self.crawl(),
            verb,
            arguments,
            actor=sender.actor,
            command_id=sender.command_id,
            dry_run=sender.dry_run,
        )

    def status(self) -> dict[str, Any]:
        """The crawl's status, with table figures that may be some seconds old."""
        return views.status(self._data, self.cfg, self._figures())


async def backend_of(request: Request) -> Backend:
    """The backend that the application was made with."""
    return request.app.state.backend


FromApp = Annotated[Backend, Depends(backend_of)]


def host_arguments(body: HostBody) -> dict[str, Any]:
    """host or domain of a body, and the rest; a `domain` that is one host's name is that host."""
    arguments = {k: v for k, v in body.model_dump().items() if v is not None}
    if "domain" in arguments and "host" not in arguments:
        name = host_name(arguments["domain"], "domain")
        if registered_domain(name) != name:
            arguments["host"] = arguments.pop("domain")
    return arguments
