"""The control API under names that other crawlers' operators know."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from crawlkit.control.backend import FromApp, FromSender, host_arguments
from crawlkit.control.forms import (
    HostBody,
    HostName,
    PublishedPolicyBody,
    SeedsBody,
    UrlsBody,
)

router = APIRouter(tags=["aliases"])


@router.post("/api/v1/crawler/seeds")
def seeds(app: FromApp, sender: FromSender, body: SeedsBody) -> dict[str, Any]:
    """Add URLs to the frontier; how many are new."""
    result = app.run("seeds", body.model_dump(), sender)
    return {"added": result["added"], "duplicates": result["duplicates"]}


@router.get("/api/v1/crawler/status")
def crawler_status(app: FromApp) -> dict[str, Any]:
    """Queue, rate, active domains and errors."""
    s = app.status()
    return {
        "queueDepth": s["queue_depth"],
        "crawlRate": s["pages_per_s"],
        "domainsActive": s["hosts_active"],
        "errorsLastHour": s["errors_last_hour"],
        "pagesThisMonth": s["pages_this_month"],
    }


@router.post("/api/v1/crawler/blacklist")
def blacklist(app: FromApp, sender: FromSender, body: HostBody) -> dict[str, Any]:
    """Send nothing more to a host or domain."""
    return app.run("block", host_arguments(body), sender)


@router.post("/api/v1/crawler/recrawl")
def recrawl(app: FromApp, sender: FromSender, body: UrlsBody) -> dict[str, Any]:
    """Fetch URLs again in the next round."""
    return app.run("recrawl", body.model_dump(), sender)


@router.post("/seeds")
def seeds_(app: FromApp, sender: FromSender, body: SeedsBody) -> dict[str, Any]:
    """Add URLs to the frontier; how many were taken."""
    return {"queued": app.run("seeds", body.model_dump(), sender)["queued"]}


@router.get("/status")
def status_(app: FromApp) -> dict[str, Any]:
    """Rate, queue and share of errors."""
    s = app.status()
    return {
        "pages_per_sec": s["pages_per_s"],
        "queue_depth": s["queue_depth"],
        "error_rate_percent": round(100 * s["error_share"], 2),
    }


@router.post("/hosts/{host}/policy")
def policy(
    app: FromApp, sender: FromSender, host: HostName, body: PublishedPolicyBody
) -> dict[str, Any]:
    """Set a host's pace."""
    delay_s = None if body.crawl_delay_ms is None else body.crawl_delay_ms / 1000
    arguments = {"host": host, "delay_s": delay_s, "parallel": body.max_concurrent}
    app.run("host_set", arguments, sender)
    return {"applied": not sender.dry_run}
