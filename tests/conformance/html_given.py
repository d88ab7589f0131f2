"""The page of a probe row: `html`, `html_b64` or `html_file`, read by the product."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path
from typing import Any

from crawlkit.rules.page.page import Page, parse_page
from crawlkit.rules.url.canonical import canonicalize


def page_of(given: dict[str, Any], case_dir: Path) -> Page:
    if "html_file" in given:
        body = (case_dir / given["html_file"]).read_bytes()
        if given.get("gunzip"):
            body = gzip.decompress(body)
    elif "html_b64" in given:
        body = base64.b64decode(given["html_b64"])
    else:
        body = (given.get("html") or "").encode()
    headers = given.get("headers") or []
    headers = [(k, v) for k, v in (headers.items() if isinstance(headers, dict) else headers)]
    content_type = next((v for k, v in headers if k.lower() == "content-type"), None)
    url = canonicalize(given.get("url") or "http://site.example/a/b")
    # a row without a Content-Type is HTML; text given as a string is UTF-8
    return parse_page(
        body,
        url,
        content_type
        or given.get("content_type")
        or ("text/html; charset=utf-8" if "html" in given else "text/html"),
        headers,
        given.get("agent") or "crawlkit",
    )
