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

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from crawlkit.config import Dedup
from crawlkit.parsing.table_files import Writer
from crawlkit.rules.duplicates.fingerprint import minhash_bands, simhash_blocks
from crawlkit.tables import FILES_DDL

READS = ("contents", "duplicates", "pages", "ranks", "sim_bands", "similar")
WRITES = ("contents", "duplicates", "sim_bands", "similar")


def contents_of(pages: DataFrame, round_id: str, round_no: int) -> DataFrame:
    """`contents` of the round: the text of each page read."""
    return (
        pages.select("url_key", "url", "capture_id", "text_sha256")
        .dropDuplicates(["url_key"])
        .withColumns({"round_id": F.lit(round_id), "round_no": F.lit(round_no)})
    )


def new_bands(
    pages: DataFrame, known: DataFrame, cfg: Dedup, round_id: str, writer: Callable[[], Writer]
) -> DataFrame:
    """Writes `sim_bands` of texts that no earlier round brought; the files (FILES_DDL).

    known: sim_bands of other rounds.
    """
    texts = (
        pages.where("simhash IS NOT NULL AND minhash IS NOT NULL")
        .groupBy("text_sha256")
        .agg(F.min_by(F.struct("capture_id", "simhash", "minhash"), "capture_id").alias("p"))
    )
    fresh = texts.select("text_sha256", "p.*").join(
        known.select("text_sha256").distinct(), "text_sha256", "left_anti"
    )
    threshold = cfg.jaccard

    def explode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = []
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
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array(c, f.type)
                        for c, f in zip(zip(*rows, strict=True), _BANDS, strict=True)
                    ],
                    schema=_BANDS,
                )

    return fresh.select("text_sha256", "capture_id", "simhash", "minhash").mapInArrow(
        lambda batches: writer().write(explode(batches)), FILES_DDL
    )


_BANDS = pa.schema(
    [
        ("scheme", pa.string()),
        ("band", pa.int32()),
        ("hash", pa.int64()),
        ("text_sha256", pa.string()),
        ("capture_id", pa.string()),
        ("simhash", pa.int64()),
        ("round_id", pa.string()),
    ]
)
