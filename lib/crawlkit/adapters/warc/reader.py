"""Reads WARC files: one record at a place, or all records in order (WARC 1.0, 1.1).

Memory is bounded by the size of one record (`MAX_RECORD_BYTES`). What is damaged raises Refused
(WARC_DAMAGED) with the offset in the message; file_check reports it instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from isal import igzip_lib, isal_zlib

from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.http.head import HEAD_END, MAX_HEAD_BYTES
from crawlkit.rules.http.response import ResponseReader

MAX_RECORD_BYTES = 128 * 1024 * 1024
MAX_WARC_HEAD_BYTES = 64 * 1024
_PIECE = 256 * 1024
_VERSIONS = (b"WARC/1.0", b"WARC/1.1", b"WARC/0.17", b"WARC/0.18")
_MAX_BLANK = 1024  # blank lines looked through after a record
_GZIP = b"\x1f\x8b"
_ARC = b"filedesc://"
_BEGIN = re.compile(rb"\x1f\x8b\x08[\x00-\x1f]|(?<=\n)WARC/(?:1\.[01]|0\.1[78])\r?\n")
_INFLATE_ERRORS: Any = (isal_zlib.error, igzip_lib.IsalError)


@dataclass(slots=True)
class WarcRecord:
    """One record. `headers` has lower-case names.

    For HTTP responses and revisits `status`, `http_headers` and `payload` (without transfer coding,
    content coding kept) are read from the block.
    """

    headers: dict[str, str]
    block: bytes
    offset: int = 0
    length: int = 0  # in the file
    status: int | None = None
    http_headers: list[tuple[str, str]] = field(default_factory=list)
    payload: bytes = b""

    @property
    def type(self) -> str:
        """WARC-Type: warcinfo, request, response, revisit ..."""
        return self.headers.get("warc-type", "")

    @property
    def url(self) -> str:
        """WARC-Target-URI; angle brackets of older writers are taken off."""
        return self.headers.get("warc-target-uri", "").strip("<>")


def read_record(
    file: BinaryIO | Path, offset: int, length: int, max_bytes: int = MAX_RECORD_BYTES
) -> WarcRecord:
    """The record at `offset`, of `length` bytes. Raises Refused (WARC_DAMAGED)."""
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
        except _INFLATE_ERRORS as err:
            raise damaged(offset, str(err)) from None
        if not inflate.eof:
            raise damaged(offset, "cut short or too large")
    end = data.find(b"\r\n\r\n", 0, MAX_WARC_HEAD_BYTES) + 4
    if end < 4:
        raise damaged(offset, "no end of the WARC header")
    headers = parse_warc_head(data[:end], offset)
    size = content_length(headers, offset)
    if end + size > len(data):
        raise damaged(offset, "block shorter than its Content-Length")
    return with_http(WarcRecord(headers, data[end : end + size], offset, len(raw)))


def with_http(record: WarcRecord) -> WarcRecord:
    """Fill in status, HTTP header and payload of a response or revisit.

    The payload of other records is the block.
    """
    if not is_http(record.headers):
        record.payload = record.block
        return record
    block = record.block
    end = HEAD_END.search(block, 0, MAX_HEAD_BYTES)
    at = end.end() if end else len(block)
    reader = ResponseReader(max_body_bytes=MAX_RECORD_BYTES)
    reader.feed(block[:at])
    if reader.head_done:
        record.status, record.http_headers = reader.status, reader.headers
    if reader.transfer_decoded:
        reader.feed(block[at:])
        reader.eof()
    record.payload = reader.body if reader.transfer_decoded and not reader.error else block[at:]
    return record


def iter_records(
    file: BinaryIO,
    max_bytes: int = MAX_RECORD_BYTES,
    on_damage: Callable[[Refused], object] | None = None,
) -> Iterator[WarcRecord]:
    """All records in order. Raises Refused (WARC_DAMAGED) at the first damage.

    on_damage: takes the refusal instead, and reading goes on with the next record that there is;
    `file` can be sought then.
    """
    source = WarcSource(file)
    while True:
        try:
            record = _next_record(source, max_bytes)
        except Refused as damage:
            if on_damage is None:
                raise
            on_damage(damage)
            if not source.skip_damage():
                return
            continue
        if record is None:
            return
        yield record


def _next_record(source: WarcSource, max_bytes: int) -> WarcRecord | None:
    """None at the end of the file. Raises Refused."""
    headers = source.next_head()
    if headers is None:
        return None
    if content_length(headers, source.offset) > max_bytes:
        raise damaged(source.offset, "record too large")
    pieces: list[bytes] = []
    source.read_block(content_length(headers, source.offset), pieces.append)
    source.end_record()
    length = source.place - source.offset
    return with_http(WarcRecord(headers, b"".join(pieces), source.offset, length))


def parse_warc_head(head: bytes, offset: int = 0) -> dict[str, str]:
    """Version line and named fields (WARC 1.1, 4). Raises Refused.

    Names are in lower case, with the first value of each; folded lines are joined.
    """
    first, *lines = head.decode("utf-8", "replace").replace("\r\n", "\n").rstrip("\n").split("\n")
    if first.encode().strip() not in _VERSIONS:
        raise damaged(offset, f"not a WARC version line: {first[:40]!r}")
    headers: dict[str, str] = {}
    name = ""
    for line in lines:
        if line[:1] in (" ", "\t") and name:
            headers[name] += " " + line.strip()
            continue
        name, colon, value = line.partition(":")
        if not colon:
            raise damaged(offset, f"WARC field without a colon: {line[:40]!r}")
        name = name.strip().lower()
        headers.setdefault(name, value.strip())
    return headers


def content_length(headers: dict[str, str], offset: int) -> int:
    """The block's size. Raises Refused."""
    text = headers.get("content-length", "")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise damaged(offset, f"Content-Length {text[:40]!r}")
    return int(text)


