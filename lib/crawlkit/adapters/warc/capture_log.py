"""A WARC file's log of its captures, matched with the records that it describes.

slot/recorder.py writes it. A log record is a metadata record (application/warc-fields): `round:
{JSON}`, then one `capture:` or `robots:` line for each outcome that was settled while the file was
open, also of requests that got no response. The place of a capture's record is read off the file,
so a packed file is as good as the first one.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, BinaryIO, NamedTuple

from crawlkit.adapters.store.parts import decode
from crawlkit.adapters.warc.reader import WarcRecord, damaged, iter_records
from crawlkit.model import Capture, RobotsCopy

STORED = ("response", "revisit", "resource", "conversion")


class WarcLog(NamedTuple):
    """rounds: id -> name, number, nominal time, seed. lost: captures whose record is gone.

    unnamed: records that no log names.

    logs: ids of the log records; a file that packing or purging made has those of the files that it
    was made of.
    """

    rounds: dict[str, dict[str, Any]]
    records: list[Capture | RobotsCopy]
    counts: Counter[str]
    logs: list[str]


def is_log(record: WarcRecord) -> bool:
    """Whether a record is a log record."""
    return (
        record.type == "metadata"
        and record.headers.get("content-type") == "application/warc-fields"
        and record.block.startswith(b"round: ")
    )


def read_log(file: BinaryIO, filename: str) -> WarcLog:
    """The captures of a file with their places in it. Raises Refused (WARC_DAMAGED)."""
    rounds: dict[str, dict[str, Any]] = {}
    logged: list[Capture | RobotsCopy] = []
    places: dict[str, tuple[int, int]] = {}
    logs: list[str] = []
    for record in iter_records(file):
        if record.type in STORED:
            places[record.headers.get("warc-record-id", "")] = record.offset, record.length
        elif is_log(record):
            logs.append(record.headers.get("warc-record-id", ""))
            try:
                _read_lines(record.block, rounds, logged)
            except (ValueError, KeyError, TypeError) as e:
                raise damaged(record.offset, f"log record: {e}") from None
    counts = Counter({"records": len(places)})
    kept: list[Capture | RobotsCopy] = []
    for r in logged:
        if isinstance(r, Capture) and r.warc_filename is not None:
            place = places.pop(r.warc_record_id or "", None)
            if place is None:  # removed by age: its outcome counts, there is nothing to be read
                counts["lost"] += 1
                r.warc_filename = r.warc_record_id = r.warc_record_offset = r.warc_record_length = (
                    r.record_type
                ) = None
            else:
                r.warc_filename, (r.warc_record_offset, r.warc_record_length) = filename, place
        kept.append(r)
    counts["unnamed"] = len(places)
    return WarcLog(rounds, kept, counts, logs)


def only_log(file: BinaryIO) -> bool:
    """Whether a file holds log records and no stored response. Raises Refused."""
    found = False
    for record in iter_records(file):
        if record.type in STORED:
            return False
        found |= is_log(record)
    return found


def _read_lines(
    block: bytes, rounds: dict[str, dict[str, Any]], logged: list[Capture | RobotsCopy]
) -> None:
    for line in block.split(b"\r\n"):
        name, _, value = line.partition(b": ")
        if name == b"round":
            row = json.loads(value)
            rounds[row["id"]] = row
        elif name in (b"capture", b"robots"):
            r = decode(value)
            if not isinstance(r, Capture | RobotsCopy):
                raise ValueError(f"a {name.decode()} line that is a {type(r).__name__}")
            logged.append(r)
