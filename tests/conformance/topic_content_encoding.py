"""Probe rows of topic content-encoding: `content_encoding` lines, `body_b64` or `body_file`,
`limit`.
"""

from __future__ import annotations

import base64
import gzip
from pathlib import Path
from typing import Any

from crawlkit.rules.http.content_coding import decode_content


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    if "body_file" in given:
        payload = (case_dir / given["body_file"]).read_bytes()
        if given.get("gunzip"):
            payload = gzip.decompress(payload)
    else:
        payload = base64.b64decode(given.get("body_b64") or "")
    limit = {"limit_bytes": given["limit"]} if given.get("limit") else {}
    decoded = decode_content(payload, given.get("content_encoding") or [], **limit)
    return {
        "text": decoded.body.decode("utf-8", "replace"),
        "length": len(decoded.body),
        "truncated": decoded.truncated,
        "raw_kept": decoded.raw_kept and decoded.body == payload[: len(decoded.body)],
        "flagged": decoded.error is not None,
        "error": decoded.error is not None,
    }
