"""Probe rows of topic charset: `content_type`, `body_b64` -> `encoding`, `text`."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from crawlkit.rules.page.encoding import decode


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    text, encoding = decode(base64.b64decode(given["body_b64"]), given.get("content_type"))
    return {"encoding": encoding.name, "text": text}
