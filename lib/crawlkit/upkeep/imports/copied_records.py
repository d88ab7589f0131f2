"""The records that an import takes, copied into WARC files of the crawl and named by a part."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence

from crawlkit.adapters.store.parts import Record, WarcFile, encode, encode_part, part_key
from crawlkit.adapters.store.spool_folder import spool_folder
from crawlkit.adapters.warc.writer import WarcWriter
from crawlkit.crawl.open_crawl import OpenCrawl
from crawlkit.crawl.state import Crawl
from crawlkit.model import Round
from crawlkit.upkeep.imports.foreign_records import Found
from crawlkit.version import __version__

LOG_RECORDS = 10_000  # captures of a log record: some 8 MB
_ROUND_FIELDS = ("id", "no", "now", "seed", "config_digest", "opened_at", "rules", "imported")


def copy_records(job: OpenCrawl, round_: Round, found: Sequence[Found]) -> None:
    """Copy records, in their order, and write the round's one part; captures learn their places.

    Each file ends with the log of its captures (adapters/warc/capture_log.py). Raises OSError,
    Refused (WARC_DAMAGED): a file was changed meanwhile, or the disk does not hold what was
    written.
    """
    crawl = job.crawl
    folder = spool_folder(job.cfg, crawl.warc_place) / round_.id
    shutil.rmtree(folder, ignore_errors=True)
    writer = WarcWriter(
        folder,
        (job.cfg.crawl.id, round_.id, 0, 1),
        {"software": f"crawlkit/{__version__}", "isPartOf": job.cfg.crawl.id},
        roll_bytes=job.cfg.warc.roll_bytes,
        roll_s=float("inf"),
        clock=lambda: round_.opened_at,  # a repeat makes the same names
    )
    records: list[Record] = []
    pending: list[Record] = []
    try:
        for f in found:
            with f.source.path.open("rb") as file:
                file.seek(f.source.offset)
                place = writer.copy(file.read(f.source.length))
            c = f.capture
            c.warc_filename, c.warc_record_offset, c.warc_record_length = place
            pending += [c] if f.robots is None else [c, f.robots]
            if len(pending) >= LOG_RECORDS or writer.due():
                records += _log(writer, round_, pending)
                pending = []
            if writer.due():
                records += _store(crawl, writer)
        if pending:
            records += _log(writer, round_, pending)
        records += _store(crawl, writer)
    finally:
        writer.abandon()
        shutil.rmtree(folder, ignore_errors=True)
    crawl.objects.put(part_key(round_.id, 0, 1, 0), encode_part(records))


def _log(writer: WarcWriter, round_: Round, records: list[Record]) -> Iterable[Record]:
    """The records, once they are logged."""
    about = {name: getattr(round_, name) for name in _ROUND_FIELDS}
    lines = [("round", json.dumps(about, separators=(",", ":")).encode())]
    for line in map(encode, records):
        lines.append((json.loads(line)["rec"], line))
    writer.write_log(lines)
    return records


def _store(crawl: Crawl, writer: WarcWriter) -> list[Record]:
    """Close the open file and store it; what lies there under its name is of a run that was
    killed.
    """
    finished = writer.close()
    if finished is None:
        return []
    name = finished.filename
    if not crawl.warc.put_file_if_absent(name, finished.path):
        crawl.warc.delete(name)
        crawl.warc.put_file_if_absent(name, finished.path)
    return [WarcFile(name, name, finished.size, finished.records)]
