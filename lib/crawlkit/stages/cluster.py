"""dedup, third step: the connected components of merged pairs over the URLs' newest texts."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window, functions as F

from crawlkit.rules.duplicates.clusters import component_of


def components(pairs: pa.Table) -> tuple[pa.Array, pa.Array]:
    """The texts of pairs (a_text, b_text) and, for each, one text of its component that represents
    all.
    """
    ends = (
        pa.chunked_array([*pairs["a_text"].chunks, *pairs["b_text"].chunks], pa.string())
        .combine_chunks()
        .dictionary_encode()
    )
    code = ends.indices.to_numpy()
    root = component_of(code[: len(pairs)], code[len(pairs) :], len(ends.dictionary))
    return ends.dictionary, ends.dictionary.take(pa.array(root))


def cluster(
    spark: SparkSession, contents: DataFrame, similar: DataFrame, ranks: DataFrame
) -> DataFrame:
    """`duplicates`: the members of all clusters of two URLs and more, with canonical page and
    evidence.

    Args:
        contents, similar, ranks: the tables of these names, whole.
    """
    newest = Window.partitionBy("url_key").orderBy(F.desc("round_no"))
    texts = contents.withColumn("place", F.row_number().over(newest)).where(
        "text_sha256 IS NOT NULL"
    )
    merged = similar.where("merged").select("a_text", "b_text", "method", "distance", "jaccard")
    members = _members(spark, texts, merged, ranks)
    out = members.join(_nearest(merged, texts), "text_sha256", "left")
    is_canonical = F.col("url_key") == F.col("cluster_id")
    is_identical = F.col("text_sha256") == F.col("head_text")

    def pick(canonical: Column, identical: Column, near: Column) -> Column:
        return F.when(is_canonical, canonical).when(is_identical, identical).otherwise(near)

    near_method = F.coalesce("near.method", F.lit("exact"))
    evidence = pick(F.lit(None), F.col("canonical_url"), F.col("near.evidence_url"))
    return out.select(
        "url_key",
        "url",
        "capture_id",
        "cluster_id",
        "canonical_url",
        "size",
        pick(F.lit("canonical"), F.lit("exact"), near_method).alias("method"),
        evidence.alias("evidence_url"),
        pick(F.lit(0), F.lit(0), F.col("near.distance")).alias("distance"),
        pick(F.lit(1.0), F.lit(1.0), F.col("near.jaccard")).alias("jaccard"),
    )


def _members(
    spark: SparkSession, texts: DataFrame, merged: DataFrame, ranks: DataFrame
) -> DataFrame:
    """URLs of clusters of two and more, by their newest text, with size and canonical page."""
    current = texts.where("place = 1").select("url_key", "url", "capture_id", "text_sha256")
    joined, roots = components(merged.select("a_text", "b_text").toArrow())
    root_of = spark.createDataFrame(pa.table({"text_sha256": joined, "root": roots}))
    rooted = current.join(F.broadcast(root_of), "text_sha256", "left").withColumn(
        "root", F.coalesce("root", "text_sha256")
    )
    whole = Window.partitionBy("root")
    best_first = whole.orderBy(F.desc(F.coalesce("inlinks", F.lit(0))), F.length("url"), "url")
    return (
        rooted.withColumn("size", F.count("*").over(whole))
        .where("size > 1")
        .join(ranks.select("url_key", "inlinks"), "url_key", "left")
        .withColumns(
            {
                "cluster_id": F.first("url_key").over(best_first),
                "canonical_url": F.first("url").over(best_first),
                "head_text": F.first("text_sha256").over(best_first),
            }
        )
    )


def _nearest(merged: DataFrame, texts: DataFrame) -> DataFrame:
    """`near` of each text: the evidence of its nearest neighbour, best one that a page still has.

    A text that all pages have lost joins its neighbours still.
    """
    facts = ("method", "distance", "jaccard")
    sides = [
        merged.select(F.col(own).alias("text_sha256"), F.col(other).alias("other"), *facts)
        for own, other in (("a_text", "b_text"), ("b_text", "a_text"))
    ]
    page = F.struct((F.col("place") > 1).alias("past"), F.col("url").alias("evidence_url"))
    pages = (
        texts.groupBy("text_sha256")
        .agg(F.min(page).alias("page"))
        .select(F.col("text_sha256").alias("other"), "page.*")
    )
    evidence = F.struct(*facts, "evidence_url")
    best = F.struct(~F.col("past"), "jaccard", "evidence_url")
    return (
        sides[0]
        .unionByName(sides[1])
        .join(pages, "other")
        .groupBy("text_sha256")
        .agg(F.max_by(evidence, best).alias("near"))
    )


def count_members(duplicates: DataFrame) -> dict[str, int]:
    """Members of clusters, and clusters."""
    row = duplicates.selectExpr("count(*) AS members", "count(DISTINCT cluster_id) AS clusters")
    return row.collect()[0].asDict()
