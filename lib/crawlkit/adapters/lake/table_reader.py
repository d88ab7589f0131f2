"""The Delta tables of one crawl, read without Spark.

Tables in S3 are read by delta-rs with the access of `s3`; an error of the store is not taken for
one of the table.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from crawlkit.adapters.lake.parquet import arrow_table
from crawlkit.adapters.store.objects import StoreUnavailable
from crawlkit.adapters.store.open_store import delta_options, open_objects
from crawlkit.config.operation_sections import S3
from crawlkit.engine.frame import to_rows
from crawlkit.tables import TABLES
from crawlkit.tables.schema import ARROW

if TYPE_CHECKING:
    import pyarrow.dataset

Part = Mapping[str, Sequence[str | int | bytes]]  # partition column -> its values
Above = tuple[str, int]  # column, value


class TableError(RuntimeError):
    """A table is missing, damaged or not ours; the message names it."""

    exit_code = 2


def _literal(value: str | int | bytes) -> str:
    """In DataFusion's SQL."""
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


class TableReader:
    """The tables below `root`: a folder, or s3://bucket/prefix with the access of `s3`."""

    def __init__(self, root: str, s3: S3) -> None:
        self.root = root.rstrip("/")
        self._s3 = s3
        self._store: Any = open_objects(self.root, s3) if "://" in root else None
        # tables in S3 that are there: they stay, and each look is a call
        self._seen: set[str] = set()

    def path(self, name: str) -> str:
        """The place of a table."""
        return f"{self.root}/{TABLES[name].name}"

    def exists(self, name: str) -> bool:
        """Raises StoreUnavailable, StoreRefused."""
        if self._store is not None:
            if name not in self._seen and self._store.any(f"{TABLES[name].name}/_delta_log/0"):
                self._seen.add(name)
            return name in self._seen
        log = Path(self.path(name), "_delta_log")  # a first write that died leaves it empty
        return (
            next(log.glob("[0-9]*.json"), None) is not None
            or next(log.glob("[0-9]*.parquet"), None) is not None
        )

    def rows(
        self, name: str, columns: Sequence[str], part: Part | None = None
    ) -> list[dict[str, Any]]:
        """Rows of a small table or partition, read without Spark; timestamps are Unix s.

        Raises TableError, StoreUnavailable.
        """
        return to_rows(self.arrow(name, columns, part))

    def arrow(self, name: str, columns: Sequence[str], part: Part | None = None) -> pa.Table:
        """The same rows as Arrow, in no order."""
        if not self.exists(name):
            return arrow_table(TABLES[name], []).select(list(columns))
        try:
            log = self._log(name)
            lacks = self._lacks(name, [f.name for f in log.schema().fields])
            shown = ", ".join(f'NULL AS "{c}"' if c in lacks else f'"{c}"' for c in columns)
            where = " AND ".join(
                f'"{c}" IN ({", ".join(map(_literal, values)) or "NULL"})'
                for c, values in (part or {}).items()
            )
            query = f"SELECT {shown} FROM t" + (f" WHERE {where}" if where else "")
            found = QueryBuilder().register("t", log).execute(query)
            table = pa.RecordBatchReader.from_stream(found).read_all()
            types = {c.name: ARROW[c.type] for c in TABLES[name].columns}
            return table.cast(pa.schema([(c, types[c]) for c in columns]))
        except Exception as e:
            raise self.unreadable(name, e) from None

    def local_files(self, name: str, part: Part | None = None) -> list[str]:
        """Paths of the current files of a table on this machine (of some partitions); none in S3.

        Raises TableError.
        """
        try:
            return (
                [f"{self.path(name)}/{path}" for path, _, _ in self._files(self._log(name), part)]
                if self._store is None and self.exists(name)
                else []
            )
        except Exception as e:
            raise self.unreadable(name, e) from None

    def dataset(self, name: str, part: Part | None = None) -> pyarrow.dataset.Dataset:
        """The table's current files as an Arrow dataset, read lazily; no rows if there is no table.

        Raises TableError.
        """
        import pyarrow.dataset as ds  # it loads pandas, which takes 0.4 s

        if not self.exists(name):
            return ds.dataset(arrow_table(TABLES[name], []))
        try:
            dataset = self._log(name).to_pyarrow_dataset()
            if lacks := self._lacks(name, dataset.schema.names):
                dataset = dataset.replace_schema(
                    pa.schema(
                        [
                            *dataset.schema,
                            *(
                                pa.field(c.name, ARROW[c.type])
                                for c in TABLES[name].columns
                                if c.name in lacks
                            ),
                        ]
                    )
                )
        except Exception as e:
            raise self.unreadable(name, e) from None
        wanted = [
            ds.field(c).isin(pa.array(list(values), dataset.schema.field(c).type))
            for c, values in (part or {}).items()
        ]
        return dataset.filter(functools.reduce(operator.and_, wanted)) if wanted else dataset

    def count(self, name: str, part: Part | None = None, above: Above | None = None) -> int:
        """Rows of some partitions (None: of the table), from the log alone.

        above: only files that have a row above it are counted, with all their rows.
        """
        return (
            sum(n for _, _, n in self._files(self._log(name), part, above))
            if self.exists(name)
            else 0
        )

    def bytes(self, name: str) -> int:
        """Size of the table's current files."""
        return (
            sum(size for _, size, _ in self._files(self._log(name), None))
            if self.exists(name)
            else 0
        )

    def _log(self, name: str) -> "DeltaTable":

        try:
            return DeltaTable(self.path(name), storage_options=self._options())
        except OSError as e:
            raise e if self._store is None else self._unreachable(name, e) from None

    def _options(self) -> dict[str, str] | None:
        """delta-rs' storage options."""
        return delta_options(self.root, self._s3)

    def _files(
        self, log: "DeltaTable", part: Part | None, above: Above | None = None
    ) -> Iterator[tuple[str, int, int]]:
        """(path, bytes, rows) of the current files of some partitions, without those that have no
        row `above`.
        """
        reader = pa.RecordBatchReader.from_stream(log.get_add_actions(flatten=True))
        actions = reader.read_all()
        wanted = {f"partition.{c}": {str(v) for v in values} for c, values in (part or {}).items()}
        values = [actions.column(c).to_pylist() for c in wanted]
        most = (
            actions.column(f"max.{above[0]}").to_pylist()
            if above is not None and f"max.{above[0]}" in actions.column_names
            else None
        )
        for i, (path, size, rows) in enumerate(
            zip(
                *(actions.column(c).to_pylist() for c in ("path", "size_bytes", "num_records")),
                strict=True,
            )
        ):
            below = above is not None and most and most[i] is not None and most[i] <= above[1]
            if not below and all(
                str(column[i]) in allowed
                for column, allowed in zip(values, wanted.values(), strict=True)
            ):
                yield path, size, rows

    def _lacks(self, name: str, have: Sequence[str]) -> list[str]:
        """Columns that the table got in a later version of this program: null until it is next
        written. Raises TableError if it is no table of ours.
        """
        t = TABLES[name]
        lacks = [c for c in t.column_names if c not in have]
        if foreign := [c for c in lacks if c in (*t.key, *t.partition_by)]:
            raise TableError(f"it has no column {', '.join(foreign)}")
        return lacks

    def unreadable(self, name: str, e: Exception) -> Exception:
        """What to raise when a table's files cannot be read."""
        if self._store is not None and isinstance(e, OSError):
            return self._unreachable(name, e)
        what = "it" if self._store is not None else "the folder"
        return TableError(
            f"table {name} at {self.path(name)} cannot be read: {str(e).splitlines()[0]:.300};"
            f" restore {what} from a copy"
        )

    def _unreachable(self, name: str, e: Exception) -> StoreUnavailable:
        return self.unreachable(self.path(name), e, f"table {name} at ")

    @staticmethod
    def unreachable(place: str, e: Exception, what: str = "") -> StoreUnavailable:
        """What to raise when the store of a place does not answer."""
        text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(e)).split())
        return (
            e
            if isinstance(e, StoreUnavailable)
            else StoreUnavailable(
                f"{what}{place} cannot be reached: {text:.400}; check that the store is up and"
                " s3.endpoint_url is right"
            )
        )
