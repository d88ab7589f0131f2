"""Probes of topic warc-read: the verdict of the product's check on a file's bytes."""

from __future__ import annotations

import io
import pathlib

from crawlkit.adapters.warc.file_check import check

from tests.conformance.topic_http_responses import raw_bytes


def answer(given: dict, case_dir: pathlib.Path) -> dict:
    verdict = check(io.BytesIO(raw_bytes(given, "warc", case_dir)))
    return {**verdict, "flagged": not verdict["ok"]}
