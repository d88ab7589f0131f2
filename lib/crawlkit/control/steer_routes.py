"""Routes of the control API that steer the crawl: each is one operator command."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter

from crawlkit.control.backend import FromApp, FromSender, host_arguments
from crawlkit.control.forms import (
    BoostBody,
    ComplaintBody,
    HostBody,
    HostName,
    ParamBody,
    PolicyBody,
    RoundName,
    SeedsBody,
    UrlsBody,
)
from crawlkit.control.param_rules import change_rule

router = APIRouter(prefix="/v1", tags=["steer"])


@router.post("/seeds")
def seeds(app: FromApp, sender: FromSender, body: SeedsBody) -> dict[str, Any]:
    """Add URLs to the frontier with the next round."""
    return app.run("seeds", body.model_dump(), sender)


@router.post("/hints")
def hints(app: FromApp, sender: FromSender, body: UrlsBody) -> dict[str, Any]:
    """URLs that may have changed: known ones become due, new ones candidates."""
    return app.run("hint", body.model_dump(), sender)


@router.post("/recrawl")
def recrawl(app: FromApp, sender: FromSender, body: UrlsBody) -> dict[str, Any]:
    """Fetch URLs again in the next round, whatever their schedule."""
    return app.run("recrawl", body.model_dump(), sender)


@router.post("/boost")
def boost(app: FromApp, sender: FromSender, body: BoostBody) -> dict[str, Any]:
    """Add points to the score of URLs."""
    return app.run("boost", body.model_dump(), sender)


@router.post("/blacklist")
def blacklist(app: FromApp, sender: FromSender, body: HostBody) -> dict[str, Any]:
    """Send nothing more to a host or domain; running tasks stop within 10 s."""
    return app.run("block", host_arguments(body), sender)


@router.post("/unblock")
def unblock(app: FromApp, sender: FromSender, body: HostBody) -> dict[str, Any]:
    """Allow a blocked host or domain again."""
    return app.run("unblock", host_arguments(body), sender)


@router.post("/complaints")
def complaints(app: FromApp, sender: FromSender, body: ComplaintBody) -> dict[str, Any]:
    """Record a complaint: block or slow the host before its next request, and fire an alert."""
    return app.run("complain", host_arguments(body), sender)


@router.post("/rounds/{round_id}/{verb}")
def rounds(
    app: FromApp,
    sender: FromSender,
    round_id: RoundName,
    verb: Literal["pause", "resume", "abandon"],
) -> dict[str, Any]:
    """Hold a round, let it go on, or end it (what it has not committed is due as before)."""
    return app.run(verb, {"round_id": round_id}, sender)


@router.put("/params")
def params(app: FromApp, sender: FromSender, body: ParamBody) -> dict[str, Any]:
    """Put a rule about a host's query parameter in force, or take it back."""
    if sender.dry_run:
        return body.model_dump()
    return change_rule(app.crawl(), body.host, body.name, body.in_force, sender.actor)


@router.put("/hosts/{host}/policy")
def policy(app: FromApp, sender: FromSender, host: HostName, body: PolicyBody) -> dict[str, Any]:
    """Set a host's pace; what is left out is as configured."""
    return app.run("host_set", {"host": host, **body.model_dump()}, sender)
