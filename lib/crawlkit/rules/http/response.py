"""HTTP/1.1 responses from bytes to values, without IO (RFC 9112): feed bytes, read the attributes.

Strict where a wrong guess would give a wrong body, lenient where RFC 9112 lets a recipient be;
every leniency leaves a name in `notes`, so that no odd answer passes in silence. Time is linear in
the bytes fed, however they are cut. Nothing that a server sends raises.

Notes: those of http1_head, and leading_blank_line, surplus_bytes, chunk_size_space,
chunk_extension_odd, chunk_malformed, chunk_too_many, trailer_cut, trailer_too_long, te_damaged.
"""

from __future__ import annotations

import re

from crawlkit.model import Answer
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.http.content_coding import decode_content
from crawlkit.rules.http.head import (
    HEAD_END,
    MAX_HEAD_BYTES,
    MAX_LINE_BYTES,
    Head,
    framing,
    parse_head,
)

MAX_INTERIM = 8
MAX_BLANK_LINES = 32
MAX_CHUNK_LINE_BYTES = 4 * 1024
FREE_CHUNKS = 16_384  # beyond these a chunk must carry 64 bytes on average

_SIZE = re.compile(rb"([0-9A-Fa-f]+)([ \t]*)(;[^\r\n]*)?\r?\n")
_SIZE_BEGUN = re.compile(rb"[0-9A-Fa-f]+[ \t]*(;[^\r\n]*)?\r?")
_EXTENSIONS = re.compile(
    rb"(?:;[ \t]*[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?:[ \t]*=["
    rb" \t]*(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+|\"(?:[^\"\\]|\\.)*\"))?[ \t]*)*"
)


def _nothing(data: bytes) -> None:
    """What a reader makes of bytes when it is done: `feed` sees to those."""


