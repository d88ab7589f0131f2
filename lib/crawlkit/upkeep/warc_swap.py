"""WARC files that are replaced by others without some of their records, and the captures that
follow the records kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from pyspark.sql import DataFrame, functions as F

from crawlkit.adapters.store.objects import Objects
from crawlkit.adapters.store.spool_folder import spool_folder
from crawlkit.adapters.warc.rewrite import Blank, Gone, rewrite
from crawlkit.crawl.state import CrawlError
from crawlkit.round.job import Job

Moves = Mapping[
    str, tuple[str, dict[int, int]]
]  # old file -> new file, and where its records stand there
POINTER = ("warc_filename", "warc_record_offset", "warc_record_length", "warc_record_id")
_MARK = re.compile(r"-p[0-9a-f]{8}(?=\.warc\.gz\Z)")


def rewritten(
    job: Job, name: str, what: str, gone: Gone, blank: Blank | None = None
) -> tuple[str, dict[int, int]] | None:
    """Stores the file without the records that are `gone`, under a name that depends on its own and
    on `what` is gone: a repeat finds it there.

    None if it holds nothing of them.
    """
    mark = hashlib.sha256(f"{name} {what}".encode()).hexdigest()[:8]
    new = _MARK.sub("", name).removesuffix(".warc.gz") + f"-p{mark}.warc.gz"
    folder = spool_folder(job.cfg, job.crawl.warc_place)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix="rewrite-", suffix=".tmp") as tmp:
        with _at_hand(job.crawl.warc, name, folder) as source:
            moved, changed = rewrite(source, tmp, gone, blank)
        if not changed:
            return None
        tmp.flush()
        if (
            not job.crawl.warc.put_file_if_absent(new, Path(tmp.name))
            and job.crawl.warc.size(new) != tmp.tell()
        ):
            raise CrawlError(f"{new} exists with another size: remove it if no capture names it")
    return new, moved


@contextlib.contextmanager
def _at_hand(warcs: Objects, name: str, folder: Path) -> Iterator[BinaryIO]:
    """The file on a local disk: each record is read twice, which would be two requests to a
    store.
    """
    with warcs.open_range(name) as there:
        if warcs.local_path(name) is not None:
            yield there
            return
        with tempfile.TemporaryFile(dir=folder) as here:
            shutil.copyfileobj(there, here, 1 << 20)
            here.seek(0)
            yield here


def followed(job: Job, captures: DataFrame, moves: Moves) -> DataFrame:
    """Captures with the places of their records in the new files; one whose record is in none any
    more points nowhere.
    """

    places = job.spark.createDataFrame(
        [(old, o, new, n) for old, (new, moved) in moves.items() for o, n in moved.items()],
        "warc_filename string, warc_record_offset bigint, new_name string, new_offset bigint",
    )
    at = captures.join(F.broadcast(places), ["warc_filename", "warc_record_offset"], "left")
    stays = (
        F.col("new_name").isNotNull()
        | F.col("warc_filename").isNull()
        | ~F.col("warc_filename").isin(list(moves))
    )
    new = {
        "warc_filename": F.coalesce("new_name", "warc_filename"),
        "warc_record_offset": F.coalesce("new_offset", "warc_record_offset"),
    }
    return at.withColumns({c: F.when(stays, new.get(c, F.col(c))) for c in POINTER}).drop(
        "new_name", "new_offset"
    )


def rounds_of(job: Job, files: Any) -> list[str]:
    """Rounds with captures in some files."""

    return (
        sorted(
            r[0]
            for r in (
                job.read("captures")
                .where(F.col("warc_filename").isin(list(files)))
                .select("round_id")
                .distinct()
                .collect()
            )
        )
        if files
        else []
    )
