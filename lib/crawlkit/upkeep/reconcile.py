"""`crawlkit reconcile`: do the tables and the WARC files say the same, record by record? Read
without Spark.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow.dataset as ds

from crawlkit.adapters.store.objects import ObjectMissing
from crawlkit.adapters.warc.reader import iter_records
from crawlkit.exports.source import Source
from crawlkit.outcomes import Refused
from crawlkit.rules.warc.stored_http import target_uri

EXAMPLES = 5
_COLUMNS = [
    "capture_id",
    "url",
    "record_type",
    "warc_record_offset",
    "warc_record_length",
    "warc_record_id",
]


def reconcile(source: Source) -> dict[str, Any]:
    """Counts, and up to EXAMPLES of each fault: a file that is missing or damaged, a capture whose
    record is not where it says, a record (response or revisit) that no capture names.
    `orphan_files` are named by no capture: not a fault while a round is open.

    Memory is bounded by the captures of one WARC file.
    """
    faults: dict[str, list[str]] = {
        "missing_files": [],
        "damaged_files": [],
        "captures_without_record": [],
        "records_without_capture": [],
        "captures_twice": [],
    }
    counts = Counter({"captures": 0, "records": 0, "files": 0})

    def fault(kind: str, text: str) -> None:
        counts[kind] += 1
        if len(faults[kind]) < EXAMPLES:
            faults[kind].append(text)

    named = Counter(
        r["warc_filename"]
        for r in source.rows("captures", ["warc_filename"], ds.field("warc_filename").is_valid())
    )
    for name in sorted(named):
        counts["files"] += 1
        rows: dict[int, dict[str, Any]] = {}
        for row in source.rows("captures", _COLUMNS, ds.field("warc_filename") == name):
            counts["captures"] += 1
            if row["warc_record_offset"] in rows:
                fault(
                    "captures_twice",
                    f"{row['capture_id']} and {rows[row['warc_record_offset']]['capture_id']} at"
                    f" {name}:{row['warc_record_offset']}",
                )
            rows[row["warc_record_offset"]] = row
        try:
            with source.warc.open_range(name) as file:
                for record in iter_records(file):
                    if record.type not in ("response", "revisit"):
                        continue
                    counts["records"] += 1
                    row = rows.pop(record.offset, None)
                    if row is None:
                        fault("records_without_capture", f"{name}:{record.offset} {record.url}")
                    elif (
                        record.length,
                        record.type,
                        record.headers.get("warc-record-id"),
                        record.url,
                    ) != (
                        row["warc_record_length"],
                        row["record_type"],
                        row["warc_record_id"],
                        target_uri(row["url"]),
                    ):
                        fault(
                            "captures_without_record",
                            f"{row['capture_id']} differs from {name}:{record.offset}",
                        )
        except ObjectMissing:
            fault("missing_files", name)
        except Refused as e:
            fault("damaged_files", f"{name}: {e.detail}")
        for offset, row in rows.items():
            fault("captures_without_record", f"{row['capture_id']} at {name}:{offset}")
    orphans = sorted(
        key
        for key in source.warc.list()
        if key.endswith((".warc", ".warc.gz")) and key not in named
    )
    wrong = sum(counts[kind] for kind in faults)
    return {
        "ok": not wrong,
        **counts,
        **{kind: counts[kind] for kind in faults},
        "orphan_files": len(orphans),
        "examples": (
            {k: v for k, v in faults.items() if v}
            | ({"orphan_files": orphans[:EXAMPLES]} if orphans else {})
        ),
    }


def reconcile_text(found: dict[str, Any]) -> str:
    lines = [
        f"{found['captures']} captures, {found['records']} records in {found['files']} WARC files:"
        f" {'N = N' if found['ok'] else 'they differ'}"
    ]
    lines += [
        f"  {kind}: {found[kind]}, for example {', '.join(examples)}"
        for kind, examples in found["examples"].items()
    ]
    return "\n".join(lines)
