"""Probe adapter: rules.urls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crawlkit.config import Urls
from crawlkit.rules.url.canonical import UrlPolicy, canonicalize, url_key


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    policy = UrlPolicy.of(Urls(**(given.get("options") or {})))
    if "urls" in given:
        keys = {url_key(canonicalize(url, given.get("base"), policy)) for url in given["urls"]}
        return {"same": len(keys) == 1}
    return {"canonical": canonicalize(given["url"], given.get("base"), policy), "error": False}
