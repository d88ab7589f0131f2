"""Reads WARC files: one record at a place, all records in order, or the verdict on a whole file (WARC 1.0, 1.1).

Memory is bounded by the size of one record (`MAX_RECORD_BYTES`), for `check` by a few buffers. What is damaged
raises Refused (WARC_DAMAGED) with the offset in the message; `check` reports it instead.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from isal import igzip_lib, isal_zlib

from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.http1 import MAX_HEAD_BYTES, ResponseReader

MAX_RECORD_BYTES = 128 * 1024 * 1024
MAX_WARC_HEAD_BYTES = 64 * 1024
_PIECE = 256 * 1024
_VERSIONS = (b"WARC/1.0", b"WARC/1.1", b"WARC/0.17", b"WARC/0.18")
_MAX_BLANK = 1024  # blank lines looked through after a record
_GZIP = b"\x1f\x8b"


@dataclass(slots=True)
class WarcRecord:
    """One record. `headers` has lower-case names. For HTTP responses and revisits `status`, `http_headers` and
    `payload` (without transfer coding, content coding kept) are read from the block."""

    headers: dict[str, str]
    block: bytes
    offset: int = 0
    length: int = 0  # in the file
    status: int | None = None
    http_headers: list[tuple[str, str]] = field(default_factory=list)
    payload: bytes = b""

    @property
    def type(self) -> str:
        return self.headers.get("warc-type", "")

    @property
    def url(self) -> str:
        """WARC-Target-URI; angle brackets of older writers are taken off."""
        return self.headers.get("warc-target-uri", "").strip("<>")


def read_record(file: BinaryIO | Path, offset: int, length: int, max_bytes: int = MAX_RECORD_BYTES) -> WarcRecord:
    """The record that stands at `offset` in `length` bytes. Raises Refused (WARC_DAMAGED)."""
    if isinstance(file, Path):
        with file.open("rb") as opened:
            return read_record(opened, offset, length, max_bytes)
    file.seek(offset)
    return parse_record(file.read(min(length, max_bytes)), offset, max_bytes)


def parse_record(raw: bytes, offset: int = 0, max_bytes: int = MAX_RECORD_BYTES) -> WarcRecord:
    """One record from its stored bytes (a gzip member or plain). Raises Refused (WARC_DAMAGED)."""
    data = raw
    if raw.startswith(_GZIP):
        inflate = isal_zlib.decompressobj(31)
        try:
            data = inflate.decompress(raw, max_bytes)
        except (isal_zlib.error, igzip_lib.IsalError) as err:
            raise _damaged(offset, str(err)) from None
        if not inflate.eof:
            raise _damaged(offset, "cut short or too large")
    end = data.find(b"\r\n\r\n", 0, MAX_WARC_HEAD_BYTES) + 4
    if end < 4:
        raise _damaged(offset, "no end of the WARC header")
    headers = parse_warc_head(data[:end], offset)
    size = _content_length(headers, offset)
    if end + size > len(data):
        raise _damaged(offset, "block shorter than its Content-Length")
    return with_http(WarcRecord(headers, data[end : end + size], offset, len(raw)))


def with_http(record: WarcRecord) -> WarcRecord:
    """Fills status, HTTP header and payload of a response or revisit; of other records the payload is the block."""
    if not _is_http(record.headers):
        record.payload = record.block
        return record
    block = record.block
    at = block.find(b"\r\n\r\n", 0, MAX_HEAD_BYTES) + 4
    if at < 4:
        at = block.find(b"\n\n", 0, MAX_HEAD_BYTES) + 2
    if at < 2:
        at = len(block)
    reader = ResponseReader(max_body_bytes=len(block) + 1)
    reader.feed(block[:at])
    if reader.head_done:
        record.status, record.http_headers = reader.status, reader.headers
    if reader.transfer_decoded:
        reader.feed(block[at:])
        reader.eof()
    record.payload = reader.body if reader.transfer_decoded and not reader.error else block[at:]
    return record


def iter_records(file: BinaryIO, max_bytes: int = MAX_RECORD_BYTES) -> Iterator[WarcRecord]:
    """All records in order. Raises Refused (WARC_DAMAGED) at the first damage."""
    source = _Source(file)
    while (headers := source.next_head()) is not None:
        if _content_length(headers, source.offset) > max_bytes:
            raise _damaged(source.offset, "record too large")
        pieces: list[bytes] = []
        source.read_block(_content_length(headers, source.offset), pieces.append)
        source.end_record()
        yield with_http(WarcRecord(headers, b"".join(pieces), source.offset, source.place - source.offset))


def check(file: BinaryIO | Path) -> dict[str, Any]:
    """Reads a whole file: ok, records, urls, html_records, digest_errors, error (or None), error_offset, records_before_error.

    `error_offset` is where the bad record (its gzip member) starts. Memory does not grow with record sizes;
    `urls` holds the target of each response and resource record.
    """
    if isinstance(file, Path):
        with file.open("rb") as opened:
            return check(opened)
    verdict: dict[str, Any] = {"ok": False, "records": 0, "urls": [], "html_records": 0, "digest_errors": 0, "error": None, "error_offset": None, "records_before_error": None}
    source = _Source(file)
    try:
        while (headers := source.next_head()) is not None:
            audit = _Audit(headers)
            source.read_block(_content_length(headers, source.offset), audit.feed)
            fault = source.end_record()
            if fault and not verdict["error"]:
                verdict |= {"error": fault, "error_offset": source.offset, "records_before_error": verdict["records"]}
            verdict["records"] += 1
            verdict["digest_errors"] += audit.digest_errors()
            verdict["html_records"] += audit.is_html()
            if headers.get("warc-type") in ("response", "resource") and "warc-target-uri" in headers:
                verdict["urls"].append(headers["warc-target-uri"].strip("<>"))
        if not verdict["records"]:
            raise _damaged(0, "no record")
    except Refused as damage:
        if not verdict["error"]:
            verdict |= {"error": damage.detail, "error_offset": source.offset, "records_before_error": verdict["records"]}
    verdict["ok"] = verdict["error"] is None and not verdict["digest_errors"]
    return verdict


def parse_warc_head(head: bytes, offset: int = 0) -> dict[str, str]:
    """Version line and named fields (WARC 1.1 4): lower-case names, first value, folded lines joined. Raises Refused."""
    first, *lines = head.decode("utf-8", "replace").replace("\r\n", "\n").rstrip("\n").split("\n")
    if first.encode().strip() not in _VERSIONS:
        raise _damaged(offset, f"not a WARC version line: {first[:40]!r}")
    headers: dict[str, str] = {}
    name = ""
    for line in lines:
        if line[:1] in (" ", "\t") and name:
            headers[name] += " " + line.strip()
            continue
        name, colon, value = line.partition(":")
        if not colon:
            raise _damaged(offset, f"WARC field without a colon: {line[:40]!r}")
        name = name.strip().lower()
        headers.setdefault(name, value.strip())
    return headers


def _content_length(headers: dict[str, str], offset: int) -> int:
    text = headers.get("content-length", "")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise _damaged(offset, f"Content-Length {text[:40]!r}")
    return int(text)


def _is_http(headers: dict[str, str]) -> bool:
    kind = headers.get("content-type", "").replace(" ", "").lower()
    return headers.get("warc-type") in ("request", "response", "revisit") and (kind.startswith("application/http") or (not kind and headers.get("warc-target-uri", "").strip("<").startswith("http")))


def _damaged(offset: int, detail: str) -> Refused:
    return Refused(Reason.WARC_DAMAGED, f"at {offset}: {detail}")


class _Source:
    """The bytes of a file, record by record: gzip members or plain. `offset` is where the present record starts."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._raw = b""
        self._at = 0  # bytes taken from the file
        self._data = bytearray()  # decoded, not yet consumed
        self._inflate: Any = None
        self._gzip: bool | None = None
        self.offset = 0

    @property
    def place(self) -> int:
        """Offset of the next undecoded byte: after `end_record`, the end of the record."""
        return self._at - len(self._raw) - (0 if self._gzip else len(self._data))

    def _more(self) -> bool:
        """Decodes another piece of this record's member (or file); False at its end. Raises Refused."""
        if not self._raw:
            self._raw = self._file.read(_PIECE)
            self._at += len(self._raw)
        if self._gzip is False:
            self._data += self._raw
            got, self._raw = bool(self._raw), b""
            return got
        if self._inflate is None:
            return False
        if not self._raw:
            raise _damaged(self.offset, "cut inside a gzip member")
        try:
            self._data += self._inflate.decompress(self._raw, _PIECE)
        except (isal_zlib.error, igzip_lib.IsalError) as err:
            raise _damaged(self.offset, str(err)) from None
        if self._inflate.eof:
            self._raw, self._inflate = self._inflate.unused_data, None
        else:
            self._raw = self._inflate.unconsumed_tail
        return True

    def next_head(self) -> dict[str, str] | None:
        """The WARC header of the next record; None at the end of the file. Raises Refused."""
        if not self._raw and not self._data:
            self._raw = self._file.read(_PIECE)
            self._at += len(self._raw)
        self.offset = self.place
        if not self._raw and not self._data:
            return None
        if self._gzip is None:
            self._gzip = self._raw.startswith(_GZIP)
        if self._gzip:
            if not self._raw.startswith(_GZIP[: len(self._raw)]):
                raise _damaged(self.offset, "bytes that are no gzip member")
            self._inflate = isal_zlib.decompressobj(31)
        scanned = 0
        while (end := self._data.find(b"\r\n\r\n", max(0, scanned - 3), MAX_WARC_HEAD_BYTES)) < 0:
            scanned = len(self._data)
            if scanned >= MAX_WARC_HEAD_BYTES or not self._more():
                raise _damaged(self.offset, "no end of the WARC header" if scanned else "empty gzip member")
        head = bytes(self._data[: end + 4])
        del self._data[: end + 4]
        return parse_warc_head(head, self.offset)

    def read_block(self, size: int, sink: Callable[[bytes], object]) -> None:
        """Passes the block to `sink` in pieces. Raises Refused if it is cut."""
        while size:
            if not self._data and not self._more():
                raise _damaged(self.offset, "block shorter than its Content-Length")
            piece = bytes(self._data[:size])
            del self._data[: len(piece)]
            size -= len(piece)
            if piece:
                sink(piece)

    def end_record(self) -> str | None:
        """Reads past the two CRLF after the block; a gzip member ends with them. What is wrong with the line ends, if the
        next record can be found all the same. Raises Refused if it cannot."""
        while len(self._data) < _MAX_BLANK and self._more():
            pass
        blank = len(self._data) - len(self._data.lstrip(b"\r\n"))
        clean = self._data[:blank] == b"\r\n\r\n"
        del self._data[:blank]
        if self._gzip and self._data:
            raise _damaged(self.offset, "more than one record in a gzip member")
        if self._data and not self._data.startswith(b"WARC/"):
            raise _damaged(self.offset, "block longer than its Content-Length")
        return None if clean else f"at {self.offset}: record does not end with two CRLF"


