"""dedup, third step: the connected components of merged pairs over the URLs' newest texts."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from crawlkit.rules.duplicates.clusters import component_of


def components(pairs: pa.Table) -> tuple[pa.Array, pa.Array]:
    """The texts of pairs (a_text, b_text) and, for each, one text of its component that stands for
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
    """
    newest = Window.partitionBy("url_key").orderBy(F.desc("round_no"))
    texts_of = contents.withColumn("place", F.row_number().over(newest)).where(
        "text_sha256 IS NOT NULL"
    )
    current = texts_of.where("place = 1").select("url_key", "url", "capture_id", "text_sha256")
    merged = similar.where("merged").select("a_text", "b_text", "method", "distance", "jaccard")
    joined, roots = components(merged.select("a_text", "b_text").toArrow())
    root_of = spark.createDataFrame(pa.table({"text_sha256": joined, "root": roots}))
    members = current.join(F.broadcast(root_of), "text_sha256", "left").withColumn(
        "root", F.coalesce("root", "text_sha256")
    )
    whole = Window.partitionBy("root")
    best_first = whole.orderBy(F.desc(F.coalesce("inlinks", F.lit(0))), F.length("url"), "url")
    ranked = (
        members.withColumn("size", F.count("*").over(whole))
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
    # what a text that is not the canonical page's was compared with: its most alike neighbour
    sides = merged.select(
        F.col("a_text").alias("text_sha256"),
        F.col("b_text").alias("other"),
        "method",
        "distance",
        "jaccard",
    ).unionByName(
        merged.select(
            F.col("b_text").alias("text_sha256"),
            F.col("a_text").alias("other"),
            "method",
            "distance",
            "jaccard",
        )
    )
    # best a page that still has that text; a text that all have lost joins its neighbours still
    some_url = (
        texts_of.groupBy("text_sha256")
        .agg(
            F.min(
                F.struct((F.col("place") > 1).alias("past"), F.col("url").alias("evidence_url"))
            ).alias("page")
        )
        .select(F.col("text_sha256").alias("other"), "page.*")
    )
    best = (
        sides.join(some_url, "other")
        .groupBy("text_sha256")
        .agg(
            F.max_by(
                F.struct("method", "distance", "jaccard", "evidence_url"),
                F.struct(~F.col("past"), "jaccard", "evidence_url"),
            ).alias("near")
        )
    )
    out = ranked.join(best, "text_sha256", "left")
    head, same = F.col("url_key") == F.col("cluster_id"), F.col("text_sha256") == F.col("head_text")

    def pick(canonical: Column, exact: Column, near: Column) -> Column:
        return F.when(head, canonical).when(same, exact).otherwise(near)

    return out.select(
        "url_key",
        "url",
        "capture_id",
        "cluster_id",
        "canonical_url",
        "size",
        pick(F.lit("canonical"), F.lit("exact"), F.coalesce("near.method", F.lit("exact"))).alias(
            "method"
        ),
        pick(F.lit(None), F.col("canonical_url"), F.col("near.evidence_url")).alias("evidence_url"),
        pick(F.lit(0), F.lit(0), F.col("near.distance")).alias("distance"),
        pick(F.lit(1.0), F.lit(1.0), F.col("near.jaccard")).alias("jaccard"),
    )


def count_members(duplicates: DataFrame) -> dict[str, int]:
    """Members of clusters, and clusters."""
    row = duplicates.selectExpr("count(*) AS members", "count(DISTINCT cluster_id) AS clusters")
    return row.first().asDict()
