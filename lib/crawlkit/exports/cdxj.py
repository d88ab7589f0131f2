"""CDXJ of a crawl, from its captures, or of any WARC files."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from crawlkit.adapters.warc.reader import WarcRecord, iter_records
from crawlkit.exports.files import atomic, sorted_lines
from crawlkit.exports.source import Source, in_round
from crawlkit.outcomes import Refused
from crawlkit.rules.warc.cdxj_lines import (
    Entry,
    RevisitCheck,
    cdxj_line,
    cluster_lines,
    mime_of,
    timestamp_of,
)
from crawlkit.rules.warc.digests import sha1_digest
from crawlkit.rules.warc.stored_http import target_uri

COLUMNS = [
    "capture_id",
    "url",
    "sent_url",
    "started",
    "status",
    "content_type",
    "payload_digest",
    "truncated",
    "redirect_to",
    "record_type",
    "revisit_of",
    "warc_filename",
    "warc_record_offset",
    "warc_record_length",
]


def export_cdxj(
    source: Source,
    out: Path,
    *,
    round_id: str | None = None,
    block_lines: int = 0,
    more: bool = False,
) -> dict[str, Any]:
    """Write the index of a crawl (or round).

    `block_lines` > 0: zipnum, gzip blocks of so many lines in `out` (a folder) beside
    `cluster.idx`. `more`: also the fields `redirect` and `truncated` of Common Crawl's index.

    Returns counts; `unresolved` names revisits whose first copy is in no record.
    """
    open_revisits = {
        r["revisit_of"]
        for r in source.rows("captures", ["revisit_of"], ds.field("record_type") == "revisit")
    }

    def lines() -> Iterator[str]:
        for row in source.rows("captures", COLUMNS, _is_stored(round_id)):
            yield entry_line(row, more)

    for row in source.rows("captures", ["capture_id"], ds.field("record_type") == "response"):
        open_revisits.discard(row["capture_id"])
    lost = sorted(map(str, open_revisits))
    return {
        **write_index(lines(), out, block_lines),
        "unresolved": len(lost),
        "unresolved_examples": lost[:5],
    }


def index_warcs(paths: Iterable[Path], out: Path, block_lines: int = 0) -> dict[str, Any]:
    """Write the index of WARC files (those of other crawlers too).

    Damaged records are left out and counted (`damaged`), with some examples. Raises Refused
    (WARC_DAMAGED): a file has no record that can be read.
    """
    paths = list(paths)
    refers = []
    damages: list[str] = []
    for path in paths:
        found = 0
        with path.open("rb") as file:
            here: list[Refused] = []
            for r in iter_records(file, on_damage=here.append):
                found += 1
                if r.type == "revisit":
                    target = r.headers.get("warc-refers-to-target-uri", "")
                    refers.append((target, r.headers.get("warc-refers-to-date", "")))
        if here and not found:
            raise Refused(here[0].reason, f"{path}: {here[0].detail}")
        damages += [f"{path}: {e.detail}" for e in here]
    check = RevisitCheck(refers)

    def lines() -> Iterator[str]:
        for path in paths:
            with path.open("rb") as file:
                for record in iter_records(file, on_damage=lambda _: None):
                    if (entry := entry_of(record, path.name)) is not None:
                        if record.type != "revisit":
                            check.add(entry.url, entry.timestamp)
                        yield cdxj_line(entry)

    counts = write_index(lines(), out, block_lines)
    lost = check.list_unresolved()
    return {
        **counts,
        "unresolved": len(lost),
        "unresolved_examples": [f"{uri} {timestamp}" for uri, timestamp in lost[:5]],
        "damaged": len(damages),
        "damaged_examples": damages[:5],
    }


def write_index(lines: Iterable[str], out: Path, block_lines: int = 0) -> dict[str, Any]:
    """Sorted lines into a file, or as zipnum into a folder."""
    n = 0
    if not block_lines:
        with atomic(out, "w") as f:
            for line in sorted_lines(lines):
                f.write(line + "\n")
                n += 1
        return {"lines": n, "file": str(out)}
    part, blocks = out / "cdx-00000.gz", []
    with atomic(part) as f:
        for first, data, count in gzip_blocks(sorted_lines(lines), block_lines):
            blocks.append((first, f.tell(), len(data)))
            f.write(data)
            n += count
    with atomic(out / "cluster.idx", "w") as f:
        f.writelines(line + "\n" for line in cluster_lines(blocks, part.name))
    return {"lines": n, "blocks": len(blocks), "file": str(part)}


def gzip_blocks(lines: Iterable[str], block_lines: int) -> Iterator[tuple[str, bytes, int]]:
    """(first line, gzip member, lines) of each block."""
    block: list[str] = []
    for line in lines:
        block.append(line)
        if len(block) == block_lines:
            yield block[0], _gzip(block), len(block)
            block = []
    if block:
        yield block[0], _gzip(block), len(block)


def entry_of(record: WarcRecord, filename: str) -> Entry | None:
    """The index entry of a WARC record; None for kinds that are not indexed.

    These are warcinfo, request, and metadata of type warc-fields.
    """
    if record.type not in ("response", "revisit", "resource", "metadata"):
        return None
    if record.type in ("resource", "metadata"):
        mime = record.headers.get("content-type")
        if mime == "application/warc-fields":
            return None
        mime = mime_of(mime)
    else:
        mime = (
            "warc/revisit"
            if record.type == "revisit"
            else mime_of(
                next((v for k, v in record.http_headers if k.lower() == "content-type"), None)
            )
        )
    return Entry(
        record.url,
        timestamp_of(record.headers.get("warc-date", "")),
        mime,
        record.status,
        record.headers.get("warc-payload-digest") or _digest(record),
        record.length,
        record.offset,
        filename,
    )


def _digest(record: WarcRecord) -> str | None:
    """The payload digest that a writer left out; a revisit does not have its payload."""
    if record.type == "revisit":
        return None
    return sha1_digest(record.payload)


def _gzip(lines: list[str]) -> bytes:
    deflate = zlib.compressobj(9, wbits=31)
    return deflate.compress(("\n".join(lines) + "\n").encode()) + deflate.flush()


# what replay shows; a rendered document (conversion) is no answer of a server
REPLAYED = ds.field("warc_filename").is_valid() & ds.field("record_type").isin(
    ["response", "revisit", "resource"]
)


def _is_stored(round_id: str | None) -> ds.Expression:
    stored = REPLAYED
    where = in_round(round_id)
    return stored if where is None else stored & where


def entry_line(row: dict[str, Any], more: bool = False) -> str:
    """The line of a stored capture, a row with COLUMNS."""
    mime = "warc/revisit" if row["record_type"] == "revisit" else mime_of(row["content_type"])
    entry = Entry(
        target_uri(row["sent_url"] or row["url"]),
        row["started"].strftime("%Y%m%d%H%M%S"),
        mime,
        row["status"],
        row["payload_digest"],
        row["warc_record_length"],
        row["warc_record_offset"],
        row["warc_filename"],
    )
    return cdxj_line(
        entry,
        (
            {
                name: row[column]
                for name, column in (("redirect", "redirect_to"), ("truncated", "truncated"))
                if row[column]
            }
            if more
            else None
        ),
    )
