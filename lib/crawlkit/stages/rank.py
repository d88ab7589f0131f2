"""rank: in-links of pages, host quality and proposed parameter rules, into tables of their own.

Contract: each table is written whole; generate and dedup join them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, Window, functions as F

from crawlkit.rules.url.canonical import HOST_PATTERN
from crawlkit.rules.url.params import Seen, propose_params

READS = (
    "captures",
    "domain_authority",
    "duplicates",
    "hostdb",
    "links",
    "pages",
)
WRITES = ("host_ranks", "param_rules", "ranks")

PARAM_PAGES = 20_000  # of one host, the first by key


def page_ranks(links: DataFrame, round_no: int) -> DataFrame:
    """`ranks`: distinct pages and hosts that link to each URL; a page's links to itself do not
    count.
    """
    real = links.where("refused IS NULL AND to_key IS NOT NULL AND from_key <> to_key")
    host = F.regexp_extract("from_url", HOST_PATTERN, 1)
    return (
        real.groupBy(F.col("to_key").alias("url_key"))
        .agg(
            F.countDistinct("from_key").alias("inlinks"),
            F.countDistinct(host).alias("inlink_hosts"),
        )
        .withColumn("round_no", F.lit(round_no))
    )


def host_ranks(
    links: DataFrame,
    captures: DataFrame,
    duplicates: DataFrame,
    hostdb: DataFrame,
    authority: DataFrame,
    round_no: int,
) -> DataFrame:
    """`host_ranks`: quality 0..1 = 0.5 + 0.1 log10(1 + in-link hosts), at most +0.3, + 0.2
    authority of its domain (the most that a list gives it), - 0.3 error share - 0.2 duplicate
    share.

    Ranks by the link graph come later; a host that nothing is known of has 0.5.
    """
    ranked = authority.groupBy("domain").agg(F.max("authority").alias("authority"))
    joined = (
        hostdb.select("host", "domain", "pages")
        .join(ranked, "domain", "left")
        .join(_inlink_hosts(links), "host", "left")
        .join(_error_shares(captures), "host", "left")
        .join(_aliases(duplicates), "host", "left")
        .withColumns(
            {name: F.coalesce(name, F.lit(0.0)) for name in ("authority", "error_share", "aliases")}
            | {"inlink_hosts": F.coalesce("inlink_hosts", F.lit(0))}
        )
    )
    share = F.when(
        F.col("pages") > 0, F.least(F.lit(1.0), F.col("aliases") / F.col("pages"))
    ).otherwise(0.0)
    quality = (
        F.lit(0.5)
        + F.least(F.lit(0.3), 0.1 * F.log10(1.0 + F.col("inlink_hosts")))
        + 0.2 * F.col("authority")
        - 0.3 * F.col("error_share")
        - 0.2 * share
    )
    return joined.select(
        "host",
        "inlink_hosts",
        "pages",
        "error_share",
        share.alias("duplicate_share"),
        F.greatest(F.lit(0.0), F.least(F.lit(1.0), quality)).alias("quality"),
        F.lit(round_no).alias("round_no"),
    )


def _inlink_hosts(links: DataFrame) -> DataFrame:
    """Other hosts that link to each host: host, inlink_hosts."""
    from_host = F.regexp_extract("from_url", HOST_PATTERN, 1)
    return (
        links.where("refused IS NULL AND to_host IS NOT NULL")
        .where(from_host != F.col("to_host"))
        .groupBy(F.col("to_host").alias("host"))
        .agg(F.countDistinct(from_host).alias("inlink_hosts"))
    )


def _error_shares(captures: DataFrame) -> DataFrame:
    """The share of each host's requests for pages that failed: host, error_share."""
    failed = F.col("outcome").isin("failed").cast("double")
    answered_5xx = F.coalesce(F.col("status") >= 500, F.lit(False)).cast("double")
    is_error = failed + answered_5xx
    return (
        captures.where("is_outcome AND kind = 'page' AND started IS NOT NULL")
        .groupBy("host")
        .agg(F.avg(is_error).alias("error_share"))
    )


def _aliases(duplicates: DataFrame) -> DataFrame:
    """Pages of each host that duplicate another: host, aliases."""
    host = F.regexp_extract("url", HOST_PATTERN, 1).alias("host")
    copies = duplicates.where("method <> 'canonical'")
    return copies.groupBy(host).agg(F.count("*").alias("aliases"))


def param_rules(pages: DataFrame, round_no: int) -> DataFrame:
    """`param_rules`: what the newest pages of each host with query strings say about their
    parameters (REQUIREMENTS C3).

    Of a host at most PARAM_PAGES pages are looked at, those with the smallest keys; `pages` says
    how many.
    """
    asking = (
        pages.where("contains(url, '?')").groupBy("host").count().where("count >= 5").select("host")
    )
    newest = (
        pages.join(F.broadcast(asking), "host", "left_semi")
        .groupBy("host", "url_key")
        .agg(F.max_by(F.struct("url", "canonical", "text_sha256"), "round_id").alias("p"))
    )
    place = F.row_number().over(Window.partitionBy("host").orderBy("url_key"))
    seen = (
        newest.withColumn("place", place).where(F.col("place") <= PARAM_PAGES).select("host", "p.*")
    )

    def propose(tables: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        host, rows = None, []
        for batch in tables:
            for r in batch.to_pylist():
                host = r["host"]
                rows.append(Seen(r["url"], r["canonical"], r["text_sha256"]))
        yield pa.RecordBatch.from_pylist(
            [
                {"host": host, **p._asdict(), "examples": list(p.examples), "pages": len(rows)}
                for p in propose_params(rows)
            ],
            _PARAMS,
        )

    return (
        seen.groupBy("host")
        .applyInArrow(propose, _PARAMS_DDL)
        .withColumn("round_no", F.lit(round_no))
    )


_PARAMS_DDL = (
    "host string, name string, canonical_for bigint, canonical_against bigint, text_for bigint,"
    " text_against bigint, examples array<string>, pages bigint"
)
_PARAMS = pa.schema(
    [
        ("host", pa.string()),
        ("name", pa.string()),
        *(
            (n, pa.int64())
            for n in ("canonical_for", "canonical_against", "text_for", "text_against")
        ),
        ("examples", pa.list_(pa.string())),
        ("pages", pa.int64()),
    ]
)
