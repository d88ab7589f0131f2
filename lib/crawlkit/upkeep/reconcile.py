"""`crawlkit reconcile`: whether tables and WARC files agree, record by record; without Spark."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow.dataset as ds

from crawlkit.adapters.store.objects import ObjectMissing, Objects
from crawlkit.adapters.warc.capture_log import only_log
from crawlkit.adapters.warc.reader import WarcRecord, iter_records
from crawlkit.exports.source import Source
from crawlkit.outcomes import Refused
from crawlkit.rules.warc.stored_http import target_uri

EXAMPLES = 5
_COLUMNS = [
    "capture_id",
    "url",
    "sent_url",
    "record_type",
    "warc_record_offset",
    "warc_record_length",
    "warc_record_id",
]


_FAULTS = (
    "missing_files",
    "damaged_files",
    "captures_without_record",
    "records_without_capture",
    "captures_twice",
)


def reconcile(source: Source) -> dict[str, Any]:
    """Compare every capture with its record; counts, and up to EXAMPLES of each fault.

    Faults: a file that is missing or damaged, a capture whose record is not where it should be or
    shares its place, a record (response or revisit) that no capture names. `orphan_files` are named
    by no capture and hold more than a log: not a fault while a round is open. Memory is bounded by
    the captures of one WARC file.
    """
    comparison = _Comparison(source)
    has_file = ds.field("warc_filename").is_valid()
    named = {r["warc_filename"] for r in source.rows("captures", ["warc_filename"], has_file)}
    for name in sorted(named):
        comparison.compare_file(name)
    warcs = [key for key in source.warc.list() if key.endswith((".warc", ".warc.gz"))]
    unnamed = sorted(set(warcs) - named)
    return comparison.result([key for key in unnamed if not is_log_alone(source.warc, key)])


def is_log_alone(warc: Objects, key: str) -> bool:
    """Whether a WARC file holds only the log of requests without a response.

    No capture can name it, and `rebuild --from-warc` needs it.
    """
    try:
        with warc.open_range(key) as file:
            return only_log(file)
    except (Refused, ObjectMissing):
        return False


class _Comparison:
    """Counts and faults of the files compared so far."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._counts = Counter({"captures": 0, "records": 0, "files": 0})
        self._examples: dict[str, list[str]] = {kind: [] for kind in _FAULTS}

    def _fault(self, kind: str, text: str) -> None:
        self._counts[kind] += 1
        if len(self._examples[kind]) < EXAMPLES:
            self._examples[kind].append(text)

    def compare_file(self, name: str) -> None:
        """Compare one WARC file with the captures that name it."""
        self._counts["files"] += 1
        captures = self._captures_of(name)
        try:
            with self._source.warc.open_range(name) as file:
                for record in iter_records(file):
                    if record.type in ("response", "revisit", "resource"):
                        self._compare(name, record, captures.pop(record.offset, None))
        except ObjectMissing:
            self._fault("missing_files", name)
        except Refused as e:
            self._fault("damaged_files", f"{name}: {e.detail}")
        for offset, row in captures.items():
            self._fault("captures_without_record", f"{row['capture_id']} at {name}:{offset}")

    def _captures_of(self, name: str) -> dict[int, dict[str, Any]]:
        """The captures of a file by the offset of their records."""
        captures: dict[int, dict[str, Any]] = {}
        for row in self._source.rows("captures", _COLUMNS, ds.field("warc_filename") == name):
            self._counts["captures"] += 1
            offset = row["warc_record_offset"]
            if offset in captures:
                ids = f"{row['capture_id']} and {captures[offset]['capture_id']}"
                self._fault("captures_twice", f"{ids} at {name}:{offset}")
            captures[offset] = row
        return captures

    def _compare(self, name: str, record: WarcRecord, row: dict[str, Any] | None) -> None:
        self._counts["records"] += 1
        place = f"{name}:{record.offset}"
        if row is None:
            self._fault("records_without_capture", f"{place} {record.url}")
        elif _as_record(record) != _as_row(row):
            self._fault("captures_without_record", f"{row['capture_id']} differs from {place}")

    def result(self, orphans: list[str]) -> dict[str, Any]:
        """Counts and examples. orphans: WARC files that no capture names."""
        examples = {kind: texts for kind, texts in self._examples.items() if texts}
        if orphans:
            examples["orphan_files"] = orphans[:EXAMPLES]
        faults = {kind: self._counts[kind] for kind in _FAULTS}
        return {
            "ok": not any(faults.values()),
            **self._counts,
            **faults,
            "orphan_files": len(orphans),
            "examples": examples,
        }


def _as_record(record: WarcRecord) -> tuple[Any, ...]:
    """What a record has in common with its capture."""
    return record.length, record.type, record.headers.get("warc-record-id"), target_uri(record.url)


def _as_row(row: dict[str, Any]) -> tuple[Any, ...]:
    """What a capture has in common with its record."""
    return (
        row["warc_record_length"],
        row["record_type"],
        row["warc_record_id"],
        target_uri(row["sent_url"] or row["url"]),
    )


def reconcile_text(result: dict[str, Any]) -> str:
    """The result of reconcile for a terminal."""
    lines = [
        f"{result['captures']} captures, {result['records']} records in {result['files']} WARC"
        f" files: {'N = N' if result['ok'] else 'they differ'}"
    ]
    for kind, examples in result["examples"].items():
        lines.append(f"  {kind}: {result[kind]}, for example {', '.join(examples)}")
    return "\n".join(lines)
