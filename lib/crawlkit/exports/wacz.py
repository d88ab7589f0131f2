"""WACZ 1.1.1: WARC files, their index and pages in one ZIP for replay tools."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow.dataset as ds

from crawlkit.exports.cdxj import COLUMNS, REPLAYED, entry_line, gzip_blocks
from crawlkit.exports.files import atomic, sorted_lines
from crawlkit.exports.source import Source
from crawlkit.exports.wet import texts
from crawlkit.exports.withheld import withheld
from crawlkit.version import __version__

VERSION = "1.1.1"
BLOCK_LINES = 300
_PIECE = 1 << 20
_PLACE = ("warc_filename", "warc_record_offset", "warc_record_length")
_DATE = (1980, 1, 1, 0, 0, 0)  # of the ZIP entries: the same crawl gives the same file


def export_wacz(
    source: Source,
    out: Path,
    *,
    title: str = "",
    round_id: str | None = None,
    with_text: bool = False,
) -> dict[str, Any]:
    """Write one WACZ file of a crawl or of one round.

    `with_text`: the pages list holds their text. Records that lie beyond the end of their WARC
    file, which was cut, are in no index and counted (`damaged`), with some examples.
    """
    where = REPLAYED
    if round_id is not None:
        where &= ds.field("round_id") == source.rounds(round_id)[0]
    rows = source.rows("captures", ["capture_id", "started", *_PLACE], where)
    left_out = withheld(source)  # their bytes are in the WARC files; no page and no index has them
    captures = {r["capture_id"]: r for r in rows if r["capture_id"] not in left_out}
    cut: dict[str, str] = {}
    indexed = (r for r in source.rows("captures", COLUMNS, where) if r["capture_id"] in captures)
    with atomic(out) as f, zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as z:
        resources = [*_archives(z, source, {r["warc_filename"] for r in captures.values()})]
        cut = _cut_records(captures, {r["path"]: r["bytes"] for r in resources})
        captures = {name: r for name, r in captures.items() if name not in cut}
        resources += _index(z, map(entry_line, indexed))
        pages = _pages(source, captures, round_id, with_text)
        resources.append(_add(z, "pages/pages.jsonl", _page_lines(pages, with_text)))
        _add_package(z, _package(resources, title or source.cfg.crawl.id, captures))
    return {
        "file": str(out),
        "bytes": os.path.getsize(out),
        "records": len(captures),
        "resources": len(resources),
        "damaged": len(cut),
        "damaged_examples": [*cut.values()][:5],
    }


def _cut_records(captures: dict[str, dict[str, Any]], sizes: dict[str, int]) -> dict[str, str]:
    """capture_id -> what is wrong, of records that end beyond their file. sizes: of the entries."""
    found = {}
    for name, r in captures.items():
        size = sizes[f"archive/{r['warc_filename']}"]
        end = (r["warc_record_offset"] or 0) + (r["warc_record_length"] or 0)
        if end > size:
            found[name] = f"{r['warc_filename']}: a record ends at byte {end} of {size}"
    return found


def _archives(z: zipfile.ZipFile, source: Source, names: set[str]) -> Iterator[dict[str, Any]]:
    """Add the WARC files; their rows of the data package."""
    for name in sorted(names):
        with source.warc.open_range(name) as warc:
            yield _add(z, f"archive/{name}", _pieces(warc))


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


def _page_lines(pages: Iterable[dict[str, Any]], with_text: bool) -> Iterator[bytes]:
    """pages/pages.jsonl: a head line, then a line a page."""
    head = {"format": "json-pages-1.0", "id": "pages", "title": "All Pages", "hasText": with_text}
    for row in itertools.chain([head], pages):
        yield json.dumps(row).encode() + b"\n"


def _add_package(z: zipfile.ZipFile, package: dict[str, Any]) -> None:
    """Add datapackage.json and its digest."""
    data = json.dumps(package, indent=1).encode()
    digest = {"path": "datapackage.json", "hash": "sha256:" + hashlib.sha256(data).hexdigest()}
    _add(z, "datapackage.json", [data])
    _add(z, "datapackage-digest.json", [json.dumps(digest).encode()])


def _add(z: zipfile.ZipFile, path: str, pieces: Iterable[bytes]) -> dict[str, Any]:
    """One entry, stored as it is; its row of the data package."""
    digest, size = hashlib.sha256(), 0
    with z.open(zipfile.ZipInfo(path, _DATE), "w", force_zip64=True) as f:
        for piece in pieces:
            digest.update(piece)
            size += len(piece)
            f.write(piece)
    return {
        "name": path.rpartition("/")[2].lower(),
        "path": path,
        "hash": f"sha256:{digest.hexdigest()}",
        "bytes": size,
    }


def _index(z: zipfile.ZipFile, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """`indexes/index.cdx.gz` in gzip blocks, and `index.idx` with the place of each block."""
    head = json.dumps({"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"})
    with tempfile.TemporaryFile() as packed:
        places = [f"!meta 0 {head}\n"]
        for first, data, _ in gzip_blocks(sorted_lines(lines), BLOCK_LINES):
            key, timestamp, _ = first.split(" ", 2)
            where = json.dumps(
                {
                    "offset": packed.tell(),
                    "length": len(data),
                    "digest": "sha256:" + hashlib.sha256(data).hexdigest(),
                }
            )
            places.append(f"{key} {timestamp} {where}\n")
            packed.write(data)
        packed.seek(0)
        yield _add(z, "indexes/index.cdx.gz", _pieces(packed))
    yield _add(z, "indexes/index.idx", (place.encode() for place in places))


def _pages(
    source: Source, found: dict[str, dict[str, Any]], round_id: str | None, with_text: bool
) -> Iterator[dict[str, Any]]:
    for page in texts(source, round_id):
        if (capture := found.get(page["capture_id"])) is not None:
            row = {
                "id": page["capture_id"],
                "url": page["url"],
                "ts": capture["started"].strftime("%Y-%m-%dT%H:%M:%SZ"),
                "title": page["title"] or page["url"],
            }
            yield row | {"text": page["text"]} if with_text and page["text"] else row


def _package(
    resources: list[dict[str, Any]], title: str, found: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    last = max((r["started"] for r in found.values()), default=None)
    created = last.strftime("%Y-%m-%dT%H:%M:%SZ") if last is not None else "1970-01-01T00:00:00Z"
    return {
        "profile": "data-package",
        "wacz_version": VERSION,
        "title": title,
        "software": f"crawlkit/{__version__}",
        "created": created,
        "resources": resources,
    }