class _Audit:
    """Digests of a block as it streams by, and what kind of record it is."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers
        self._http = _is_http(headers)
        self._block = _digest_of(headers.get("warc-block-digest"))
        self._payload = _digest_of(headers.get("warc-payload-digest"))  # of the bytes after the header
        self._decoded = self._payload and self._payload.copy()  # of the body without transfer coding
        self._head = b"" if self._http else None
        self._reader = ResponseReader(max_body_bytes=1 << 62)

    def feed(self, piece: bytes) -> None:
        if self._block:
            self._block.update(piece)
        if self._head is not None:
            self._head += piece
            at = self._head.find(b"\r\n\r\n") + 4
            if at < 4 and len(self._head) < MAX_HEAD_BYTES:
                return
            piece = self._head[at if at >= 4 else len(self._head) :]
            self._reader.feed(self._head[:at])
            self._head = None
        if self._payload:
            self._payload.update(piece)
            if self._reader.transfer_decoded:
                self._reader.feed(piece)
                self._decoded.update(self._reader.drain())

    def is_html(self) -> bool:
        kind = (self._reader.header("content-type") if self._http else None) or ""
        return self._headers.get("warc-type") == "response" and kind.strip().lower().startswith(("text/html", "application/xhtml+xml"))

    def digest_errors(self) -> int:
        wrong = self._block is not None and not _matches(self._headers["warc-block-digest"], self._block)
        if self._payload and self._headers.get("warc-type") != "revisit" and "warc-segment-number" not in self._headers:
            hashes = [self._payload, self._decoded] if self._reader.transfer_decoded else [self._payload]
            wrong += not any(_matches(self._headers["warc-payload-digest"], h) for h in hashes)
        return int(wrong)


def _digest_of(field_value: str | None) -> Any:
    name = (field_value or "").partition(":")[0].lower().replace("-", "")
    return hashlib.new(name) if name in ("sha1", "sha256", "sha512", "md5") else None


def _matches(field_value: str, digest: Any) -> bool:
    """Base 32 as is usual; base 16 and both alphabets of base 64 are met in the wild."""
    value, raw = field_value.partition(":")[2].strip(), digest.digest()
    encoded = (base64.b32encode(raw).decode(), base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode())
    return value.lower() == raw.hex() or value.upper().rstrip("=") == encoded[0].rstrip("=") or value.rstrip("=") in (encoded[1].rstrip("="), encoded[2].rstrip("="))
