"""Routes of the control API that show the crawl; they change nothing."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse

from crawlkit.control import responses as views
from crawlkit.control.backend import FromApp
from crawlkit.control.forms import HostName, Limit, Offset
from crawlkit.control.param_rules import list_rules
from crawlkit.observe.explain import explain
from crawlkit.report.metrics import current_text
from crawlkit.rules.frontier.command_rules import host_name

router = APIRouter(prefix="/v1", tags=["see"])
Url = Annotated[str, Query(max_length=65_536)]
OfHost = Annotated[str | None, Query(max_length=300)]


def page_of(items: list[dict[str, Any]], offset: int, limit: int) -> dict[str, Any]:
    """One page of a list; `items` holds one more than `limit` if there are more."""
    return {"items": items[:limit], "next_offset": offset + limit if len(items) > limit else None}


@router.get("/status")
def status_(app: FromApp) -> dict[str, Any]:
    """Open rounds with their progress, URLs by state, rate, errors."""
    return app.status()


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(app: FromApp) -> str:
    """The newest round's metrics and the alerts as Prometheus text."""
    return current_text(app.crawl())


@router.get("/alerts")
def alerts(app: FromApp) -> dict[str, Any]:
    """Every alert rule and its state."""
    return views.alerts(app.crawl())


@router.get("/explain")
def explain_(app: FromApp, url: Url) -> dict[str, Any]:
    """Everything known of a URL, and why it was not fetched."""
    return explain(app.crawl(), url)


@router.get("/rounds")
def rounds(app: FromApp, offset: Offset = 0, limit: Limit = 50) -> dict[str, Any]:
    """Rounds, newest first."""
    return page_of(views.rounds(app.crawl(), offset, limit + 1), offset, limit)


@router.get("/errors")
def errors(
    app: FromApp, offset: Offset = 0, limit: Limit = 100, host: OfHost = None
) -> dict[str, Any]:
    """Failed requests, newest round first."""
    name = None if host is None else host_name(host)
    return page_of(views.errors(app.crawl(), offset, limit + 1, name), offset, limit)


@router.get("/cdx")
def cdx(app: FromApp, url: Url, offset: Offset = 0, limit: Limit = 100) -> dict[str, Any]:
    """Stored records of a URL, oldest first."""
    return page_of(views.cdx(app.crawl(), url, offset, limit + 1), offset, limit)


@router.get("/commands")
def commands(app: FromApp, offset: Offset = 0, limit: Limit = 100) -> dict[str, Any]:
    """The operators' commands, newest first."""
    return page_of(views.commands(app.crawl(), offset, limit + 1), offset, limit)


@router.get("/params")
def params(app: FromApp) -> dict[str, Any]:
    """Rules about query parameters: those that pages propose, and those in force."""
    return {"items": list_rules(app.crawl())}


@router.get("/hosts/{host}/policy")
def policy(app: FromApp, host: HostName) -> dict[str, Any]:
    """What operators have ordered for a host, and the delay in force."""
    return views.host_policy(app.crawl(), host_name(host))
