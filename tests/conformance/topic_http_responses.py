"""Probes of topic http-responses: raw bytes up to the close, read by the product's response
reader.
"""

from __future__ import annotations

import base64
import gzip
import pathlib
from collections.abc import Iterable

from crawlkit.rules.http.response import ResponseReader


def raw_bytes(given: dict, key: str, case_dir: pathlib.Path) -> bytes:
    """`key_b64` or `key_file` of a row."""
    if given.get(f"{key}_b64") is not None:
        return base64.b64decode(given[f"{key}_b64"])
    data = (case_dir / given[f"{key}_file"]).read_bytes()
    return gzip.decompress(data) if given.get("gunzip") else data


def answer(given: dict, case_dir: pathlib.Path) -> dict:
    reader = ResponseReader(given.get("method") or "GET", given.get("limit") or 10 * 1024 * 1024)
    reader.feed(raw_bytes(given, "raw_response", case_dir))
    if given.get("closed", True):
        reader.eof()
    elif not reader.done:
        reader.cut("time") if reader.head_done else reader.eof()
    if reader.error:
        return {"error": True, "flagged": True, "recorded": True, "no_crash": True}
    return {
        "error": False,
        "status": reader.status,
        "reason": reader.reason_phrase,
        "headers": Named(reader.headers),
        "body": reader.body.decode("latin-1"),
        "body_bytes": reader.body_bytes,
        "truncated": reader.truncated,
        "flagged": bool(reader.notes),
        "bad_header_lines": reader.bad_header_lines,
        "header_bytes_b64": base64.b64encode(reader.header_bytes).decode(),
        "keep_alive": reader.keep_alive,
    }


class Named(dict):
    """Header fields, names of any case, repeated ones joined (RFC 9110 5.3)."""

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        for name, value in fields:
            self[name.lower()] = f"{self[name.lower()]}, {value}" if name.lower() in self else value

    def get(self, name: str, default: str | None = None) -> str | None:
        return super().get(name.lower(), default)
