"""The verdict on a whole WARC file: framing, digests, what is in it.

It raises nothing for damage, it reports it.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any, BinaryIO

from crawlkit.adapters.warc.reader import (
    MAX_RECORD_BYTES,
    WarcSource,
    content_length,
    damaged,
    is_http,
)
from crawlkit.model import header_list
from crawlkit.outcomes import Refused
from crawlkit.rules.http.content_types import media_type
from crawlkit.rules.http.head import HEAD_END, MAX_HEAD_BYTES
from crawlkit.rules.http.response import ResponseReader

# WARC 1.1, 5.1 to 5.5; without Content-Length nothing can be read
MANDATORY = ("warc-type", "warc-record-id", "warc-date")


def check(file: BinaryIO | Path) -> dict[str, Any]:
    """Check a whole file; its counts and first error.

    Keys: ok, records, urls, html_records, digest_errors, error (or None), error_offset,
    records_before_error.

    `error_offset` is where the bad record (its gzip member) starts. Memory does not grow with
    record sizes, but where a body is compressed for its transfer (MAX_RECORD_BYTES of it); `urls`
    holds the target of each response and resource record.
    """
    if isinstance(file, Path):
        with file.open("rb") as opened:
            return check(opened)
    verdict: dict[str, Any] = {
        "ok": False,
        "records": 0,
        "urls": [],
        "html_records": 0,
        "digest_errors": 0,
        "error": None,
        "error_offset": None,
        "records_before_error": None,
    }
    source = WarcSource(file)
    try:
        while (headers := source.next_head()) is not None:
            _check_record(source, headers, verdict)
        if not verdict["records"]:
            raise damaged(0, "no record")
    except Refused as damage:
        _add_error(verdict, damage.detail, source.offset)
    verdict["ok"] = verdict["error"] is None and not verdict["digest_errors"]
    return verdict


def _check_record(source: WarcSource, headers: dict[str, str], verdict: dict[str, Any]) -> None:
    """Read one record's block and add what it is to the verdict. Raises Refused."""
    audit = _Audit(headers)
    source.read_block(content_length(headers, source.offset), audit.feed)
    missing = [f"at {source.offset}: no {name}" for name in MANDATORY if not headers.get(name)]
    fault = source.end_record() or next(iter(missing), None)
    if fault:
        _add_error(verdict, fault, source.offset)
    verdict["records"] += 1
    verdict["digest_errors"] += audit.digest_errors()
    verdict["html_records"] += audit.is_html()
    has_page = headers.get("warc-type") in ("response", "resource")
    if has_page and "warc-target-uri" in headers:
        verdict["urls"].append(headers["warc-target-uri"].strip("<>"))


def _add_error(verdict: dict[str, Any], error: str, offset: int) -> None:
    """Keep the first error of a file."""
    if not verdict["error"]:
        verdict |= {
            "error": error,
            "error_offset": offset,
            "records_before_error": verdict["records"],
        }


class _Audit:
    """Digests of a block as it streams by, and what kind of record it is."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers
        self._http = is_http(headers)
        self._block = _digest_of(headers.get("warc-block-digest"))
        # of the bytes after the header, and of the body without transfer coding
        self._payload = _digest_of(headers.get("warc-payload-digest"))
        self._decoded = self._payload and self._payload.copy()
        self._head = b"" if self._http else None
        self._reader = ResponseReader(max_body_bytes=1 << 62)
        # of a body that is compressed for its transfer: only such a one is held as a whole
        self._whole: ResponseReader | None = None

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the block."""
        if self._block:
            self._block.update(piece)
        if self._head is not None:
            self._head += piece
            end = HEAD_END.search(self._head)
            if not end and len(self._head) < MAX_HEAD_BYTES:
                return
            at = end.end() if end else len(self._head)
            piece = self._head[at:]
            self._reader.feed(self._head[:at])
            if self._payload and self._reader.codings:
                self._whole = ResponseReader(max_body_bytes=MAX_RECORD_BYTES)
                self._whole.feed(self._head[:at])
            self._reader.drain()
            self._head = None
        if self._payload:
            self._payload.update(piece)
            if self._reader.transfer_decoded:
                self._reader.feed(piece)
                self._decoded.update(self._reader.drain())
        if self._whole:
            self._whole.feed(piece)

    def is_html(self) -> bool:
        """Whether it is a response with an HTML page."""
        kind = media_type(header_list(self._reader.headers, "content-type"))
        return (
            self._http
            and self._headers.get("warc-type") == "response"
            and kind in ("text/html", "application/xhtml+xml")
        )

    def digest_errors(self) -> int:
        """How many of the record's two digests do not match its bytes."""
        wrong = int(
            self._block is not None
            and not _matches(self._headers["warc-block-digest"], self._block)
        )
        if (
            self._payload
            and self._headers.get("warc-type") != "revisit"
            and "warc-segment-number" not in self._headers
        ):
            hashes = (
                [self._payload, self._decoded] if self._reader.transfer_decoded else [self._payload]
            )
            if self._whole:
                self._whole.eof()
                hashes.append(_digest_of(self._headers["warc-payload-digest"]))
                hashes[-1].update(self._whole.body)
            wrong += not any(_matches(self._headers["warc-payload-digest"], h) for h in hashes)
        return wrong


def _digest_of(field_value: str | None) -> Any:
    name = (field_value or "").partition(":")[0].lower().replace("-", "")
    return hashlib.new(name) if name in ("sha1", "sha256", "sha512", "md5") else None


def _matches(field_value: str, digest: Any) -> bool:
    """Base 32 as is usual; base 16 and both alphabets of base 64 are met in the wild."""
    value, raw = field_value.partition(":")[2].strip(), digest.digest()
    encoded = (
        base64.b32encode(raw).decode(),
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
    )
    return (
        value.lower() == raw.hex()
        or value.upper().rstrip("=") == encoded[0].rstrip("=")
        or value.rstrip("=") in (encoded[1].rstrip("="), encoded[2].rstrip("="))
    )
