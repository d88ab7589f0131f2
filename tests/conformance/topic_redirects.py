"""Probe adapter: rules.redirects."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from crawlkit.adapters.net.engine import request_headers
from crawlkit.config import Agent
from crawlkit.outcomes import Reason
from crawlkit.rules.http.redirects import redirect
from crawlkit.rules.url.canonical import canonicalize


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    origin = canonicalize(given["from"])
    location = (
        base64.b64decode(given["location_b64"])
        if "location_b64" in given
        else given.get("location")
    )
    hop = redirect(origin, given["status"], location)
    names = [name for name, _ in given.get("request_headers") or []]
    # a hop is a request of its own, made from its URL alone
    sent = {name.lower() for name, _ in request_headers(Agent(), hop.target or origin)}
    return {
        "target": hop.target,
        "refused": hop.refused,
        "loop": hop.reason is Reason.REDIRECT_LOOP,
        "permanent": hop.permanent,
        "follow_now": False,  # a hop of a page is a found row
        "drop_headers": [name for name in names if name.lower() not in sent],
    }
