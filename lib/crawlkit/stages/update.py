"""update: fetch list, captures and pages of a round -> state rows of crawldb_log.

Contract: one state row for each planned page that is not deferred; a deferred URL stays as it was.
The stage goes on with `host_rows.py` (hostdb) and `fold.py` (crawldb, buckets).
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame, functions as F

from crawlkit.config import Config
from crawlkit.model import Round
from crawlkit.outcomes import Outcome
from crawlkit.rules.frontier.lifecycle import next_row
from crawlkit.stages.arrow import Row, map_rows, to_seconds
from crawlkit.tables import TABLES

READS = (
    "buckets",
    "captures",
    "crawldb",
    "crawldb_log",
    "fetchlist",
    "hostdb",
    "pages",
)  # and the host states in the parts of the round
WRITES = ("buckets", "crawldb", "crawldb_log", "hostdb")

ROW = TABLES["crawldb"].columns
SEEN_TYPES = (
    "outcome: string, reason: string, detail: string, status: int, record_type: string, own_digest:"
    " boolean, truncated: string, etag: string, last_modified: string, content_type: string,"
    " content_length: bigint, capture_id: string, fetched_at: double, copy_url: string,"
    " payload_digest: string, body_sha256: string, text_sha256: string, simhash: bigint, outlinks:"
    " int, page_flags: array<string>, retry_wait_s: double"
)
SEEN_NAMES = tuple(field.split(":")[0].strip() for field in SEEN_TYPES.split(","))


def update(
    fetchlist: DataFrame,
    captures: DataFrame,
    pages: DataFrame,
    states: DataFrame,
    round_: Round,
    cfg: Config,
) -> DataFrame:
    """State rows of crawldb_log for the round's page rows that are not deferred.

    Args:
        fetchlist, captures, pages: of the round.
        states: host, state_json of its hosts (the wait that a host asked for).
    """
    planned = fetchlist.where("kind <> 'robots'").select(
        "url_key", F.struct(*to_seconds(ROW)).alias("row")
    )
    done = captures.where(f"is_outcome AND kind <> 'robots' AND outcome <> '{Outcome.DEFERRED}'")
    asked = F.get_json_object("state_json", "$.retry_after_until").cast("double")
    wait_s = F.greatest(asked - F.col("ended").cast("double"), F.lit(0.0))
    waited = done.join(states, "host", "left").withColumn("retry_wait_s", wait_s)
    seen = seen_of(waited, pages, captures)
    now, number = round_.now, round_.no

    def next_rows(rows: Iterator[Row]) -> Iterator[Row]:
        for r in rows:
            yield next_row(r["row"], r["seen"], now, cfg) | {"updated_no": number}

    return map_rows(
        planned.join(seen, "url_key").select("row", "seen"), next_rows, ROW
    ).withColumns(
        {
            "round_id": F.lit(round_.id),
            "writer": F.lit("update"),
            "kind": F.lit("state"),
            "seq": F.lit(0).cast("bigint"),
            "force": F.lit(False),
        }
    )


def seen_of(done: DataFrame, pages: DataFrame, captures: DataFrame) -> DataFrame:
    """url_key, capture_id, seen (as rules.lifecycle.next_row takes it) of outcomes with their
    retry_wait_s.

    captures: those among which the copies are that revisits refer to; the copy is what a row keeps,
    never the revisit.
    """
    copies = captures.where("record_type = 'response'").select(
        F.col("capture_id").alias("revisit_of"),
        F.col("url").alias("stored_url"),
        F.col("started").alias("stored_at"),
    )
    body = pages.select(
        F.col("capture_id"),
        "body_sha256",
        "text_sha256",
        "simhash",
        F.col("links").alias("outlinks"),
        F.col("flags").alias("page_flags"),
    )
    found = done.join(body, "capture_id", "left").join(copies, "revisit_of", "left")
    is_revisit = F.col("stored_at").isNotNull()
    kept_id = F.when(is_revisit, F.col("revisit_of")).otherwise(F.col("capture_id"))
    is_own = F.col("body_sha256").isNull() & (F.col("record_type") == "revisit")
    derived = {
        "own_digest": is_own,
        "content_length": F.col("body_bytes"),
        "capture_id": kept_id,
        "fetched_at": F.coalesce("stored_at", "started").cast("double"),
        "copy_url": F.when(F.col("stored_url") != F.col("url"), F.col("stored_url")),
    }
    seen = [derived.get(name, F.col(name)).alias(name) for name in SEEN_NAMES]
    return found.select("url_key", "capture_id", F.struct(*seen).alias("seen"))
