"""Probes of topic tls: a real loopback server with the fault, fetched by the engine."""

from __future__ import annotations

import asyncio
import pathlib

from crawlkit.adapters.net.address_guard import parse_place
from crawlkit.adapters.net.engine import Engine, request_headers
from crawlkit.config import Agent, Fetch
from crawlkit.model import Answer, FetchRequest

from tests.servers.tls_server import tls_server, trusting_context


def answer(given: dict, case_dir: pathlib.Path) -> dict:
    place = parse_place(given["url"])
    accepted = tuple(
        host
        for host, policy in (given.get("host_policy") or {}).items()
        if policy.get("tls_verify") is False
    )
    with tls_server(given.get("tls"), place.host) as port:
        fetch = Fetch(
            allow_private=("127.0.0.0/8",),
            ports=(80, 443, place.port),
            connect_to={place.host: f"127.0.0.1:{port}"},
            unverified_tls_hosts=accepted,
            timeout_s=5,
            connect_timeout_s=5,
        )
        got = asyncio.run(_fetch(fetch, given["url"]))
    return {
        "failed": got.error is not None,
        "error": got.error is not None,
        "reason": got.error,
        "status": got.status,
        "flagged": bool(got.notes),
        "recorded": True,
        "body": got.body.decode("latin-1"),
    }


async def _fetch(fetch: Fetch, url: str) -> Answer:
    engine = Engine(fetch, tls=trusting_context())
    try:
        return await engine.fetch(FetchRequest(url, request_headers(Agent(), url)))
    finally:
        await engine.close()