def is_http(headers: dict[str, str]) -> bool:
    """Is the block an HTTP message?"""
    kind = headers.get("content-type", "").replace(" ", "").lower()
    return headers.get("warc-type") in ("request", "response", "revisit") and (
        kind.startswith("application/http")
        or (not kind and headers.get("warc-target-uri", "").strip("<").startswith("http"))
    )


def damaged(offset: int, detail: str) -> Refused:
    """The refusal of the bytes at an offset."""
    return Refused(Reason.WARC_DAMAGED, f"at {offset}: {detail}")


class WarcSource:
    """The bytes of a file, record by record: gzip members or plain.

    `offset` is where the present record starts.
    """

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
        """Decodes another piece of this record's member (or file); False at its end.

        Raises Refused.
        """
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
            raise damaged(self.offset, "cut inside a gzip member")
        try:
            self._data += self._inflate.decompress(self._raw, _PIECE)
        except _INFLATE_ERRORS as err:
            raise damaged(self.offset, str(err)) from None
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
                raise damaged(self.offset, "bytes that are no gzip member")
            self._inflate = isal_zlib.decompressobj(31)
        scanned = 0
        while (end := self._data.find(b"\r\n\r\n", max(0, scanned - 3), MAX_WARC_HEAD_BYTES)) < 0:
            scanned = len(self._data)
            if self._data.startswith(_ARC):
                raise damaged(self.offset, "an ARC file: make it a WARC file first (`warcio`)")
            if scanned >= MAX_WARC_HEAD_BYTES or not self._more():
                raise damaged(
                    self.offset, "no end of the WARC header" if scanned else "empty gzip member"
                )
        head = bytes(self._data[: end + 4])
        del self._data[: end + 4]
        return parse_warc_head(head, self.offset)

    def skip_damage(self) -> bool:
        """Go to the next place behind `offset` where a record begins; whether there is one."""
        at, tail = self.offset + 1, b""
        self._raw, self._data, self._inflate = b"", bytearray(), None
        self._file.seek(at)
        while piece := self._file.read(_PIECE):
            seen = tail + piece
            for m in _BEGIN.finditer(seen):
                place = at - len(tail) + m.start()
                if not m[0].startswith(_GZIP) or self._begins_record(place):
                    self._file.seek(place)
                    self._at, self._gzip = place, m[0].startswith(_GZIP)
                    return True
            at, tail = at + len(piece), seen[-16:]
            self._file.seek(at)
        return False

    def _begins_record(self, place: int) -> bool:
        """Whether a gzip member begins there with a WARC record in it."""
        self._file.seek(place)
        try:
            got = isal_zlib.decompressobj(31).decompress(self._file.read(1024), 5)
        except _INFLATE_ERRORS:
            return False
        return bytes(got) == b"WARC/"

    def read_block(self, size: int, sink: Callable[[bytes], object]) -> None:
        """Passes the block to `sink` in pieces. Raises Refused if it is cut."""
        while size:
            if not self._data and not self._more():
                raise damaged(self.offset, "block shorter than its Content-Length")
            piece = bytes(self._data[:size])
            del self._data[: len(piece)]
            size -= len(piece)
            if piece:
                sink(piece)

    def end_record(self) -> str | None:
        """Reads past the two CRLF after the block; a gzip member ends with them.

        What is wrong with the line ends, if the next record can be found all the same. Raises
        Refused if it cannot.
        """
        while len(self._data) < _MAX_BLANK and self._more():
            pass
        blank = len(self._data) - len(self._data.lstrip(b"\r\n"))
        clean = self._data[:blank] == b"\r\n\r\n"
        del self._data[:blank]
        if self._gzip and self._data:
            raise damaged(self.offset, "more than one record in a gzip member")
        if self._data and not clean and not b"WARC/".startswith(self._data[:5]):
            raise damaged(self.offset, "block longer than its Content-Length")
        return None if clean else f"at {self.offset}: record does not end with two CRLF"
