"""Probes of topic retry: how long host and URL wait after an answer, and what becomes of
the URL.
"""

from __future__ import annotations

import pathlib
from datetime import datetime

from crawlkit.config import Config, Politeness
from crawlkit.outcomes import Reason
from crawlkit.rules.frontier.retry import url_retry
from crawlkit.rules.politeness.host_state import (
    Event,
    HostState,
    after_answer,
    effective_delay_s,
    may_send,
)

_ERRORS = {
    "connection_reset": Reason.DISCONNECTED,
    "reset": Reason.DISCONNECTED,
    "disconnect": Reason.DISCONNECTED,
    "connection_refused": Reason.CONNECT_REFUSED,
    "refused": Reason.CONNECT_REFUSED,
    "connect_timeout": Reason.CONNECT_TIMEOUT,
    "connection_timeout": Reason.CONNECT_TIMEOUT,
    "read_timeout": Reason.TIMEOUT,
    "hang": Reason.TIMEOUT,
    "dns": Reason.DNS_FAIL,
    "nxdomain": Reason.DNS_NXDOMAIN,
    "tls": Reason.TLS_FAIL,
    "ssl": Reason.TLS_FAIL,
    "connection_error": Reason.CONNECT_FAIL,
    "unreachable": Reason.CONNECT_FAIL,
    "network_unreachable": Reason.CONNECT_FAIL,
    "host_unreachable": Reason.CONNECT_FAIL,
    "connection_closed": Reason.DISCONNECTED,
    "connection_lost": Reason.DISCONNECTED,
    "broken_pipe": Reason.DISCONNECTED,
    "eof": Reason.DISCONNECTED,
    "protocol_error": Reason.HTTP_MALFORMED,
}


def answer(given: dict, case_dir: pathlib.Path) -> dict:
    cfg = Config(politeness=Politeness(delay_s=given.get("base_delay_s") or 1.0))
    now = datetime.fromisoformat(given["now"]).timestamp() if given.get("now") else 1_700_000_000.0
    state, waits = HostState("site.example"), []
    steps = list(given.get("history") or ())
    if given.get("status") is not None or given.get("error") is not None:
        steps.append(given)
    for step in steps:
        event = Event(
            now, now, step.get("status"), _header(step, "retry-after"), _header(step, "date")
        )
        state = after_answer(state, event, cfg)
        waits.append(may_send(state, now, cfg).at - now)
    error = given.get("error")
    fate = url_retry(
        given.get("status"),
        _ERRORS.get(error, error),
        given.get("attempt", 1),
        cfg.retry,
        host_wait_s=waits[-1] if given.get("status") in (429, 503) else 0.0,
        sent_conditional=bool(given.get("sent_conditional")),
        has_copy=given.get("stored_digest") is not None,
    )
    return {
        "host_wait_s": waits[-1],
        "url_wait_s": fate.wait_s,
        "delay_s": effective_delay_s(state, cfg.politeness).seconds,
        "delays_grow": len(waits) > 1 and all(a < b for a, b in zip(waits, waits[1:])),
        "unchanged": fate.unchanged,
        "action": str(fate.action),
    }


def _header(step: dict, name: str) -> str | None:
    return next((v for k, v in step.get("headers") or () if k.lower() == name), None)
