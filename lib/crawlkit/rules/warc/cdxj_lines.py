"""CDXJ: the sorted text index of WARC records that replay tools read.

A line is `KEY TIMESTAMP {JSON}`. The key is a SURT (host labels reversed, `)`, path and query) of a
URL folded harder than our canonical form, as wayback tools do: lower case, no leading `www.`, no
final slash, parameters sorted, session ids removed, escapes undone as often as possible and then
written once. Lines are sorted by bytes (C locale).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from crawlkit.outcomes import Refused
from crawlkit.rules.url.canonical import DEFAULT_PORTS, canonicalize, host_of

MAX_URL_CHARS = 65_536  # a longer target URI is its own key
_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[^/?#@]*@)?(?P<host>\[[^\]/?#]*\]"
    r"|[^:/?#]*)(?::(?P<port>[0-9]{0,5}))?(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?(?:#.*)?",
    re.IGNORECASE | re.DOTALL,
)
_WWW = re.compile(r"www[0-9]*\.")
_KEPT = frozenset(
    b"!\"$&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuv"
    b"wxyz{|}~"
)
_HEX = {ord(c): int(c, 16) for c in "0123456789abcdefABCDEF"}
_PATH_SESSION = re.compile(
    rb"/(\((?:(?:[a-z]\([0-9a-z]{24}\))+|[0-9a-z]{24})\)/)"
)  # ASP.NET without cookies
_QUERY_SESSION = [
    re.compile(p, re.IGNORECASE)
    for p in (
        rb"jsessionid=[0-9a-z]{32}(?=&|\Z)&?",
        rb"phpsessid=[0-9a-z]{32}(?=&|\Z)&?",
        rb"sid=[0-9a-z]{32}(?=&|\Z)&?",
        rb"aspsessionid[a-z]{8}=[a-z]{24}(?=&|\Z)&?",
    )
]


@dataclass(frozen=True, slots=True)
class Entry:
    """One indexed record. `timestamp`: 14 digits, UTC. `digest`: as in WARC-Payload-Digest.

    What is None is left out.
    """

    url: str
    timestamp: str
    mime: str | None
    status: int | None
    digest: str | None
    length: int
    offset: int
    filename: str


def surt_key(url: str) -> str:
    """The sort key of a URL; linear in its length.

    Never raises: what is no `scheme://` URL is its own lower-case key.
    """
    url = url.strip()
    match = _URL.fullmatch(url) if len(url) <= MAX_URL_CHARS else None
    if match is None:
        return _escape(url.encode("utf-8", "replace")).decode("ascii").lower().replace(" ", "%20")
    scheme = match["scheme"].lower()
    host = _host(match["host"])
    port = int(match["port"] or 0)
    authority = ",".join(reversed(host.split("."))) + (
        f":{port}" if port and port != DEFAULT_PORTS.get(scheme) else ""
    )
    path = _path(_unescape((match["path"] or "/").encode("utf-8", "replace")))
    query = _query(_escape(_unescape((match["query"] or "").encode("utf-8", "replace"))))
    return f"{authority}){path.decode('ascii')}" + (f"?{query.decode('ascii')}" if query else "")


def mime_of(content_type: str | None) -> str | None:
    """The media type alone, as sent; None if there was no Content-Type."""
    return (
        None if content_type is None else re.split(r"[;,\s]", content_type, maxsplit=1)[0].strip()
    )


def timestamp_of(date: str) -> str:
    """14 digits of a WARC-Date (WARC 1.1 5.4; parts that are missing are the first of their kind,
    fractions are dropped).
    """
    digits = re.sub(r"[^0-9]", "", date[:40].partition(".")[0])[:14]
    return digits + "00000101000000"[len(digits) :]


def cdxj_line(entry: Entry, extra: dict[str, str] | None = None) -> str:
    """The line, without its end. `extra`: further JSON fields, in order."""
    row: dict[str, str] = {"url": entry.url}
    if entry.mime is not None:
        row["mime"] = entry.mime
    if entry.status is not None:
        row["status"] = str(entry.status)
    if entry.digest is not None:
        row["digest"] = entry.digest
    row |= {
        "length": str(entry.length),
        "offset": str(entry.offset),
        "filename": entry.filename,
        **(extra or {}),
    }
    return f"{surt_key(entry.url)} {entry.timestamp} {json.dumps(row)}"


class RevisitCheck:
    """Whether revisits point at something: a record of that URL and second must be in the index
    (WARC 1.1 6.7.2, 6.7.3).
    """

    def __init__(self, refers_to: Iterable[tuple[str, str]]) -> None:
        """`refers_to`: (URI, WARC-Date) of each revisit's first copy."""
        self._open = {(surt_key(uri), timestamp_of(date)): uri for uri, date in refers_to}

    def add(self, url: str, timestamp: str) -> None:
        """The index holds this record (itself no revisit)."""
        self._open.pop((surt_key(url), timestamp), None)

    def list_unresolved(self) -> list[tuple[str, str]]:
        """(URI, 14 digits) that point nowhere, sorted."""
        return sorted((uri, timestamp) for (_, timestamp), uri in self._open.items())


