"""A WARC file without some of its records: the others stay byte for byte; its log may keep that a
URL was asked, and nothing of its answer.
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
)
_GZIP = b"\x1f\x8b"
Gone = Callable[[WarcRecord], bool]
Blank = Callable[[str], bool]  # of a target URI


def blanked(capture: Capture) -> Capture:
    """A capture of which only is left that and when the URL was asked (the pace can still be
    audited).
    """
    return Capture(
        **{f: getattr(capture, f) for f in Capture.__slots__ if f in KEPT},
        outcome=str(Outcome.REFUSED),
        reason=str(Reason.PURGED),
    )


def rewrite(
    source: BinaryIO, target: BinaryIO, gone: Gone, blank: Blank | None = None
) -> tuple[dict[int, int], bool]:
    """Copy a gzip WARC file without the records that are `gone`; `blank`: what its log may not tell
    any more.

    Returns where each kept record stands now (old offset -> new), and whether anything differs.
    Memory is bounded by a record. Raises Refused (WARC_DAMAGED), also for a file that is not
    compressed record by record.
    """
    moved: dict[int, int] = {}
    at, changed = 0, False
    for record in iter_records(source):
        if gone(record):
            changed = True
            continue
        here = source.tell()
        source.seek(record.offset)
        data = source.read(record.length)
        source.seek(here)
        if not data.startswith(_GZIP):
            raise damaged(record.offset, "not compressed record by record")
        if (
            blank is not None
            and is_log(record)
            and (without := _log_without(record, blank)) is not None
        ):
            data, changed = without, True
        moved[record.offset] = at
        target.write(data)
        at += len(data)
    return moved, changed


def _log_without(record: WarcRecord, blank: Blank) -> bytes | None:
    """A log record with blanked captures and without robots copies of some URLs; None: it has none
    of them.
    """
    out, changed = [], False
    for line in filter(None, record.block.split(b"\r\n")):
        name, _, value = line.partition(b": ")
        if name in (b"capture", b"robots"):
            r = decode(value)
            if isinstance(r, RobotsCopy) and blank(f"{r.origin}/robots.txt"):
                changed = True
                continue
            if isinstance(r, Capture) and r.reason != Reason.PURGED and blank(target_uri(r.url)):
                changed, line = True, b"capture: " + encode(blanked(r)).rstrip(b"\n")
        out.append(line + b"\r\n")
    if not changed:
        return None
    block = b"".join(out)
    fields = record.headers | {
        "warc-block-digest": sha1_digest(block),
        "content-length": str(len(block)),
    }
    head = "".join(f"{_NAMES.get(k, k)}: {v}\r\n" for k, v in fields.items())
    return igzip_lib.compress(
        b"WARC/1.1\r\n" + head.encode() + b"\r\n" + block + b"\r\n\r\n",
        GZIP_LEVEL,
        flag=igzip_lib.COMP_GZIP,
    )


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