class ResponseReader:
    """Reads one response (RFC 9112) to a request of `method`; bodies longer than `max_body_bytes`
    are cut.

    After each `feed` or `eof` look at `head_done`, `done`, `error`. With `error` (a Reason) there
    is no usable answer; else the fields hold the answer, and `truncated` says how its body was cut.
    `keep_alive` is meaningful once `done`: the connection may carry another request.
    """

    def __init__(self, method: str = "GET", max_body_bytes: int = 10 * 1024 * 1024) -> None:
        self.status: int | None = None
        self.reason_phrase = ""
        self.http_version = ""
        self.headers: list[tuple[str, str]] = []
        self.header_bytes = b""
        self.bad_header_lines = 0
        self.notes: list[str] = []
        self.truncated: str | None = None
        self.transfer_decoded = False
        self.codings: tuple[str, ...] = ()  # compressions to be undone at the end
        self.error: Reason | None = None
        self.error_detail = ""
        self.keep_alive = False
        self.head_done = False
        self.done = False
        self.received = 0  # bytes fed
        self.body_bytes = 0
        self._method = method
        self._max = max_body_bytes
        self._buffer = bytearray()
        self._parts: list[bytes] = []
        self._take = self._head
        self._interim = self._blank = 0
        self._left = 0  # body bytes still to come (length), or of this chunk
        self._cut = False  # the stated length is beyond the limit
        self._expect = "size"  # size, end (of chunk data), trailer
        self._chunks = 0
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> None:
        """The next bytes received."""
        self.received += len(data)
        if self.done:
            self._surplus(data)
        elif data:
            self._take(data)

    def eof(self, clean: bool = True) -> None:
        """The connection ended (RFC 9112 8); not `clean`: by a reset, or without TLS's closing
        alert, so that a body that only the close ends is incomplete (9.8).
        """
        if self.done:
            return
        if not self.head_done:
            self._fail(
                Reason.DISCONNECTED,
                "closed inside the header" if self.received else "closed before any byte",
            )
        elif self._take == self._until_close and clean:
            self._finish(False)
        elif self._take == self._read_chunks and self._expect == "trailer":
            self._note("trailer_cut")
            self._finish(False)
        elif (
            self._take == self._read_chunks
            and self._buffer
            and not (
                _SIZE_BEGUN.fullmatch(self._buffer)
                if self._expect == "size"
                else self._buffer == b"\r"
            )
        ):
            self._chunk_fault(f"no chunk: {bytes(self._buffer[:40])!r}")
        else:
            self.cut("disconnect")

    def cut(self, why: str) -> None:
        """End the body here: `why` is length, time or disconnect (WARC 1.1 5.13).

        Only after `head_done`.
        """
        if not self.done:
            self.truncated = why
            self._finish(False)

    @property
    def body(self) -> bytes:
        """The body read so far, without chunk framing."""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def drain(self) -> bytes:
        """Takes the body bytes read so far out of the reader: for bodies that are not to be held in
        memory, whose compressions stay.
        """
        self.codings = ()
        body, self._parts = self.body, []
        return body

    def header(self, name: str) -> str | None:
        """First value of a header; `name` in lower case."""
        return next((v for k, v in self.headers if k.lower() == name), None)

    def fill(self, answer: Answer) -> Answer:
        """Copies what was read into `answer`; on an error only error, detail and the bytes seen of
        the head.
        """
        answer.notes += self.notes
        answer.error, answer.error_detail = self.error, self.error_detail
        answer.header_bytes = self.header_bytes
        answer.bad_header_lines = self.bad_header_lines
        if self.error is None:
            answer.status, answer.reason_phrase, answer.http_version = (
                self.status,
                self.reason_phrase,
                self.http_version,
            )
            answer.headers, answer.body = self.headers, self.body
            answer.truncated, answer.transfer_decoded = self.truncated, self.transfer_decoded
        else:
            answer.broken_status = self.status
        return answer

    # -- endings

    def _note(self, name: str) -> None:
        if name not in self.notes:
            self.notes.append(name)

    def _fail(self, reason: Reason, detail: str) -> None:
        self.error, self.error_detail = reason, detail
        self.keep_alive = False
        self._over()

    def _finish(self, reusable: bool) -> None:
        self.keep_alive = self.keep_alive and reusable
        self._over()

    def _over(self) -> None:
        self.done = True
        if self.codings and self.error is None:
            self._undo()
        self._take = (
            _nothing  # a method of ours would hold us, body and all, until the collector comes by
        )

    def _undo(self) -> None:
        """Transfer codings beside chunked, which no request of ours names (RFC 9112 7.2, 7.4):
        the payload is what is inside.
        """
        decoded = decode_content(self.body, self.codings, self._max)
        if decoded.error:
            self._note("te_damaged")
        self.truncated = self.truncated or decoded.truncated
        self._parts, self.body_bytes = [decoded.body], len(decoded.body)

    def _surplus(self, data: bytes) -> None:
        if data and self.error is None and self.truncated is None:
            self._note("surplus_bytes")
        if data:
            self.keep_alive = False

    # -- head (RFC 9112 4, 5)

    def _head(self, data: bytes) -> None:
        buffer: bytes | bytearray = self._buffer
        scanned = len(self._buffer)
        if scanned:
            buffer += data
        else:  # most heads come in one piece: it need not be copied
            buffer = data
        while not self.done and not self.head_done:
            while buffer.startswith(
                (b"\r\n", b"\n")
            ):  # RFC 9112 2.2 allows at least one empty line before
                buffer = buffer[1 if buffer[0] == 10 else 2 :]
                self._note("leading_blank_line")
                scanned = 0
                self._blank += 1
                if self._blank > MAX_BLANK_LINES:
                    return self._fail(Reason.HTTP_MALFORMED, "blank lines only")
            if not buffer or (len(buffer) < 5 and (b"HTTP/".startswith(buffer) or buffer == b"\r")):
                return self._hold(buffer)
            if not buffer.startswith(b"HTTP/"):
                return self._fail(Reason.HTTP_MALFORMED, f"no status line: {bytes(buffer[:40])!r}")
            end = HEAD_END.search(buffer, max(0, scanned - 2))
            if (end.end() if end else len(buffer)) > MAX_HEAD_BYTES:
                return self._fail(Reason.HEADERS_TOO_LARGE, f"head over {MAX_HEAD_BYTES} bytes")
            if not end:
                return self._hold(buffer)
            self.header_bytes, rest, scanned = (
                bytes(buffer[: end.end()]),
                bytes(buffer[end.end() :]),
                0,
            )
            try:
                head = parse_head(self.header_bytes)
            except Refused as refusal:
                return self._fail(refusal.reason, refusal.detail)
            if head.status < 200:
                self._interim += 1
                if head.status == 101:
                    return self._fail(Reason.HTTP_MALFORMED, "101 without a request to upgrade")
                if self._interim > MAX_INTERIM:
                    detail = f"more than {MAX_INTERIM} interim answers"
                    return self._fail(Reason.TOO_MANY_INTERIM, detail)
                buffer = rest
                continue
            self._buffer = bytearray()
            self._start_body(head)
            if self.done:
                self._surplus(rest)
            elif rest:
                self._take(rest)

    def _hold(self, head: bytes | bytearray) -> None:
        """More of the head is to come."""
        self._buffer = head if isinstance(head, bytearray) else bytearray(head)

    def _start_body(self, head: Head) -> None:
        self.head_done = True
        self.status, self.reason_phrase, self.http_version = (
            head.status,
            head.reason_phrase,
            head.http_version,
        )
        self.headers, self.bad_header_lines = head.headers, head.bad_header_lines
        frame = framing(head, self._method)
        self.notes += head.notes
        self.keep_alive = frame.keep_alive
        self.transfer_decoded, self.codings = (
            frame.kind == "chunked" or bool(frame.codings),
            frame.codings,
        )
        self._take = (
            self._by_length
            if frame.kind == "length"
            else self._read_chunks
            if frame.kind == "chunked"
            else self._until_close
        )
        self._cut, self._left = frame.length > self._max, min(frame.length, self._max)
        if frame.kind == "none" or (frame.kind == "length" and not frame.length):
            self._finish(True)

    # -- bodies

    def _by_length(self, data: bytes) -> None:
        if len(data) < self._left:
            self._left -= len(data)
            self._parts.append(data)
            self.body_bytes += len(data)
            return
        self._parts.append(data[: self._left] if len(data) > self._left else data)
        rest = data[self._left :]
        self.body_bytes += self._left
        if self._cut:
            return self.cut("length")
        self._finish(True)
        self._surplus(rest)

    def _until_close(self, data: bytes) -> None:
        self._append(data)

    def _append(self, data: bytes) -> None:
        room = self._max - self.body_bytes
        self._parts.append(data[:room] if len(data) > room else data)
        self.body_bytes += len(self._parts[-1])
        if len(data) > room:
            self.cut("length")

    def _read_chunks(self, data: bytes) -> None:
        at, end = 0, len(data)
        while at < end and not self.done:
            if self._left:
                piece = data[at : at + self._left]
                self._append(piece)
                at += len(piece)
                self._left -= len(piece)
                continue
            stop = data.find(b"\n", at, at + MAX_LINE_BYTES + 1) + 1
            self._buffer += data[at : stop or min(end, at + MAX_LINE_BYTES + 1)]
            if len(self._buffer) > (
                MAX_LINE_BYTES if self._expect == "trailer" else MAX_CHUNK_LINE_BYTES
            ):
                return self._chunk_fault("line too long")
            if not stop:
                return
            at = stop
            line = bytes(self._buffer)
            self._buffer.clear()
            self._chunk_line(line)
        if self.done and at < end:
            self._surplus(data[at:])

    def _chunk_line(self, line: bytes) -> None:
        if not line.endswith(b"\r\n"):
            self._note("bare_lf")
        if self._expect == "end":
            if line not in (b"\r\n", b"\n"):
                return self._chunk_fault("chunk longer than its size")
            self._expect = "size"
        elif self._expect == "size":
            self._chunk_size(line)
        elif line in (b"\r\n", b"\n"):
            self._finish(True)
        else:
            self._trailer_bytes += len(line)
            if self._trailer_bytes > MAX_HEAD_BYTES:
                self._note("trailer_too_long")
                self._finish(False)

    def _chunk_size(self, line: bytes) -> None:
        match = _SIZE.fullmatch(line)
        digits = match[1].lstrip(b"0") if match else b""
        if not match or len(digits) > 15:
            return self._chunk_fault(f"chunk size {line[:40]!r}")
        if match[2]:
            self._note("chunk_size_space")
        if match[3] and not _EXTENSIONS.fullmatch(match[3]):
            self._note("chunk_extension_odd")
        self._left = int(digits or b"0", 16)
        self._expect = "end" if self._left else "trailer"
        self._chunks += 1
        if self._chunks > FREE_CHUNKS + self.body_bytes // 64:
            self._note("chunk_too_many")
            self.cut("length")

    def _chunk_fault(self, detail: str) -> None:
        """Framing lost: what came before stays; with nothing before there is no answer."""
        if self._expect == "trailer":
            self._note("trailer_too_long")
            return self._finish(False)
        if not self.body_bytes:
            return self._fail(Reason.HTTP_MALFORMED, detail)
        self._note("chunk_malformed")
        self.cut("disconnect")
