"""Probes of topic dns-cache: the cache on a clock that the row sets."""

from __future__ import annotations

import asyncio
import pathlib

from crawlkit.adapters.net.dns import Lookup, Resolver
from crawlkit.outcomes import Reason, Refused

_NEGATIVE = {"nxdomain": Reason.DNS_NXDOMAIN, "nodata": Reason.DNS_NXDOMAIN}


def answer(given: dict, case_dir: pathlib.Path) -> dict:
    return asyncio.run(_answer(given["lookups"]))


async def _answer(lookups: list[dict]) -> dict:
    now, reply, called, results = 0.0, Lookup(error=Reason.DNS_FAIL), [], []

    async def query(name: str) -> Lookup:
        called.append(now)
        return reply

    resolver = Resolver(query, clock=lambda: now, hosts={})
    for step in lookups:
        now = step["t"]
        if "answer" in step:
            said = step["answer"]
            reply = (
                Lookup(tuple(said), step.get("ttl", 0))
                if isinstance(said, list) and said
                else Lookup(
                    error=_NEGATIVE.get(
                        str(said), Reason.DNS_NXDOMAIN if said == [] else Reason.DNS_FAIL
                    ),
                    ttl_s=step.get("ttl", 0),
                )
            )
        try:
            results.append(list((await resolver.resolve("site.example")).addresses))
        except Refused as refusal:
            results.append(str(refusal.reason))
        await asyncio.sleep(0)
    return {
        "resolver_called_at": called,
        "results": results,
        "addresses": results[-1] if results else None,
    }
