"""Probes of topic conditional: stored headers to validators to request headers."""

from __future__ import annotations

import pathlib

from crawlkit.rules.http.conditional import conditional_headers, validators


def answer(given: dict, case_dir: pathlib.Path) -> dict:
    sent = dict(
        conditional_headers(*validators([(name, value) for name, value in given["stored_headers"]]))
    )
    return {
        "If-None-Match": sent.get("If-None-Match"),
        "If-Modified-Since": sent.get("If-Modified-Since"),
        "headers": sent,
    }
