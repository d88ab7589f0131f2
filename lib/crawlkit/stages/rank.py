"""rank: in-links of pages and a first host quality from counts, into tables of their own (joined by generate and dedup)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def page_ranks(links: DataFrame, round_no: int) -> DataFrame:
    """`ranks`: distinct pages and hosts that link to each URL; a page's links to itself do not count."""
    real = links.where("refused IS NULL AND to_key IS NOT NULL AND from_key <> to_key")
    host = F.regexp_extract("from_url", r"^https?://([^/:?#]+)", 1)
    return real.groupBy(F.col("to_key").alias("url_key")).agg(F.countDistinct("from_key").alias("inlinks"), F.countDistinct(host).alias("inlink_hosts")).withColumn("round_no", F.lit(round_no))


def host_ranks(links: DataFrame, captures: DataFrame, duplicates: DataFrame, hostdb: DataFrame, round_no: int) -> DataFrame:
    """`host_ranks`: quality 0..1 = 0.5 + 0.1 log10(1 + in-link hosts), at most +0.3, - 0.3 error share - 0.2 duplicate share.

    Ranks by the link graph come later; a host that nothing is known of has 0.5.
    """
    from_host = F.regexp_extract("from_url", r"^https?://([^/:?#]+)", 1)
    linked = links.where("refused IS NULL AND to_host IS NOT NULL").where(from_host != F.col("to_host")).groupBy(F.col("to_host").alias("host")).agg(F.countDistinct(from_host).alias("inlink_hosts"))
    asked = captures.where("is_outcome AND kind = 'page' AND started IS NOT NULL").groupBy("host").agg(
        F.avg(F.col("outcome").isin("failed").cast("double") + (F.col("status") >= 500).cast("double")).alias("error_share"))
    aliases = duplicates.where("method <> 'canonical'").groupBy(F.regexp_extract("url", r"^https?://([^/:?#]+)", 1).alias("host")).agg(F.count("*").alias("aliases"))
    all_ = hostdb.select("host", "pages").join(linked, "host", "left").join(asked, "host", "left").join(aliases, "host", "left")
    n = F.coalesce("inlink_hosts", F.lit(0))
    share = F.when(F.col("pages") > 0, F.least(F.lit(1.0), F.coalesce("aliases", F.lit(0)) / F.col("pages"))).otherwise(0.0)
    quality = F.lit(0.5) + F.least(F.lit(0.3), 0.1 * F.log10(1.0 + n)) - 0.3 * F.coalesce("error_share", F.lit(0.0)) - 0.2 * share
    return all_.select("host", n.alias("inlink_hosts"), "pages", F.coalesce("error_share", F.lit(0.0)).alias("error_share"), share.alias("duplicate_share"),
                       F.greatest(F.lit(0.0), F.least(F.lit(1.0), quality)).alias("quality"), F.lit(round_no).alias("round_no"))
