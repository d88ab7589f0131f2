"""A form sent to a service, such as a hub of WebSub: one POST, guarded as every request of ours.

robots.txt is not asked: it is about what crawlers read of a site (RFC 9309, 2.2.2), and this reads
nothing; it uses a service at the address that its operator has published for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import urlencode

from crawlkit.adapters.net.engine import Engine, request_headers
from crawlkit.config import Config
from crawlkit.model import Answer, FetchRequest
from crawlkit.outcomes import Refused

MAX_ANSWER_BYTES = 64 * 1024
_TYPE = "application/x-www-form-urlencoded"


def post_form(url: str, fields: Sequence[tuple[str, str]], cfg: Config) -> Answer:
    """Send a form; redirects are the caller's.

    Never raises for what the other side does: as `Engine.fetch`.
    """
    body = urlencode(fields).encode()
    try:
        headers = request_headers(cfg.agent, url)
    except Refused as e:
        return Answer(url, error=e.reason, error_detail=e.detail)
    headers += [("Content-Type", _TYPE), ("Content-Length", str(len(body)))]
    return asyncio.run(_send(FetchRequest(url, headers, "POST", body), cfg))


async def _send(request: FetchRequest, cfg: Config) -> Answer:
    engine = Engine(cfg.fetch)
    try:
        return await engine.fetch(request, content_types=(), max_body_bytes=MAX_ANSWER_BYTES)
    finally:
        await engine.close()