def cluster_lines(blocks: Iterable[tuple[str, int, int]], part: str) -> Iterator[str]:
    """`cluster.idx` of a zipnum index: for each block (its first line, offset, length) `KEY
    TIMESTAMP<TAB>part<TAB>offset<TAB>length<TAB>number`.
    """
    for number, (first, offset, length) in enumerate(blocks, 1):
        key, timestamp, _ = first.split(" ", 2)
        yield f"{key} {timestamp}\t{part}\t{offset}\t{length}\t{number}"


def _host(text: str) -> str:
    """Host as the standard's parser writes it, without a leading `www.`; one that it refuses in
    lower case.
    """
    if (
        text.isascii()
        and text.replace(".", "").replace("-", "").isalnum()
        and not text[-1:].isdigit()
    ):
        host = text.lower().strip(".")
    else:
        try:
            host = host_of(canonicalize(f"http://{text}/")).strip("[]")
        except Refused:
            host = (
                _escape(_unescape(text.encode("utf-8", "replace")))
                .decode("ascii")
                .lower()
                .strip(".")
            )
    found = _WWW.match(host)
    return host[found.end() :] if found else host


def _unescape(data: bytes) -> bytes:
    """Escapes undone until none is left: `%2525` and `%2%35` become `%`."""
    if b"%" not in data:
        return data
    out = bytearray()
    for byte in data:
        out.append(byte)
        while len(out) > 2 and out[-3] == 0x25 and out[-1] in _HEX and out[-2] in _HEX:
            out[-3:] = bytes((_HEX[out[-2]] << 4 | _HEX[out[-1]],))
    return bytes(out)


def _escape(data: bytes) -> bytes:
    if all(b in _KEPT for b in data):
        return data
    return b"".join(bytes((b,)) if b in _KEPT else b"%%%02X" % b for b in data)


def _path(path: bytes) -> bytes:
    """Dot segments and empty segments removed, lower case, no session id, no final slash."""
    kept: list[bytes] = []
    segments = path.split(b"/")[1:]
    for segment in segments:
        if segment == b".." and kept:
            kept.pop()
        elif segment != b".":
            kept.append(segment)
    last = kept.pop() if kept else b""
    path = _escape(b"/" + b"".join(s + b"/" for s in kept if s) + last).lower()
    for found in reversed(list(_PATH_SESSION.finditer(path))):
        dotted = path.find(b".aspx", found.end() + 1)
        if dotted > 0 and path.find(b"?", found.end(), dotted) < 0:
            path = path[: found.start(1)] + path[found.end(1) :]
            break
    return path[:-1] if path.endswith(b"/") and len(path) > 1 else path


def _query(query: bytes) -> bytes:
    """Session ids removed, lower case, sorted by name and value."""
    for pattern in _QUERY_SESSION:
        found = [*pattern.finditer(query)]
        if found:
            query = query[: found[-1].start()] + query[found[-1].end() :]
    query = _without_cfid(query).lower()
    return b"&".join(
        b"=".join(p) for p in sorted(tuple(piece.split(b"=", 1)) for piece in query.split(b"&"))
    )


def _without_cfid(query: bytes) -> bytes:
    """ColdFusion's `cfid=...&cftoken=...`, the last pair."""
    pieces = query.split(b"&")
    for n in range(len(pieces) - 2, -1, -1):
        at = pieces[n].lower().rfind(b"cfid=", 0, len(pieces[n]) - 1)
        if at >= 0 and pieces[n + 1].lower().startswith(b"cftoken=") and len(pieces[n + 1]) > 8:
            rest = pieces[n + 2 :]
            return b"&".join([*pieces[:n], pieces[n][:at] + (rest[0] if rest else b""), *rest[1:]])
    return query
