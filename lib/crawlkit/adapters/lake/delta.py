"""The Delta tables of one crawl: read, replace a part, append nothing twice.

Every write replaces whole partitions (those of the round and writer, or of buckets) or the whole
table, so each can be repeated. The tasks write data files under names of their own below the table
and return their names to the driver; then one commit to the Delta log adds them and removes those
they replace. A task that is tried again and a write that dies leave files that no reader sees and
VACUUM removes. docs/decisions/007-delta-commits.md has the reason why Spark's Delta writer is not
used. Writers hold the commit lock W (adapters/store/lease.py); `guard` is called just before each
commit.

In S3 a commit is a put of the next file of the log with `If-None-Match: *`. It may have been done
although its answer was lost; so each carries an id (`put-id` in its commitInfo), and after an error
a look at the log shows whether it was ours.
"""

from __future__ import annotations

import contextlib
import functools
import math
import random
import re
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from crawlkit.adapters.lake.parquet import (
    TableWriter,
    Where,
    add_action,
    arrow_table,
    delta_schema,
    write_files,
)
from crawlkit.adapters.lake.sql_text import in_list, spark_place
from crawlkit.adapters.lake.table_reader import Above, Part, TableError, TableReader
from crawlkit.config.operation_sections import S3
from crawlkit.engine.frame import Engine, Frame, Tasks
from crawlkit.tables import TABLES
from crawlkit.tables.schema import FILES_DDL, Table

SMALL_BYTES = 1 << 20  # Spark gets them from the driver: planning a scan would cost more
DIRECT_FILES = 1000
S3_DIRECT_FILES = 16  # each costs three calls of planning, two of them one after the other
APPEND_TRIES = 10  # an addition meets at most a compaction
_PUT_ID = "put-id"
_PAUSE_S = 0.5
_NO_S3 = S3()
_STATS = "delta.dataSkippingStatsColumns"
_LEFT = re.compile(r"[0-9a-f]{32}\.parquet")  # as delta_files.py names them


