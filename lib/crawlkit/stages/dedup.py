"""dedup: the round's pages against everything known -> contents, sim_bands, similar, duplicates (H1
to H3).

Equal texts are one node, so a million copies of one page cost one comparison. Near-duplicate texts
meet in MinHash bands or SimHash blocks; each candidate pair is verified by its shingles. Pairs of
texts never change, so all but `duplicates` is appended.

Contract: three steps, each of which reads what the one before wrote. Here the texts and bands of
the round; `compare.py` finds and verifies pairs; `cluster.py` joins them to clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from crawlkit.config import Dedup
from crawlkit.engine.frame import Batches, Frame
from crawlkit.parsing.table_files import Writer
from crawlkit.rules.duplicates.fingerprint import minhash_bands, simhash_blocks
from crawlkit.tables import FILES_DDL
from crawlkit.tables.ddl import arrow_schema

READS = ("contents", "duplicates", "pages", "ranks", "sim_bands", "similar")
WRITES = ("contents", "duplicates", "sim_bands", "similar")


def contents_of(pages: Frame, round_id: str, round_no: int) -> Frame:
    """`contents` of the round: the text of each page read."""
    query = f"""
        SELECT url_key, url, capture_id, text_sha256, '{round_id}' AS round_id,
            {round_no} AS round_no
        FROM (
            SELECT *, row_number() OVER (PARTITION BY url_key ORDER BY capture_id) AS n
            FROM {{pages}}
        ) AS p WHERE n = 1
    """
    return pages.engine.query(query, pages=pages)


def new_bands(
    pages: Frame, known: Frame, cfg: Dedup, round_id: str, writer: Callable[[], Writer]
) -> Frame:
    """Writes `sim_bands` of texts that no earlier round brought; the files (FILES_DDL).

    known: sim_bands of other rounds.
    """
    query = """
        SELECT text_sha256, capture_id, simhash, minhash FROM (
            SELECT *, row_number() OVER (PARTITION BY text_sha256 ORDER BY capture_id) AS n
            FROM {pages} WHERE simhash IS NOT NULL AND minhash IS NOT NULL
        ) AS p
        ANTI JOIN (SELECT DISTINCT text_sha256 FROM {known}) AS k
        ON p.text_sha256 = k.text_sha256
        WHERE n = 1
    """
    fresh = pages.engine.query(query, pages=pages, known=known)
    return fresh.map_batches(partial(_write_bands, cfg.jaccard, round_id, writer), FILES_DDL)


def _write_bands(
    threshold: float, round_id: str, writer: Callable[[], Writer], batches: Batches
) -> Batches:
    return writer().write(_explode(threshold, round_id, batches))


def _explode(threshold: float, round_id: str, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The bands of each text."""
    for batch in batches:
        rows: list[tuple[Any, ...]] = []
        for text, capture, simhash, minhash in zip(
            *(c.to_pylist() for c in batch.columns), strict=True
        ):
            rows += [
                ("simhash", band, value, text, capture, simhash, round_id)
                for band, value in simhash_blocks(simhash)
            ]
            rows += [
                ("minhash", band, value, text, capture, simhash, round_id)
                for band, value in minhash_bands(minhash, threshold)
            ]
        if rows:
            columns = [
                pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), _BANDS, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=_BANDS)


_BANDS = arrow_schema(
    "scheme string, band int, hash bigint, text_sha256 string, capture_id string, simhash bigint,"
    " round_id string"
)
