"""Probes of topic breaker: is the host left alone after these events, and when is it asked
again.
"""

from __future__ import annotations

import pathlib

from crawlkit.config import Config
from crawlkit.rules.politeness.host_state import Event, HostState, after_answer, may_send

CFG = Config()
EPOCH = 1_700_006_400.0  # probes count from 0 s


def answer(given: dict, case_dir: pathlib.Path) -> dict:
    state, probes, now = HostState("site.example"), 0, EPOCH
    for event in given["events"]:
        now = EPOCH + event["t"]
        if "probe" in event:
            if may_send(state, now, CFG).at > now:
                continue  # not sent
            probes += 1
        result = event.get("probe", event.get("status"))
        state = after_answer(
            state, Event(now, now, result if isinstance(result, int) else None), CFG
        )
    left_alone = state.health.down or now < state.health.slow_until
    return {
        "state": "open" if left_alone else "closed",
        "probes": probes,
        "next_probe_after_s": state.health.down_until - now if state.health.down else None,
    }
