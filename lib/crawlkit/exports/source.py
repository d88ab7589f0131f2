"""What exports read: the tables by delta-rs, in batches and without Spark, and the WARC files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from crawlkit.adapters.store.open_store import delta_options
from crawlkit.config import Config, ConfigError
from crawlkit.crawl.state import Crawl, Place

BATCH_ROWS = 4096


class Source:
    """A crawl to be exported. Raises ConfigError if there is none at `data`."""

    def __init__(self, data: Place, cfg: Config) -> None:
        self.cfg, self.crawl = cfg, Crawl(data, cfg)
        self.warc, self._tables = self.crawl.warc, self.crawl.plain_tables()
        if not self.has("captures"):
            raise ConfigError(
                f"--data {data}: no crawl there (no table captures in {self.crawl.tables_root});"
                " run `crawlkit crawl` first"
            )

    def has(self, table: str) -> bool:
        """Whether the table has been written. Raises StoreUnavailable, StoreRefused."""
        return self._tables.exists(table)

    def is_table(self, place: str) -> bool:
        """Whether there is a table at a place, which may be outside of the crawl.

        Raises StoreUnavailable.
        """
        try:
            return DeltaTable.is_deltatable(place, self.options(place))
        except OSError as e:
            raise self._tables.unreachable(place, e) from None

    def rows(
        self, table: str, columns: Sequence[str], where: pc.Expression | None = None
    ) -> Iterator[dict[str, Any]]:
        """Rows of a table (none if it was never written). Raises TableError, StoreUnavailable."""
        for batch in self.batches(table, columns, where):
            yield from batch.to_pylist()

    def batches(
        self, table: str, columns: Sequence[str], where: pc.Expression | None = None
    ) -> Iterator[Any]:
        """The same as Arrow record batches; memory is bounded by a few of them."""
        if not self.has(table):
            return
        found = self._tables.dataset(table)
        try:
            yield from found.to_batches(
                columns=list(columns),
                filter=where,
                batch_size=BATCH_ROWS,
                batch_readahead=2,
                fragment_readahead=1,
            )
        except (OSError, pa.ArrowException) as e:
            raise self._tables.unreadable(table, e) from None

    def rounds(self, round_id: str | None = None) -> list[str]:
        """Rounds whose captures are in the table, in order of their names, or the one requested.

        Raises ConfigError.
        """
        known = sorted({r["round_id"] for r in self.rows("captures", ["round_id"])})
        if round_id is not None and round_id not in known:
            raise ConfigError(
                f"--round-id {round_id}: no captures of it; known:"
                f" {', '.join(known[-5:]) or 'none'}"
            )
        return known if round_id is None else [round_id]

    def options(self, place: str) -> dict[str, str] | None:
        """delta-rs' options for a table at a place."""
        return delta_options(place, self.cfg.s3)


def in_round(round_id: str | None) -> pc.Expression | None:
    """The filter for one round's rows."""
    return None if round_id is None else pc.field("round_id") == round_id
