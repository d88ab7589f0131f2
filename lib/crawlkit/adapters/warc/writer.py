"""WARC 1.1 files: written as `.open`, read back, then handed on.

Role: one `WarcWriter` a slot attempt. A file that has its final name is complete and was verified;
a file that ends in `.open` is garbage after a crash. One gzip member a record.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from isal import igzip_lib, isal_zlib

from crawlkit.adapters.net.site_logins import SESSION
from crawlkit.adapters.warc.file_check import check
from crawlkit.adapters.warc.record_fields import (
    StoredCopy,
    belonging,
    record_id,
    refers_to,
    response_fields,
    revisit_fields,
    revisit_profile,
    warc_date,
)
from crawlkit.model import Answer
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.warc.digests import sha1_digest, sha1_pair
from crawlkit.rules.warc.stored_http import (
    stored_head,
    stored_request,
    target_uri,
    without_set_cookie,
)

GZIP_LEVEL = 1
# a Huffman code of its own saves a request's record 150 bytes and takes three quarters of its time
SMALL_BYTES = 1024
SMALL_LEVEL = 0
LARGE_BYTES, PIECE_BYTES = 1 << 20, 1 << 18
CONFORMS_TO = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
_BREAKS = re.compile(r"[\r\n]")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


class Block(NamedTuple):
    """The stored form of an answer: status line and header, and both digests ("sha1:BASE32")."""

    head: bytes
    payload_digest: str  # of the answer's body
    digest: str  # of head and body


class Written(NamedTuple):
    """The place of a response, revisit or conversion record."""

    filename: str
    offset: int
    length: int  # of the gzip member
    record_id: str
    record_type: str  # response, revisit, conversion
    payload_digest: str  # "sha1:BASE32"
    body_bytes: int  # stored payload; 0 in a revisit


@dataclass(frozen=True, slots=True)
class Finished:
    """A closed, verified file."""

    path: Path
    filename: str
    size: int
    records: int


class WarcWriter:
    """Writes the records of one slot attempt into files that roll by size and age.

    Args:
        folder: local folder of the files.
        name: `{crawl_id}`, `{round}`, `{slot}`, `{attempt}` in the file name, in this order.
        info: fields of each file's warcinfo record (software, http-header-user-agent, robots, ...).
        roll_bytes, roll_s: a file is due to be closed at this size or age.
        clock: Unix s, for file names, warcinfo dates and ages.
        compress: False writes plain WARC (`.warc`).
        set_cookie: False leaves the Set-Cookie lines of all responses out, not only those of
            sessions.
    """

    def __init__(
        self,
        folder: Path,
        name: tuple[str, str, int, int],
        info: Mapping[str, str],
        *,
        roll_bytes: int,
        roll_s: float,
        clock: Callable[[], float] = time.time,
        compress: bool = True,
        set_cookie: bool = True,
    ) -> None:
        self._folder = folder
        self._name = name
        self._info = dict(info)
        self._roll_bytes = roll_bytes
        self._roll_s = roll_s
        self._clock = clock
        self._compress = compress
        self._set_cookie = set_cookie
        self._file: BinaryIO | None = None
        self._filename = self._warcinfo_id = ""
        self._opened = 0.0
        self._offset = self._records = self._files = self._logs = 0

    def block(self, answer: Answer) -> Block:
        """The block of an answer's record, for `write`; its digest finds an earlier copy."""
        received = (
            answer.header_bytes
            if self._set_cookie and SESSION not in answer.notes
            else without_set_cookie(answer.header_bytes)
        )
        head = stored_head(received, len(answer.body), answer.status)
        return Block(head, *sha1_pair(head, answer.body))

    def write(
        self,
        answer: Answer,
        capture_id: str,
        *,
        earlier: StoredCopy | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        block: Block | None = None,
    ) -> Written:
        """Write the records of one answer: request, response or revisit, and metadata.

        A 304 with `earlier` is a server-not-modified revisit, a whole body whose digest is that of
        `earlier` an identical-payload-digest revisit (WARC 1.1, 6.7); everything else a response.
        `block`: what the method `block` returned, if it was called before. Raises OSError if the
        disk refuses.
        """
        if self._file is None:
            self._open()
        head, digest, block_digest = block or self.block(answer)
        body = answer.body
        profile = None if earlier is None else revisit_profile(answer, earlier, digest)
        if profile and earlier is not None:
            body = b""
            digest = earlier.payload_digest
            block_digest = ""
        uri, response_id = target_uri(answer.url), record_id(capture_id)
        common = self._common_fields(answer)
        if answer.request_bytes:
            self._put(
                "request",
                uri,
                [*common, *belonging(capture_id, "request")],
                stored_request(answer.request_bytes),
                "application/http; msgtype=request",
            )
        fields = [*common, f"WARC-Record-ID: {response_id}", *response_fields(answer, digest)]
        if profile and earlier is not None:
            fields += revisit_fields(profile, earlier)
        kind = "revisit" if profile else "response"
        offset, length = self._put(
            kind, uri, fields, head, "application/http; msgtype=response", body, block_digest
        )
        if metadata:
            fields = [*common, *belonging(capture_id, "metadata")]
            self._put("metadata", uri, fields, _warc_fields(metadata), "application/warc-fields")
        return Written(self._filename, offset, length, response_id, kind, digest, len(body))

    def write_conversion(
        self, url: str, capture_id: str, html: bytes, original: StoredCopy, date: float
    ) -> Written:
        """Write what a browser made of a stored document (WARC 1.1, 6.9): a conversion record.

        date: Unix s. Raises OSError.
        """
        if self._file is None:
            self._open()
        uri, own_id = target_uri(url), record_id(capture_id, "conversion")
        digest = sha1_digest(html)
        fields = [
            f"WARC-Date: {warc_date(date)}",
            f"WARC-Warcinfo-ID: {self._warcinfo_id}",
            f"WARC-Record-ID: {own_id}",
            f"WARC-Payload-Digest: {digest}",
            *refers_to(original),
        ]
        offset, length = self._put(
            "conversion", uri, fields, b"", "text/html; charset=utf-8", html, digest
        )
        return Written(self._filename, offset, length, own_id, "conversion", digest, len(html))

    def copy(self, record: bytes) -> tuple[str, int, int]:
        """Write a record of another file as it is: file name, offset, length.

        record: a gzip member, or plain, which is compressed if the file is. Raises OSError.
        """
        if self._file is None:
            self._open()
        if self._compress and not record.startswith(b"\x1f\x8b"):
            record = igzip_lib.compress(record, GZIP_LEVEL, flag=igzip_lib.COMP_GZIP)
        return self._filename, *self._append((record,))

    def _common_fields(self, answer: Answer) -> list[str]:
        """The header lines that all records of an answer have."""
        fields = [
            f"WARC-Date: {warc_date(answer.wall_start)}",
            f"WARC-Warcinfo-ID: {self._warcinfo_id}",
        ]
        if answer.ip:
            fields.append(f"WARC-IP-Address: {answer.ip}")
        return fields

    def write_log(self, lines: Iterable[tuple[str, bytes]]) -> None:
        """Write a metadata record about the whole file: `name: JSON` lines, warc-fields.

        Opens a file if none is open. Raises OSError.
        """
        if self._file is None:
            self._open()
        self._logs += 1
        fields = [
            f"WARC-Date: {warc_date(self._clock())}",
            f"WARC-Warcinfo-ID: {self._warcinfo_id}",
            f"WARC-Record-ID: {record_id(f'{self._filename}#{self._logs}', 'log')}",
        ]
        self._put(
            "metadata",
            None,
            fields,
            b"".join(name.encode() + b": " + line.rstrip(b"\n") + b"\r\n" for name, line in lines),
            "application/warc-fields",
        )

    def due(self) -> bool:
        """Is it time to close the open file?"""
        return self._file is not None and (
            self._offset >= self._roll_bytes or self._clock() - self._opened >= self._roll_s
        )

    def close(self) -> Finished | None:
        """Closes the open file, reads it back and gives it its final name; None if none is open.

        Raises Refused (WARC_DAMAGED) if what the disk holds is not what was written.
        """
        if self._file is None:
            return None
        file, self._file = self._file, None
        file.flush()
        os.fsync(file.fileno())
        file.close()
        part, path = self._folder / f"{self._filename}.open", self._folder / self._filename
        verdict = check(part)
        if (
            not verdict["ok"]
            or verdict["records"] != self._records
            or part.stat().st_size != self._offset
        ):
            raise Refused(
                Reason.WARC_DAMAGED,
                f"{part.name}: {verdict['error'] or 'digests or records differ'}",
            )
        part.rename(path)
        return Finished(path, self._filename, self._offset, self._records)

    def abandon(self) -> None:
        """Drops the open file."""
        if self._file is not None:
            self._file.close()
            self._file = None
            (self._folder / f"{self._filename}.open").unlink(missing_ok=True)

    def _open(self) -> None:
        self._opened = self._clock()
        self._files += 1
        stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime(self._opened))
        crawl, round_id, slot, attempt = (_UNSAFE.sub("_", str(part)) for part in self._name)
        self._filename = (
            f"{crawl}-{stamp}-{round_id}-{slot}-{attempt}-{self._files}.warc"
            + ".gz" * self._compress
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{self._filename}.open"
        self._file = open(path, "xb", buffering=1 << 18)  # noqa: SIM115 (open while it is filled)
        self._offset = self._records = 0
        self._warcinfo_id = record_id(self._filename, "warcinfo")
        fields = [
            f"WARC-Date: {warc_date(self._opened)}",
            f"WARC-Record-ID: {self._warcinfo_id}",
            f"WARC-Filename: {self._filename}",
        ]
        info = {"format": "WARC File Format 1.1", "conformsTo": CONFORMS_TO, **self._info}
        self._put("warcinfo", None, fields, _warc_fields(info.items()), "application/warc-fields")

    def _put(
        self,
        kind: str,
        uri: str | None,
        fields: list[str],
        head: bytes,
        content_type: str,
        body: bytes = b"",
        digest: str | None = None,
    ) -> tuple[int, int]:
        """Frames and compresses one record, whose block is head and body (`digest`: the block's, if
        it is known): (offset, length).
        """
        named = [
            f"WARC-Type: {kind}",
            *((f"WARC-Target-URI: {uri}",) if uri else ()),
            *fields,
            f"WARC-Block-Digest: {digest or sha1_digest(head, body)}",
            f"Content-Type: {content_type}",
            f"Content-Length: {len(head) + len(body)}",
        ]
        pieces = (_record_head(named), head, body, b"\r\n\r\n")
        if not self._compress:
            data: Iterable[bytes] = pieces
        elif len(body) < LARGE_BYTES:
            record = b"".join(pieces)
            data = (
                igzip_lib.compress(
                    record,
                    GZIP_LEVEL if len(record) > SMALL_BYTES else SMALL_LEVEL,
                    flag=igzip_lib.COMP_GZIP,
                ),
            )
        else:  # no copy of the whole
            data = _compress_member(pieces)
        return self._append(data)

    def _append(self, data: Iterable[bytes]) -> tuple[int, int]:
        """The pieces of a record, at the end of the open file: (offset, length)."""
        length = 0
        assert self._file is not None
        for piece in data:
            self._file.write(piece)
            length += len(piece)
        offset = self._offset
        self._offset += length
        self._records += 1
        return offset, length


def _record_head(fields: list[str]) -> bytes:
    """Version line and fields of a record, UTF-8 (WARC 1.1 4).

    A line break in a value becomes a space: it could open another field.
    """
    text = "\r\n".join(fields)
    if text.count("\n") != len(fields) - 1 or text.count("\r") != len(fields) - 1:
        text = "\r\n".join([_BREAKS.sub(" ", field) for field in fields])
    return f"WARC/1.1\r\n{text}\r\n\r\n".encode("utf-8", "replace")


def _compress_member(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """One gzip member, piece by piece."""
    stream = isal_zlib.compressobj(GZIP_LEVEL, wbits=31)
    for piece in pieces:
        for at in range(0, len(piece), PIECE_BYTES):
            yield stream.compress(memoryview(piece)[at : at + PIECE_BYTES])
    yield stream.flush()


def _warc_fields(fields: Iterable[tuple[str, str]]) -> bytes:
    """application/warc-fields (WARC 1.1 Annex B): no value may open another line."""
    return "".join(f"{name}: {' '.join(str(value).split())}\r\n" for name, value in fields).encode()
