"""HTTP/1.1 responses from bytes to values, without IO (RFC 9112): feed bytes, read the attributes.

Strict where a wrong guess would give a wrong body, lenient where RFC 9112 lets a recipient be; every
leniency leaves a name in `notes`, so that no odd answer passes in silence. Time is linear in the bytes
fed, however they are cut. Nothing that a server sends raises.

Notes: bare_lf, bare_cr, control_in_header, obs_fold, bad_header_line, space_before_colon, leading_blank_line,
status_line_odd, status_out_of_range, http_version, content_length_invalid, te_and_cl, te_in_http10,
te_not_chunked, surplus_bytes, chunk_size_space, chunk_extension_odd, chunk_malformed, chunk_too_many,
trailer_cut, trailer_too_long.
"""

from __future__ import annotations

import re

from crawlkit.outcomes import Reason
from crawlkit.records import Answer

MAX_LINE_BYTES = 8 * 1024
MAX_HEADERS = 100
MAX_HEAD_BYTES = 64 * 1024
MAX_INTERIM = 8
MAX_CHUNK_LINE_BYTES = 4 * 1024
FREE_CHUNKS = 16_384  # beyond these a chunk must carry 64 bytes on average

_HEAD_END = re.compile(rb"\n\r?\n")
_STATUS = re.compile(r"HTTP/(\d)(?:\.(\d))?[ \t]+(\d{3})(?!\d)[ \t]?(.*)", re.DOTALL)
_STATUS_STRICT = re.compile(r"HTTP/1\.[01] \d{3}(?: .*)?", re.DOTALL)
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_SIZE = re.compile(rb"([0-9A-Fa-f]+)([ \t]*)(;[^\r\n]*)?\r?\n")
_EXTENSIONS = re.compile(rb"(?:;[ \t]*[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?:[ \t]*=[ \t]*(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+|\"(?:[^\"\\]|\\.)*\"))?[ \t]*)*")


