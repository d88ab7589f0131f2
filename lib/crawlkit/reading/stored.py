"""Stored records of a crawl: the newest of a URL, or all of them in the order of the WARC files."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from crawlkit.adapters.lake.delta import Tables
from crawlkit.adapters.warc.record_store import RecordReader
from crawlkit.crawl.state import Crawl
from crawlkit.model import header_list
from crawlkit.outcomes import Refused
from crawlkit.rules.http.content_coding import Decoded, decode_body
from crawlkit.rules.page.encoding import decode
from crawlkit.rules.url.canonical import canonicalize
from crawlkit.rules.url.policy import UrlPolicy

COLUMNS = (
    "capture_id",
    "round_id",
    "url",
    "kind",
    "status",
    "started",
    "truncated",
    "record_type",
    "revisit_of",
    "warc_filename",
    "warc_record_offset",
    "warc_record_length",
)
MAX_HOPS = 20  # from a revisit to the record that has its payload


class NotStored(LookupError):
    """Nothing is stored of a URL, or its payload is gone; the message says which."""

    exit_code = 1


@dataclass
class StoredRecord:
    """A stored answer.

    Attributes:
        url: as requested. time: start of the request, UTC.
        status: of HTTP. headers: as received, in order.
        payload: as stored, without transfer coding; content coding (gzip ...) is kept.
        payload_headers: of the answer that the payload came with (of a revisit: the first copy's).
        record_type: response, or revisit, whose payload is that of the capture `revisit_of`.
        error: why the record cannot be read; headers and payload are empty then.
    """

    url: str
    time: datetime.datetime | None
    status: int | None
    headers: list[tuple[str, str]] = field(repr=False)
    payload: bytes = field(repr=False)
    capture_id: str
    round_id: str
    kind: str
    truncated: str | None
    record_type: str
    revisit_of: str | None
    payload_headers: list[tuple[str, str]] = field(default_factory=list, repr=False)
    error: str | None = None

    @cached_property
    def decoded(self) -> Decoded:
        """The payload without its content codings, at most 32 MiB of it, and what went wrong."""
        return decode_body(self.payload, self.payload_headers)

    @property
    def body(self) -> bytes:
        """The payload without its content codings, at most 32 MiB of it."""
        return self.decoded.body

    @property
    def text(self) -> str:
        """The body as text, in the encoding that a browser would take."""
        return decode(self.body, self.payload_type)[0]

    @property
    def payload_type(self) -> str | None:
        """The Content-Type that the payload came with."""
        return header_list(self.payload_headers, "content-type")


def find_record(crawl: Crawl, url: str, round_id: str | None = None) -> StoredRecord:
    """The newest stored answer of a URL (of a round), with the payload that belongs to it.

    Raises NotStored, Refused (no such URL), TableError.
    """
    tables = crawl.plain_tables()
    canonical = canonicalize(url, policy=UrlPolicy.of(crawl.cfg.urls))
    rows = tables.rows("captures", COLUMNS, {"url": [canonical, url]})  # of files of others too
    stored = [
        r for r in rows if r["warc_filename"] and (round_id is None or r["round_id"] == round_id)
    ]
    if not stored:
        of_round = "" if round_id is None else f" in round {round_id}"
        raise NotStored(
            f"{canonical}: nothing is stored of it{of_round} (`crawlkit explain` says why)"
        )
    row = max(stored, key=lambda r: (r["started"] or 0.0, r["capture_id"]))
    read = RecordReader(crawl.warc)
    record = _read(row, read)
    if record.error is None and record.record_type == "revisit":
        first = _read(_first_copy(tables, row, canonical), read)
        record.payload, record.payload_headers = first.payload, first.headers
        record.truncated, record.error = first.truncated, first.error
    if record.error is not None:
        raise NotStored(f"{canonical}: its record cannot be read: {record.error}")
    return record


def iter_records(crawl: Crawl, rows: Iterable[Mapping[str, Any]]) -> Iterator[StoredRecord]:
    """The records that rows of `captures` point at, one in memory at a time.

    A record that is damaged or gone says so in `error`. A revisit has no payload of its own.
    """
    read = RecordReader(crawl.warc)
    for row in rows:
        yield _read(row, read)


def _first_copy(tables: Tables, row: Mapping[str, Any], url: str) -> Mapping[str, Any]:
    """The capture that has the payload of a revisit. Raises NotStored."""
    for _ in range(MAX_HOPS):
        wanted = row["revisit_of"]
        found = tables.rows("captures", COLUMNS, {"capture_id": [wanted]}) if wanted else []
        if not found or not found[0]["warc_filename"]:
            break
        row = found[0]
        if row["record_type"] != "revisit":
            return row
    raise NotStored(f"{url}: its newest answer was as one before, which is not stored any more")


def _read(row: Mapping[str, Any], read: RecordReader) -> StoredRecord:
    headers: list[tuple[str, str]] = []
    payload, error = b"", None
    try:
        headers, payload = read(
            row["warc_filename"], row["warc_record_offset"], row["warc_record_length"]
        )
    except (Refused, OSError) as e:
        error = str(e) or type(e).__name__
    at = row["started"]
    return StoredRecord(
        url=row["url"],
        time=datetime.datetime.fromtimestamp(at, datetime.UTC) if isinstance(at, float) else at,
        status=row["status"],
        headers=headers,
        payload=payload,
        capture_id=row["capture_id"],
        round_id=row["round_id"],
        kind=row["kind"],
        record_type=row["record_type"],
        revisit_of=row["revisit_of"],
        truncated=row["truncated"],
        payload_headers=headers,
        error=error,
    )
