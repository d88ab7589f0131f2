"""dedup: the round's pages against everything known -> contents, sim_bands, similar, duplicates (H1
to H3).

Equal texts are one node, so a million copies of one page cost one comparison. Near-duplicate texts
meet in MinHash bands or SimHash blocks; each candidate pair is verified by its shingles. Pairs of
texts never change, so all but `duplicates` is appended. A URL that became another's duplicate, or
is none any more, is told to the frontier by the log.

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
from crawlkit.model import Round
from crawlkit.parsing.table_files import Writer
from crawlkit.rules.duplicates.clusters import IS_COPY
from crawlkit.rules.duplicates.fingerprint import minhash_bands, simhash_blocks
from crawlkit.rules.frontier.lifecycle import DUPLICATE
from crawlkit.rules.url.canonical import host_of
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.stages.arrow import Row, map_rows
from crawlkit.tables import FILES_DDL, TABLES
from crawlkit.tables.ddl import arrow_schema

READS = (
    "captures",
    "contents",
    "crawldb_log",
    "duplicates",
    "pages",
    "ranks",
    "sim_bands",
    "similar",
)
WRITES = ("contents", "crawldb_log", "duplicates", "sim_bands", "similar")


def contents_of(pages: Frame, captures: Frame, round_: Round) -> Frame:
    """`contents` of the round: the text of each page read, and each redirect."""
    query = f"""
        SELECT url_key, url, capture_id, text_sha256, '{round_.id}' AS round_id,
            {round_.no} AS round_no,
            CASE WHEN array_contains(flags, 'cross_site_canonical') OR canonical = url THEN NULL
                ELSE canonical END AS canonical,
            CAST(NULL AS string) AS redirect_to
        FROM (
            SELECT *, row_number() OVER (PARTITION BY url_key ORDER BY capture_id) AS n
            FROM {{pages}}
        ) AS p WHERE n = 1
        UNION ALL
        SELECT url_key, url, capture_id, CAST(NULL AS string), '{round_.id}', {round_.no},
            CAST(NULL AS string), redirect_to
        FROM {{captures}} WHERE {REDIRECTS}
    """
    return pages.engine.query(query, pages=pages, captures=captures)


REDIRECTS = "is_outcome AND kind = 'page' AND outcome = 'redirected' AND redirect_to IS NOT NULL"


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


def flag_rows(old: Frame, earlier: Frame, new: Frame, round_: Round, buckets: int) -> Frame:
    """Rows of kind flags of crawldb_log for the URLs that became a duplicate, or are none any more.

    Args:
        old, new: `duplicates` before and after the round.
        earlier: rows that this stage wrote into the log when it ran before.
    """
    query = f"""
        SELECT url_key, min(url) AS url, max(is_now) AS is_now FROM (
            SELECT url_key, url, 1 AS was, 0 AS is_now, 0 AS again
            FROM {{old}} WHERE {IS_COPY}
            UNION ALL
            SELECT url_key, url, 0, 1, 0 FROM {{new}} WHERE {IS_COPY}
            UNION ALL
            SELECT url_key, url, 0, 0, 1 FROM {{earlier}}
        ) AS seen GROUP BY url_key HAVING max(was) <> max(is_now) OR max(again) = 1
    """
    changed = old.engine.query(query, old=old, new=new, earlier=earlier)
    return map_rows(changed, partial(_flag_rows, round_, buckets), TABLES["crawldb_log"].columns)


def _flag_rows(round_: Round, buckets: int, rows: Iterator[Row]) -> Iterator[dict[str, Any]]:
    same = {"updated_no": round_.no, "round_id": round_.id, "writer": "dedup", "kind": "flags"}
    for r in rows:
        host = host_of(r["url"])
        domain = registered_domain(host)
        place = {"host": host, "domain": domain, "host_bucket": host_bucket(domain, buckets)}
        url = {"url_key": r["url_key"], "url": r["url"], "seq": 0}
        yield same | place | url | {"flags": [DUPLICATE] if r["is_now"] else []}
