"""The head of an HTTP/1.1 response: status line, fields, and how the body is framed (RFC 9112 4, 5,
6.3, 9.3).

Every leniency leaves a name in `notes`: bare_lf, bare_cr, control_in_header, obs_fold,
bad_header_line, space_before_colon, status_line_odd, status_out_of_range, http_version,
content_length_invalid, te_and_cl, te_in_http10, te_not_chunked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from crawlkit.outcomes import Reason, Refused

MAX_LINE_BYTES = 8 * 1024
MAX_HEADERS = 100
MAX_HEAD_BYTES = 64 * 1024
HEAD_END = re.compile(rb"\n\r?\n")

_STATUS = re.compile(r"HTTP/(\d)(?:\.(\d))?[ \t]+(\d{3})(?!\d)[ \t]?(.*)", re.DOTALL)
_STATUS_STRICT = re.compile(r"HTTP/1\.[01] \d{3}(?: .*)?", re.DOTALL)
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FIELDS = re.compile(r"^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([^\r\n]*)\r$", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_ODD = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
_SPACE = " \t"
_COMPRESSIONS = frozenset({"gzip", "x-gzip", "deflate"})
_FRAMING_LENGTHS = frozenset(map(len, ("connection", "transfer-encoding", "content-length")))


@dataclass(slots=True)
class Head:
    """A parsed head; header names as received, values without white space round them, Latin-1."""

    status: int = 0
    reason_phrase: str = ""
    http_version: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    bad_header_lines: int = 0
    notes: list[str] = field(default_factory=list)

    def note(self, name: str) -> None:
        """Keep the name of a leniency, once."""
        if name not in self.notes:
            self.notes.append(name)

    def clean(self, value: str) -> str:
        """CR, NUL and other controls become spaces (RFC 9110 5.5)."""
        if not _CONTROL.search(value):
            return value
        self.note("bare_cr" if "\r" in value else "control_in_header")
        return _CONTROL.sub(" ", value)


@dataclass(frozen=True, slots=True)
class Framing:
    """How the body ends: kind none, length, chunked or close; `keep_alive`: if it ends so, the
    connection lives on; `codings`: transfer codings to undo once the body is whole, in the order
    applied (RFC 9112 7.2).
    """

    kind: str
    length: int = 0
    keep_alive: bool = False
    codings: tuple[str, ...] = ()


def parse_head(block: bytes) -> Head:
    """A head from its bytes, the empty line included.

    Raises Refused (HTTP_MALFORMED, HEADERS_TOO_LARGE).
    """
    text, head = block.decode("latin-1"), Head()
    if text.count("\n") != text.count("\r\n"):
        head.note("bare_lf")
    lines = [line[:-1] if line.endswith("\r") else line for line in text.split("\n")[:-2]]
    if max(map(len, lines)) > MAX_LINE_BYTES:
        raise Refused(Reason.HEADERS_TOO_LARGE, f"a line over {MAX_LINE_BYTES} bytes")
    if len(lines) > MAX_HEADERS + 1:
        raise Refused(Reason.HEADERS_TOO_LARGE, f"more than {MAX_HEADERS} header lines")
    _parse_status(head, lines[0])
    fields = _FIELDS.findall(text, len(lines[0]))
    if len(fields) == len(lines) - 1 and not _ODD.search(text):
        head.headers = [(name, value.strip(_SPACE)) for name, value in fields]
    else:
        _parse_odd_fields(head, lines[1:])
    return head


def _parse_status(head: Head, line: str) -> None:
    match = _STATUS.fullmatch(line)
    if not match or match[1] not in "0123" or int(match[3]) < 100:
        raise Refused(Reason.HTTP_MALFORMED, f"status line {line[:60]!r}")
    head.http_version = f"{match[1]}.{match[2] or '0'}"
    if match[1] != "1":
        head.note("http_version")
    elif not _STATUS_STRICT.fullmatch(line):
        head.note("status_line_odd")
    head.status = int(match[3])
    head.reason_phrase = head.clean(match[4]).strip(_SPACE)
    if head.status > 599:  # RFC 9110 15: to be processed like 5xx
        head.note("status_out_of_range")


def _parse_odd_fields(head: Head, lines: list[str]) -> None:
    fields: list[
        tuple[str, list[str]]
    ] = []  # a folded value in pieces: joined once, so that many folds stay linear
    folds = False  # is there a field that a continuation line may belong to
    for line in lines:
        if line[0] in _SPACE and folds:  # RFC 9112 5.2
            head.note("obs_fold")
            fields[-1][1].append(line.strip(_SPACE))
            continue
        name, colon, value = line.partition(":")
        if (
            colon and name.endswith((" ", "\t")) and line[0] not in _SPACE
        ):  # RFC 9112 5.1: no field may be hidden by it
            name = name.rstrip(_SPACE)
            head.note("space_before_colon")
        folds = bool(colon and _TOKEN.fullmatch(name))
        if folds:
            fields.append((name, [value.strip(_SPACE)]))
        else:
            head.bad_header_lines += 1
            head.note("bad_header_line")
    head.headers = [(name, head.clean(" ".join(filter(None, pieces)))) for name, pieces in fields]


def _members(value: str) -> list[str]:
    """Members of a list field, in lower case (RFC 9110 5.6.1)."""
    return [member for part in value.split(",") if (member := part.strip(_SPACE).lower())]


def framing(head: Head, method: str) -> Framing:
    """The body's end (RFC 9112 6.3).

    What is doubtful is read to the close, noted, and never followed by another request.
    """
    tokens: list[str] = []
    codings: list[str] = []
    lengths: list[str] = []
    for name, value in head.headers:
        if len(name) in _FRAMING_LENGTHS:
            low = name.lower()
            if low == "content-length":
                lengths.append(value)
            elif low == "connection":
                tokens += _members(value)
            elif low == "transfer-encoding":
                codings += _members(value)
    keep_alive = "close" not in tokens and (head.http_version == "1.1" or "keep-alive" in tokens)
    if method == "HEAD" or head.status in (204, 304):
        return Framing("none", 0, keep_alive)
    if codings and codings != ["identity"]:
        if lengths:
            head.note("te_and_cl")
        if head.http_version != "1.1":
            head.note("te_in_http10")
        if codings != ["chunked"]:
            head.note("te_not_chunked")
        chunked = codings[-1] == "chunked"
        inner = tuple(c for c in (codings[:-1] if chunked else codings) if c != "identity")
        undone = inner if _COMPRESSIONS.issuperset(inner) else ()
        return (
            Framing("chunked", 0, keep_alive and not lengths and head.http_version == "1.1", undone)
            if chunked
            else Framing("close", codings=undone)
        )
    if not lengths:
        return Framing("close")
    values = {p.strip(_SPACE) for v in lengths for p in v.split(",")}
    value = values.pop()
    if values or not (value.isascii() and value.isdigit()):
        head.note("content_length_invalid")
        return Framing("close")
    digits = value.lstrip("0")
    return Framing("length", 10**18 if len(digits) > 18 else int(digits or "0"), keep_alive)
