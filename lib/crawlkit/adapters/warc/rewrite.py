"""A WARC file without some of its records: the others stay byte for byte.

Its log may keep that a URL was requested, and nothing of the response.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from isal import igzip_lib

from crawlkit.adapters.store.parts import decode, encode
from crawlkit.adapters.warc.capture_log import is_log
from crawlkit.adapters.warc.reader import WarcRecord, damaged, iter_records
from crawlkit.adapters.warc.writer import GZIP_LEVEL
from crawlkit.model import Capture, RobotsCopy
from crawlkit.outcomes import Outcome, Reason
from crawlkit.rules.warc.digests import sha1_digest
from crawlkit.rules.warc.stored_http import target_uri

KEPT = (
    "capture_id",
    "round_id",
    "url_key",
    "url",
    "kind",
    "host",
    "slot",
    "attempt",
    "seq",
    "started",
    "ended",
    "delay_ms",
    "is_outcome",
    "planned_depth",
    "planned_redirects",
    "planned_class",
    "sent_url",
    "planned_host_class",
)
_GZIP = b"\x1f\x8b"
Gone = Callable[[WarcRecord], bool]
Blank = Callable[[str], bool]  # of a target URI


def blank_capture(capture: Capture) -> Capture:
    """A capture of which only the request is left, with its times: the pace can be audited."""
    return Capture(
        **{f: getattr(capture, f) for f in Capture.__slots__ if f in KEPT},
        outcome=str(Outcome.REFUSED),
        reason=str(Reason.PURGED),
    )


def rewrite(
    source: BinaryIO, target: BinaryIO, gone: Gone, blank: Blank | None = None
) -> tuple[dict[int, int], bool]:
    """Copy a gzip WARC file without the records that are `gone`.

    blank: whether the file's log keeps only the request of a URL. Returns the new offset of each
    record that was kept, by its old one, and whether anything differs. Memory is bounded by a
    record. Raises Refused (WARC_DAMAGED), also for a file that is not compressed record by record.
    """
    moved: dict[int, int] = {}
    at, changed = 0, False
    for record in iter_records(source):
        if gone(record):
            changed = True
            continue
        data = _read_member(source, record)
        if blank is not None and is_log(record):
            without = _log_without(record, blank)
            if without is not None:
                data, changed = without, True
        moved[record.offset] = at
        target.write(data)
        at += len(data)
    return moved, changed


def _read_member(source: BinaryIO, record: WarcRecord) -> bytes:
    """The gzip member of a record; the position of `source` stays. Raises Refused."""
    position = source.tell()
    source.seek(record.offset)
    data = source.read(record.length)
    source.seek(position)
    if not data.startswith(_GZIP):
        raise damaged(record.offset, "not compressed record by record")
    return data


def _log_without(record: WarcRecord, blank: Blank) -> bytes | None:
    """A log record without the contents of some URLs, as a gzip member; None if it has none."""
    lines, changed = [], False
    for line in filter(None, record.block.split(b"\r\n")):
        kept = _blank_line(line, blank)
        changed |= kept != line
        if kept is not None:
            lines.append(kept + b"\r\n")
    return _compress_log(record, b"".join(lines)) if changed else None


def _blank_line(line: bytes, blank: Blank) -> bytes | None:
    """A log line with a blank capture, or as it is; None for a robots copy to be removed."""
    name, _, value = line.partition(b": ")
    if name not in (b"capture", b"robots"):
        return line
    r = decode(value)
    if isinstance(r, RobotsCopy) and blank(f"{r.origin}/robots.txt"):
        return None
    if isinstance(r, Capture) and r.reason != Reason.PURGED and blank(target_uri(r.url)):
        return b"capture: " + encode(blank_capture(r)).rstrip(b"\n")
    return line


def _compress_log(record: WarcRecord, block: bytes) -> bytes:
    """The log record with another block, compressed."""
    fields = record.headers | {
        "warc-block-digest": sha1_digest(block),
        "content-length": str(len(block)),
    }
    head = "".join(f"{_NAMES.get(k, k)}: {v}\r\n" for k, v in fields.items())
    data = b"WARC/1.1\r\n" + head.encode() + b"\r\n" + block + b"\r\n\r\n"
    return igzip_lib.compress(data, GZIP_LEVEL, flag=igzip_lib.COMP_GZIP)


_NAMES = {
    n.lower(): n
    for n in (
        "WARC-Type",
        "WARC-Date",
        "WARC-Warcinfo-ID",
        "WARC-Record-ID",
        "WARC-Block-Digest",
        "Content-Type",
        "Content-Length",
    )
}