class ResponseReader:
    """Reads one response (RFC 9112) to a request of `method`; bodies longer than `max_body_bytes` are cut.

    After each `feed` or `eof` look at `head_done`, `done`, `error`. With `error` (a Reason) there is no usable
    answer; else the fields hold the answer, and `truncated` says how its body was cut. `keep_alive` is
    meaningful once `done`: the connection may carry another request.
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
        self._interim = 0
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

    def eof(self) -> None:
        """The peer closed its side (RFC 9112 8)."""
        if self.done:
            return
        if not self.head_done:
            self._fail(Reason.DISCONNECTED, "closed inside the header" if self.received else "closed before any byte")
        elif self._take == self._until_close:
            self._finish(False)
        elif self._take == self._chunked and self._expect == "trailer":
            self._note("trailer_cut")
            self._finish(False)
        else:
            self.cut("disconnect")

    def cut(self, why: str) -> None:
        """End the body here: `why` is length, time or disconnect (WARC 1.1 5.13). Only after `head_done`."""
        if not self.done:
            self.truncated = why
            self._finish(False)

    @property
    def body(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def drain(self) -> bytes:
        """Takes the body bytes read so far out of the reader: for bodies that are not to be held in memory."""
        body, self._parts = self.body, []
        return body

    def header(self, name: str) -> str | None:
        """First value of a header; `name` in lower case."""
        return next((v for k, v in self.headers if k.lower() == name), None)

    def fill(self, answer: Answer) -> Answer:
        """Copies what was read into `answer`; on an error only error, detail and the bytes seen of the head."""
        answer.notes += self.notes
        answer.error, answer.error_detail = self.error, self.error_detail
        answer.header_bytes = self.header_bytes
        answer.bad_header_lines = self.bad_header_lines
        if self.error is None:
            answer.status, answer.reason_phrase, answer.http_version = self.status, self.reason_phrase, self.http_version
            answer.headers, answer.body = self.headers, self.body
            answer.truncated, answer.transfer_decoded = self.truncated, self.transfer_decoded
        return answer

    # -- endings

    def _note(self, name: str) -> None:
        if name not in self.notes:
            self.notes.append(name)

    def _fail(self, reason: Reason, detail: str) -> None:
        self.error, self.error_detail = reason, detail
        self.done, self.keep_alive = True, False

    def _finish(self, reusable: bool) -> None:
        self.done = True
        self.keep_alive = self.keep_alive and reusable

    def _surplus(self, data: bytes) -> None:
        if data and self.error is None and self.truncated is None:
            self._note("surplus_bytes")
        if data:
            self.keep_alive = False

    # -- head (RFC 9112 4, 5)

    def _head(self, data: bytes) -> None:
        buffer = self._buffer
        scanned = len(buffer)
        buffer += data
        while not self.done and not self.head_done:
            while buffer.startswith((b"\r\n", b"\n")):  # RFC 9112 2.2 allows at least one empty line before
                del buffer[: 1 if buffer[0] == 10 else 2]
                self._note("leading_blank_line")
                scanned = 0
            if not buffer or (len(buffer) < 5 and (b"HTTP/".startswith(buffer) or buffer == b"\r")):
                return
            if not buffer.startswith(b"HTTP/"):
                return self._fail(Reason.HTTP_MALFORMED, f"no status line: {bytes(buffer[:40])!r}")
            end = _HEAD_END.search(buffer, max(0, scanned - 2))
            if (end.end() if end else len(buffer)) > MAX_HEAD_BYTES:
                return self._fail(Reason.HEADERS_TOO_LARGE, f"head over {MAX_HEAD_BYTES} bytes")
            if not end:
                return
            block, rest, scanned = bytes(buffer[: end.end()]), bytes(buffer[end.end() :]), 0
            self._parse_head(block)
            if self.done:
                return
            if 100 <= self.status < 200:
                self._interim += 1
                if self.status == 101:
                    return self._fail(Reason.HTTP_MALFORMED, "101 without a request to upgrade")
                if self._interim > MAX_INTERIM:
                    return self._fail(Reason.TOO_MANY_INTERIM, f"more than {MAX_INTERIM} interim answers")
                self._buffer = buffer = bytearray(rest)
                self.status, self.headers, self.header_bytes = None, [], b""
                continue
            self.head_done, self._buffer = True, bytearray()
            self._frame()
            if self.done:
                self._surplus(rest)
            elif rest:
                self._take(rest)

    def _parse_head(self, block: bytes) -> None:
        text = block.decode("latin-1")
        if text.count("\n") != text.count("\r\n"):
            self._note("bare_lf")
        lines = [line[:-1] if line.endswith("\r") else line for line in text.split("\n")[:-2]]
        if max(map(len, lines)) > MAX_LINE_BYTES:
            return self._fail(Reason.HEADERS_TOO_LARGE, f"a line over {MAX_LINE_BYTES} bytes")
        if len(lines) > MAX_HEADERS + 1:
            return self._fail(Reason.HEADERS_TOO_LARGE, f"more than {MAX_HEADERS} header lines")
        if not self._parse_status(lines[0]):
            return self._fail(Reason.HTTP_MALFORMED, f"status line {lines[0][:60]!r}")
        self.header_bytes = block
        headers: list[tuple[str, str]] = []
        folds = False  # is there a field that a continuation line may belong to
        for line in lines[1:]:
            if line[0] in " \t":
                folds = self._fold(headers, line) if folds else self._bad_line()
                continue
            name, colon, value = line.partition(":")
            value = value.strip(" \t")
            if name.endswith((" ", "\t")) and colon:  # RFC 9112 5.1: no field may be hidden by it
                name = name.rstrip(" \t")
                self._note("space_before_colon")
            if not colon or not _TOKEN.fullmatch(name):
                folds = self._bad_line()
                continue
            headers.append((name, self._clean(value)))
            folds = True
        self.headers = headers

    def _bad_line(self) -> bool:
        self.bad_header_lines += 1
        self._note("bad_header_line")
        return False

    def _fold(self, headers: list[tuple[str, str]], line: str) -> bool:
        """obs-fold: one or more spaces (RFC 9112 5.2)."""
        self._note("obs_fold")
        name, value = headers[-1]
        headers[-1] = (name, f"{value} {self._clean(line.strip(' 	'))}".strip(" "))
        return True

    def _clean(self, value: str) -> str:
        """CR, NUL and other controls become spaces (RFC 9110 5.5)."""
        if not _CONTROL.search(value):
            return value
        self._note("bare_cr" if "\r" in value else "control_in_header")
        return _CONTROL.sub(" ", value)

    def _parse_status(self, line: str) -> bool:
        match = _STATUS.fullmatch(line)
        if not match or match[1] not in "0123" or int(match[3]) < 100:
            return False
        self.http_version = f"{match[1]}.{match[2] or '0'}"
        if match[1] != "1":
            self._note("http_version")
        elif not _STATUS_STRICT.fullmatch(line):
            self._note("status_line_odd")
        self.status = int(match[3])
        self.reason_phrase = self._clean(match[4]).strip(" \t")
        if self.status > 599:  # RFC 9110 15: to be processed like 5xx
            self._note("status_out_of_range")
        return True

    # -- framing (RFC 9112 6.3, 9.3)

    def _all(self, name: str) -> list[str]:
        return [v for k, v in self.headers if k.lower() == name]

    def _frame(self) -> None:
        tokens = {t.strip(" \t").lower() for v in self._all("connection") for t in v.split(",")}
        self.keep_alive = "close" not in tokens and (self.http_version == "1.1" or "keep-alive" in tokens)
        codings = [c.strip(" \t").lower() for v in self._all("transfer-encoding") for c in v.split(",") if c.strip(" \t")]
        lengths = self._all("content-length")
        if self._method == "HEAD" or self.status in (204, 304):
            return self._finish(True)
        if codings and codings != ["identity"]:
            if lengths:
                self._note("te_and_cl")
            if self.http_version != "1.1":
                self._note("te_in_http10")
            if codings != ["chunked"]:
                self._note("te_not_chunked")
            self.transfer_decoded = codings[-1] == "chunked"
            self.keep_alive = self.keep_alive and self.transfer_decoded and not lengths
            self._take = self._chunked if self.transfer_decoded else self._until_close
            return
        self._take = self._until_close
        if lengths:
            values = {p.strip(" \t") for v in lengths for p in v.split(",")}
            value = values.pop()
            if values or not (value.isascii() and value.isdigit()):
                return self._note("content_length_invalid")
            self._take = self._by_length
            stated = int(value.lstrip("0")[:18] or "0")
            self._cut, self._left = stated > self._max, min(stated, self._max)
            if not stated:
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
        if len(data) > room:
            data = data[:room]
            self.cut("length")
        self._parts.append(data)
        self.body_bytes += len(data)

    def _chunked(self, data: bytes) -> None:
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
            if len(self._buffer) > (MAX_LINE_BYTES if self._expect == "trailer" else MAX_CHUNK_LINE_BYTES):
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