class Tables(TableReader):
    """The tables, read by an engine too, and written by commits of our own."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        root: str,
        guard: Callable[[], None] = lambda: None,
        s3: S3 = _NO_S3,
        spool: Path | None = None,
    ) -> None:
        """Opens nothing.

        Args:
            engine: gives the engine when a frame is wanted.
            root: folder or s3://bucket/prefix of the tables.
            guard: called just before each commit.
            spool: local folder of files on their way to S3.
        """
        super().__init__(root, s3 or S3())
        self._engine = engine
        self.guard = guard
        self._spool = spool or Path(tempfile.gettempdir())
        self._writable: frozenset[str] | None = None  # None: every table

    @functools.cached_property
    def engine(self) -> Engine:
        """The engine, started on first use."""
        return self._engine()

    @contextlib.contextmanager
    def only(self, names: Collection[str]) -> Iterator[None]:
        """Let only these tables be written while the context is open."""
        before, self._writable = self._writable, frozenset(names)
        try:
            yield
        finally:
            self._writable = before

    def read(self, name: str, part: Part | None = None, above: Above | None = None) -> Frame:
        """The table, or some partitions of it; an empty frame of its schema if there are none.

        Raises TableError.

        above: only rows in which an integer column (one of `Table.stats`) is above a value; files
        without such a row are not opened.
        """
        t, engine = TABLES[name], self.engine
        if not self.exists(name):
            return self.empty(name)
        try:
            log = self._log(name)
            lacks = self._lacks(name, [f.name for f in log.schema().fields])
            files = list(self._files(log, part, above))
            if not files:
                return self.empty(name)
            columns = {c.name: c.type for c in t.columns}
            paths = [path for path, _, _ in files]
            n_bytes = sum(size for _, size, _ in files)
            if engine.is_small(n_bytes):
                rows = (
                    engine.read_parquet(self.path(name), paths, columns, t.partition_by, n_bytes)
                    if self._store is None
                    else engine.from_dataset(self.dataset(name, part))
                )
            elif n_bytes <= SMALL_BYTES:
                rows = engine.from_arrow(self.arrow(name, list(columns), part))
            # Delta's own scan runs a Spark job on its log for each table of a query
            elif len(files) <= (DIRECT_FILES if self._store is None else S3_DIRECT_FILES):
                place = spark_place(self.path(name))
                rows = engine.read_parquet(place, paths, columns, t.partition_by, n_bytes)
            else:
                rows = engine.read_delta(spark_place(self.path(name)), columns, lacks)
                for c, values in (part or {}).items():
                    rows = rows.where(in_list(c, values))
            return rows if above is None else rows.where(f"{above[0]} > {above[1]}")
        except OSError:  # the JVM has died: no fault of the table
            raise
        except Exception as e:
            raise self.unreadable(name, e) from None

    def empty(self, name: str) -> Frame:
        """No rows of a table."""
        return self.engine.from_arrow(arrow_table(TABLES[name], []))

    def replace(
        self, name: str, data: Frame | Sequence[Mapping[str, Any]], part: Part | None = None
    ) -> None:
        """Put `data` in place of the rows of some partitions (None: of the whole table).

        data: a frame, or rows with times as Unix s; columns that it lacks are null. All its rows
        must lie in `part`.
        """
        self.commit(name, self.write(name, data, part), part)

    def write(
        self, name: str, data: Frame | Sequence[Mapping[str, Any]], part: Part | None = None
    ) -> list[AddAction]:
        """The data files of `replace`, which no reader sees before `commit`."""
        t = TABLES[name]
        several = [c for c in t.partition_by if len((part or {}).get(c, ())) != 1]
        if isinstance(data, Frame):
            # a partition in one task, so in one file, in the order of its key
            tasks = Tasks(several, t.key) if several else Tasks()
            write = functools.partial(write_files, t, self._where(t))
            return self.files(data.map_batches(write, FILES_DDL, tasks))
        return self._write(t, sorted(data, key=lambda r: [str(r.get(c)) for c in several]))

    def files(self, written: Frame) -> list[AddAction]:
        """Lets tasks that write data files themselves do so. written: FILES_DDL."""
        return [add_action(r) for r in written.rows()]

    def writer(self, name: str) -> Callable[[], TableWriter]:
        """A function that makes, in a task, a writer of the table's data files.

        The rows that the writer yields (FILES_DDL) are for `files` and `commit`.
        """
        return functools.partial(TableWriter, TABLES[name], self._where(TABLES[name]))

    def commit(self, name: str, adds: Sequence[AddAction], part: Part | None) -> None:
        """Put data files in place of those of some partitions (None: of the whole table)."""
        if stray := [
            a
            for a in adds
            if part is not None
            and any(
                str(a.partition_values[c]) not in map(str, values) for c, values in part.items()
            )
        ]:
            raise TableError(
                f"table {name}: rows of {stray[0].partition_values} were given for"
                f" {dict(part or {})}; nothing was committed"
            )
        self._commit(TABLES[name], adds, part)

    def append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows (times as Unix s) to an unpartitioned table; another writer's rows stay."""
        t = TABLES[name]
        self._commit(t, self._write(t, rows), None, keep=True)

    def _write(self, t: Table, rows: Sequence[Mapping[str, Any]]) -> list[AddAction]:
        return [
            add_action(r)
            for b in write_files(t, self._where(t), arrow_table(t, rows).to_batches())
            for r in b.to_pylist()
        ]

    def _where(self, t: Table) -> Where:
        return Where(self.path(t.name), self._s3, self._spool)

    def _commit(
        self, t: Table, adds: Sequence[AddAction], part: Part | None, keep: bool = False
    ) -> None:
        """One commit: adds these files and, unless `keep`, removes those of the partitions.

        Done once, whatever answers are lost.
        """
        if self._writable is not None and t.name not in self._writable:
            raise TableError(
                f"table {t.name} is not among those that this stage writes"
                f" ({', '.join(sorted(self._writable))}): name it in the stage's WRITES"
            )
        put_id = uuid.uuid4().hex
        give_up = time.monotonic() + self._s3.give_up_s
        tries = 0
        self._widen(t)
        while True:
            version, put = self._ready(t, adds, part, keep, put_id)
            self.guard()
            try:
                return put()
            except (DeltaError, OSError) as e:
                error, tries = e, tries + 1
            # the disk, not another writer
            if self._store is None and not isinstance(error, CommitFailedError):
                raise error
            now = self._log(t.name).version() if self.exists(t.name) else -1
            if any(put_id in self._entry(t, n) for n in range(version + 1, now + 1)):
                return
            if self._store is not None and now == version:
                if time.monotonic() > give_up:
                    raise self._unreachable(t.name, error)
            elif not keep or tries == APPEND_TRIES:
                # two writers at once are a breach of W: the second fails
                raise TableError(
                    f"table {t.name} at {self.path(t.name)} was written by another process at the"
                    " same time; nothing was committed here: end the other one and run the same"
                    " command again"
                )
            time.sleep(random.uniform(0, _PAUSE_S))

    def _ready(
        self, t: Table, adds: Sequence[AddAction], part: Part | None, keep: bool, put_id: str
    ) -> tuple[int, Callable[[], None]]:
        """The version that a commit follows (-1: no table yet), and the commit."""
        done = CommitProperties(custom_metadata={_PUT_ID: put_id}, max_commit_retries=0)
        if not self.exists(t.name):
            settings = {
                "delta.checkpointInterval": "100" if self._store is None else "10",
                _STATS: ",".join(t.stats),
            }
            return -1, lambda: create_table_with_add_actions(
                self.path(t.name),
                delta_schema(t),
                list(adds),
                partition_by=list(t.partition_by),
                configuration=settings,
                commit_properties=done,
                storage_options=self._options(),
            )
        log = self._log(t.name)
        now_ms = round(time.time() * 1000)
        gone = (
            []
            if keep
            else [
                RemoveAction(path, True, now_ms, size, None)
                for path, size, _ in self._files(log, part)
            ]
        )
        if not adds and not gone:
            return log.version(), lambda: None
        return log.version(), lambda: log.create_write_transaction(
            [*adds, *gone], "append", log.schema(), list(t.partition_by), commit_properties=done
        )

    def _entry(self, t: Table, version: int) -> str:
        """A commit's text.

        (delta-rs' history would keep the lease from being renewed while it reads.)
        """
        key = f"{t.name}/_delta_log/{version:020}.json"
        return (
            Path(self.root, key).read_bytes() if self._store is None else self._store.get(key)[0]
        ).decode("utf-8", "replace")

    def compact(self, name: str, vacuum_hours: float) -> None:
        """Join small files, then remove files that no version younger than `vacuum_hours` names."""
        give_up = time.monotonic() + self._s3.give_up_s
        while self.exists(name):
            self.guard()
            try:
                log = self._log(name)
                log.optimize.compact()
                log.vacuum(
                    math.ceil(vacuum_hours),
                    dry_run=False,
                    enforce_retention_duration=False,
                    full=True,
                )
                return
            except (DeltaError, OSError) as e:  # done or not: doing it again changes nothing
                if self._store is None:
                    raise
                if time.monotonic() > give_up:
                    raise self._unreachable(name, e) from None
            time.sleep(_PAUSE_S)

    def abort_unfinished(self, begun_before: float) -> int:
        """Remove what writers have left unfinished since before a time (Unix s); how many.

        These are uploads of data files, and this machine's files on their way to the store.
        """
        if self._store is None:
            return 0
        left = [
            f
            for f in self._spool.glob("*.parquet")
            if _LEFT.fullmatch(f.name) and f.stat().st_mtime < begun_before
        ]
        for file in left:
            file.unlink(missing_ok=True)
        return self._store.abort_unfinished(begun_before) + len(left)

    def _widen(self, t: Table) -> None:
        """Give a table of an earlier version the columns that it lacks, and statistics of those
        that it is read by now; commits of their own.
        """
        if self.exists(t.name):
            log = self._log(t.name)
            if lacks := self._lacks(t.name, [f.name for f in log.schema().fields]):
                self.guard()
                log.alter.add_columns([f for f in delta_schema(t).fields if f.name in lacks])
            # delta-rs keeps statistics of these columns alone, whatever the files have
            if log.metadata().configuration.get(_STATS) != ",".join(t.stats):
                self.guard()
                log.alter.set_table_properties({_STATS: ",".join(t.stats)})
