"""Replaces WARC files by others without some of their records, and repoints their captures."""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, cast

from crawlkit.adapters.store.objects import Objects
from crawlkit.adapters.store.spool_folder import spool_folder
from crawlkit.adapters.warc.rewrite import Blank, Gone, rewrite
from crawlkit.crawl.state import CrawlError
from crawlkit.engine.frame import Engine, Frame
from crawlkit.round.job import Job
from crawlkit.upkeep.frame_rows import distinct

# the new file's name, and the offset there of each record by its old offset
Place = tuple[str, dict[int, int]]
Moves = Mapping[str, Place]  # by the old file's name
POINTER = ("warc_filename", "warc_record_offset", "warc_record_length", "warc_record_id")
_MARK = re.compile(r"-p[0-9a-f]{8}(?=\.warc\.gz\Z)")


def rewrite_without(
    job: Job, name: str, what: str, gone: Gone, blank: Blank | None = None
) -> Place | None:
    """Store a WARC file under a new name, without the records that are `gone`.

    The new name depends on the old one and on `what` is removed, so a repeat finds the file there.
    Returns None if the file holds nothing of that. Raises CrawlError if the new name is taken.
    """
    new = _name_without(name, what)
    folder = spool_folder(job.cfg, job.crawl.warc_place)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix="rewrite-", suffix=".tmp") as tmp:
        with _local_copy(job.crawl.warc, name, folder) as source:
            moved, changed = rewrite(source, cast(BinaryIO, tmp), gone, blank)
        if not changed:
            return None
        tmp.flush()
        is_new = job.crawl.warc.put_file_if_absent(new, Path(tmp.name))
        if not is_new and job.crawl.warc.size(new) != tmp.tell():
            raise CrawlError(f"{new} exists with another size: remove it if no capture names it")
    return new, moved


def _name_without(name: str, what: str) -> str:
    mark = hashlib.sha256(f"{name} {what}".encode()).hexdigest()[:8]
    return _MARK.sub("", name).removesuffix(".warc.gz") + f"-p{mark}.warc.gz"


@contextlib.contextmanager
def _local_copy(warcs: Objects, name: str, folder: Path) -> Iterator[BinaryIO]:
    """The file on a local disk.

    Each record is read twice, which would be two requests to a store.
    """
    with warcs.open_range(name) as stored:
        if warcs.local_path(name) is not None:
            yield stored
            return
        with tempfile.TemporaryFile(dir=folder) as copy:
            shutil.copyfileobj(stored, copy, 1 << 20)
            copy.seek(0)
            yield copy


def repoint_captures(captures: Frame, moves: Moves) -> Frame:
    """Captures with the places of their records in the new files.

    captures: rows of that table. A capture whose record is in none of the new files gets none.
    """
    engine = captures.engine
    new = {
        "warc_filename": "coalesce(p.new_name, c.warc_filename)",
        "warc_record_offset": "coalesce(p.new_offset, c.warc_record_offset)",
    }
    stays = "p.new_name IS NOT NULL OR m.moved_name IS NULL"
    pointers = {c: f"CASE WHEN {stays} THEN {new.get(c, f'c.{c}')} END" for c in POINTER}
    query = f"""
        SELECT /*+ BROADCAST(p, m) */
            {", ".join(f"{pointers.get(c, f'c.{c}')} AS {c}" for c in captures.columns)}
        FROM {{captures}} AS c
        LEFT JOIN {{places}} AS p
            ON c.warc_filename = p.old_name AND c.warc_record_offset = p.old_offset
        LEFT JOIN {{moved}} AS m ON c.warc_filename = m.moved_name
    """
    moved = engine.from_rows("moved_name string", [(name,) for name in moves])
    return engine.query(query, captures=captures, places=_new_places(engine, moves), moved=moved)


def _new_places(engine: Engine, moves: Moves) -> Frame:
    """old_name, old_offset -> new_name, new_offset."""
    rows = [
        (old_name, old_offset, new_name, new_offset)
        for old_name, (new_name, moved) in moves.items()
        for old_offset, new_offset in moved.items()
    ]
    return engine.from_rows(
        "old_name string, old_offset bigint, new_name string, new_offset bigint", rows
    )


def rounds_of(job: Job, files: Iterable[str]) -> list[str]:
    """Rounds with captures in some WARC files, ascending."""
    names = [(name,) for name in files]
    if not names:
        return []
    query = """
        SELECT c.round_id FROM {captures} AS c SEMI JOIN {files} AS f ON c.warc_filename = f.name
    """
    of_files = job.engine.from_rows("name string", names)
    found = job.engine.query(query, captures=job.read("captures"), files=of_files)
    return [round_id for (round_id,) in distinct(found, "round_id")]
