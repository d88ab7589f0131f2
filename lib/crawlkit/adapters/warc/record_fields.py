"""The fields of WARC records: ids, dates, and what ties a record to another (WARC 1.1, 5 and 6)."""

from __future__ import annotations

import functools
import time
import uuid
from dataclasses import dataclass

from crawlkit.model import Answer
from crawlkit.rules.warc.digests import sha1_urn
from crawlkit.rules.warc.stored_http import protocol, target_uri

IDENTICAL_PAYLOAD = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:crawlkit:warc-record").bytes


@dataclass(frozen=True, slots=True)
class StoredCopy:
    """The stored copy that a revisit refers to."""

    url: str
    date: float  # Unix s: its WARC-Date
    payload_digest: str  # "sha1:BASE32"
    record_id: str | None = None  # "<urn:uuid:...>"


def record_id(capture_id: str, kind: str = "response") -> str:
    """The same capture has the same record ids whenever it is written."""
    return sha1_urn(_NAMESPACE, f"{kind}:{capture_id}".encode())


def warc_date(unix_s: float) -> str:
    """UTC in seconds (WARC 1.1 5.4, W3CDTF)."""
    return _date(int(unix_s // 1))


@functools.lru_cache(maxsize=64)
def _date(unix_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix_s))


def revisit_profile(answer: Answer, earlier: StoredCopy, digest: str) -> str | None:
    """The profile of the revisit record that an answer makes; None for a response record."""
    if answer.status == 304:
        return NOT_MODIFIED
    is_same = answer.body and not answer.truncated and digest == earlier.payload_digest
    return IDENTICAL_PAYLOAD if is_same else None


def belonging(capture_id: str, kind: str) -> list[str]:
    """The header lines that tie a request or metadata record to its response record."""
    return [
        f"WARC-Record-ID: {record_id(capture_id, kind)}",
        f"WARC-Concurrent-To: {record_id(capture_id)}",
    ]


def response_fields(answer: Answer, digest: str) -> list[str]:
    """The header lines of a response or revisit record."""
    fields = [f"WARC-Payload-Digest: {digest}"]
    if answer.truncated:
        fields.append(f"WARC-Truncated: {answer.truncated}")
    if name := protocol(answer.http_version):
        fields.append(f"WARC-Protocol: {name}")
    return fields


def revisit_fields(profile: str, earlier: StoredCopy) -> list[str]:
    """The header lines of a revisit record (WARC 1.1, 6.7)."""
    return [f"WARC-Profile: {profile}", *refers_to(earlier)]


def refers_to(copy: StoredCopy) -> list[str]:
    """The header lines that name the record of a stored copy."""
    fields = [
        f"WARC-Refers-To-Target-URI: {target_uri(copy.url)}",
        f"WARC-Refers-To-Date: {warc_date(copy.date)}",
    ]
    if copy.record_id:
        fields.append(f"WARC-Refers-To: {copy.record_id}")
    return fields
