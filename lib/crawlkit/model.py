"""The values that cross a seam: rows of the fetch list, answers, captures, robots copies.

Times are Unix seconds (float, UTC) in Python values and TIMESTAMP in tables. Sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

RECENT_S = 30.0  # what a running fetch says of its rate is about so long


@dataclass(slots=True)
class FetchItem:
    """One row of the fetch list as a slot sees it: one planned request.

    kind: page, robots, sitemap, feed, requisite, render or subresource. There is one `robots` row
    for each origin of the slot, ranked first; it carries the stored copy of robots.txt (if any) and
    the host's state.
    """

    round_id: str
    url_key: bytes  # 16 bytes
    url: str  # canonical
    host: str  # lower case, without the port: the unit of politeness
    domain: str  # registered domain: the unit of sharding
    slot: int
    rank: int  # order inside the slot
    kind: str = "page"
    not_before: float | None = None
    depth: int | None = None  # of the frontier row; None: robots
    redirects: int | None = None
    priority_class: int | None = None
    sent_url: str | None = None  # how it is requested, where not as `url`
    host_class: str | None = None  # news, generic or dormant
    # validators and digest of the stored copy (pages)
    etag: str | None = None
    last_modified: str | None = None
    prev_payload_digest: str | None = None  # "sha1:BASE32"
    prev_capture_id: str | None = None
    prev_fetched_at: float | None = None  # WARC-Date of the stored copy
    prev_copy_url: str | None = None  # where the stored copy was not requested as `url`
    # render rows: the record of the stored copy
    doc_filename: str | None = None
    doc_offset: int | None = None
    doc_length: int | None = None
    # robots rows only
    robots_status: int | None = None  # None: never fetched
    robots_body: bytes | None = None
    robots_fetched_at: float | None = None
    robots_expires_at: float | None = None
    host_state: str | None = None  # JSON of rules.politeness.HostState


@dataclass(slots=True)
class FetchRequest:
    """One request to be sent: everything that the engine needs and nothing about when."""

    url: str
    headers: list[tuple[str, str]]  # in the order sent, Host included
    method: str = "GET"
    body: bytes = b""


def header_list(headers: Iterable[tuple[str, str]], name: str) -> str | None:
    """All lines of a header as one list (RFC 9110 5.3), case-insensitive; None if there is none."""
    low = name.lower()
    values = [v for k, v in headers if k.lower() == low]
    return ", ".join(values) if values else None


@dataclass(slots=True)
class Answer:
    """What came back. `error` is set (a Reason) when no usable answer came; then status is None.

    `header_bytes` are the bytes received from the status line to the empty line, as they were.
    `body` is the payload with the transfer coding removed and the content coding kept.
    """

    url: str
    status: int | None = None
    reason_phrase: str = ""
    http_version: str = ""
    headers: list[tuple[str, str]] = field(
        default_factory=list
    )  # Latin-1 text, in order, names as received
    header_bytes: bytes = b""
    request_bytes: bytes = b""
    body: bytes = b""
    truncated: str | None = None  # length, time, disconnect (WARC-Truncated)
    transfer_decoded: bool = False  # a Transfer-Encoding was removed from the payload
    ip: str | None = None
    error: str | None = None
    error_detail: str = ""
    broken_status: int | None = None  # what an answer said whose body is no HTTP: error is set
    wall_start: float = 0.0  # Unix s, before the connection is opened
    wall_end: float = 0.0  # Unix s, after the last byte
    mono_start: float = 0.0
    mono_end: float = 0.0
    connect_ms: int | None = None
    first_byte_ms: int | None = None
    bad_header_lines: int = 0
    notes: list[str] = field(default_factory=list)

    def header(self, name: str) -> str | None:
        """First value of a header, case-insensitive."""
        low = name.lower()
        return next((v for k, v in self.headers if k.lower() == low), None)

    def header_list(self, name: str) -> str | None:
        """All lines of a header as one list, case-insensitive."""
        return header_list(self.headers, name)


@dataclass(slots=True)
class Capture:
    """One outcome or one stored record: a row of `captures` (see tables.py for the column
    comments).
    """

    capture_id: str  # deterministic: "{round_id}-{slot}-{attempt}-{n}"
    round_id: str
    url_key: bytes
    url: str
    kind: str
    host: str
    slot: int
    attempt: int
    seq: int  # order of writing inside the attempt
    outcome: str
    reason: str | None = None
    detail: str | None = None
    status: int | None = None
    started: float | None = None
    ended: float | None = None
    ip: str | None = None
    content_type: str | None = None
    body_bytes: int | None = None  # stored payload
    truncated: str | None = None
    redirect_to: str | None = None  # canonical target
    payload_digest: str | None = None  # "sha1:BASE32"
    warc_filename: str | None = None
    warc_record_offset: int | None = None
    warc_record_length: int | None = None
    warc_record_id: str | None = None
    record_type: str | None = None  # response, revisit, resource, conversion
    revisit_of: str | None = None  # capture_id of the first copy
    etag: str | None = None
    last_modified: str | None = None
    cache_control: str | None = None
    delay_ms: int | None = None  # delay in force before this request
    robots_line: str | None = None  # the matching line, when a rule decided
    is_outcome: bool = True  # False: a stored record beside the outcome (robots hop)
    planned_depth: int | None = None  # of the frontier row, as are the next three
    planned_redirects: int | None = None
    planned_class: int | None = None
    sent_url: str | None = None  # where not as `url`
    redirect_sent_url: str | None = None  # where not as `redirect_to`
    planned_host_class: str | None = None
    render_ms: int | None = None  # of a rendered page: time in its browser


@dataclass(slots=True)
class RobotsCopy:
    """One version of a robots.txt as fetched: a row of `robots`."""

    origin: str  # scheme://host[:port]
    host: str
    fetched_at: float
    status: int | None  # final status; None: unreachable
    error: str | None
    final_url: str
    body: bytes
    expires_at: float
    capture_id: str | None = None
    leads_to: list[str] = field(default_factory=list)  # origins of other domains, by its redirects


@dataclass
class Round:
    """One round of a crawl, as `state/rounds/ID/round.json` keeps it. Times are Unix s.

    no: the order of rounds. now: nominal time, which drives schedules. seed: of all that is random.
    buckets: host buckets that it has claimed (guard C). rules: the settings by which an audit
    judges its requests; None in rounds of versions that did not keep them. imported: its captures
    come from WARC files of others, each at the time of its record; it has no requests.
    """

    id: str
    no: int
    now: float
    seed: int
    config_digest: str
    opened_at: float
    state: str = "open"  # open, closed, abandoned
    closed_at: float | None = None
    buckets: list[int] = field(default_factory=list)
    rules: dict[str, Any] | None = None
    imported: bool = False
