"""dedup: the round's pages against everything known -> contents, sim_bands, similar, duplicates (H1 to H3).

Equal texts are one node, so a million copies of one page cost one comparison. Nearly equal texts meet under MinHash
bands or SimHash blocks; each candidate pair is verified by its shingles. Pairs of texts never change, so all but
`duplicates` is appended; clusters are the connected components of merged pairs over the URLs' newest texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from crawlkit.config import Dedup
from crawlkit.rules.fingerprint import jaccard, minhash_bands, shingles, simhash_blocks

SIMILAR_DISTANCE = 10  # H2: 4 to 10 is similar, above different
SIMHASH_JACCARD = 0.5  # verified floor of pairs that SimHash brings


def contents_of(pages: DataFrame, round_id: str, round_no: int) -> DataFrame:
    """`contents` of the round: the text of each page read."""
    return pages.select("url_key", "url", "capture_id", "text_sha256").dropDuplicates(["url_key"]).withColumns({"round_id": F.lit(round_id), "round_no": F.lit(round_no)})


def new_bands(pages: DataFrame, known: DataFrame, cfg: Dedup, round_id: str) -> DataFrame:
    """`sim_bands` of texts that no earlier round brought. known: sim_bands of other rounds."""
    texts = pages.where("simhash IS NOT NULL AND minhash IS NOT NULL").groupBy("text_sha256").agg(F.min_by(F.struct("capture_id", "simhash", "minhash"), "capture_id").alias("p"))
    fresh = texts.select("text_sha256", "p.*").join(known.select("text_sha256").distinct(), "text_sha256", "left_anti")
    threshold = cfg.jaccard

    def explode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = []
            for text, capture, simhash, minhash in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                rows += [("simhash", band, value, text, capture, simhash) for band, value in simhash_blocks(simhash)]
                rows += [("minhash", band, value, text, capture, simhash) for band, value in minhash_bands(minhash, threshold)]
            types = [pa.string(), pa.int32(), pa.int64(), pa.string(), pa.string(), pa.int64()]
            names = ["scheme", "band", "hash", "text_sha256", "capture_id", "simhash"]
            columns = zip(*rows, strict=True) if rows else [()] * 6
            yield pa.RecordBatch.from_arrays([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names)

    schema = "scheme string, band int, hash bigint, text_sha256 string, capture_id string, simhash bigint"
    return fresh.select("text_sha256", "capture_id", "simhash", "minhash").mapInArrow(explode, schema).withColumn("round_id", F.lit(round_id))


def candidates(fresh: DataFrame, known: DataFrame, cfg: Dedup) -> tuple[DataFrame, DataFrame]:
    """Distinct pairs of texts that share a band, at least one of them new; and the blocks that were cut short.

    In a block of more than `dedup.max_block` texts each new text meets the block's first `max_block` only.
    """
    columns = ["scheme", "band", "hash", "text_sha256", "capture_id", "simhash"]
    block = ["scheme", "band", "hash"]
    every = (known.select(*columns).join(F.broadcast(fresh.select(*block).distinct()), block, "left_semi")
             .withColumn("new", F.lit(False)).unionByName(fresh.select(*columns).withColumn("new", F.lit(True))))
    placed = every.withColumn("place", F.row_number().over(Window.partitionBy(*block).orderBy("text_sha256")))
    cut = placed.where(F.col("place") > cfg.max_block).groupBy(*block).agg(F.count("*").alias("beyond"))
    a, b = placed.alias("a"), placed.where(F.col("place") <= cfg.max_block).alias("b")
    pairs = a.join(b, block).where("a.text_sha256 <> b.text_sha256 AND (a.new OR b.new)")
    first = F.col("a.text_sha256") < F.col("b.text_sha256")

    def side(name: str, mine: bool) -> Column:
        return F.when(first == F.lit(mine), F.col(f"a.{name}")).otherwise(F.col(f"b.{name}"))

    out = pairs.select(side("text_sha256", True).alias("a_text"), side("text_sha256", False).alias("b_text"), side("capture_id", True).alias("a_capture"), side("capture_id", False).alias("b_capture"),
                       F.bit_count(F.col("a.simhash").bitwiseXOR(F.col("b.simhash"))).alias("distance"), "scheme")
    met = out.groupBy("a_text", "b_text").agg(F.min("a_capture").alias("a_capture"), F.min("b_capture").alias("b_capture"), F.min("distance").alias("distance"), F.max(F.col("scheme") == "minhash").alias("minhash"))
    return met.where(F.col("minhash") | (F.col("distance") <= SIMILAR_DISTANCE)), cut


def verified(pairs: DataFrame, texts: DataFrame, cfg: Dedup, round_id: str) -> DataFrame:
    """`similar` rows: pairs with their Jaccard, merged or only similar. texts: capture_id, text."""
    def with_text(df: DataFrame, side: str) -> DataFrame:
        return df.join(texts.select(F.col("capture_id").alias(f"{side}_capture"), F.col("text").alias(f"{side}_body")), f"{side}_capture")

    # pairs of one text come after one another, and the texts of a cluster soon meet again
    both = with_text(with_text(pairs, "a"), "b").select("a_text", "b_text", "a_capture", "b_capture", "distance", "minhash", "a_body", "b_body").sortWithinPartitions("b_capture", "a_capture")
    limit, floor = cfg.hamming, cfg.jaccard

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known = _Shingles()
        for batch in batches:
            rows = []
            for r in batch.to_pylist():
                j = jaccard(known.of(r["a_capture"], r["a_body"]), known.of(r["b_capture"], r["b_body"]))
                method = "minhash" if j >= floor else "simhash" if r["distance"] <= limit and j >= SIMHASH_JACCARD else "similar" if r["distance"] <= SIMILAR_DISTANCE else None
                if method is not None:
                    rows.append({k: r[k] for k in ("a_text", "b_text", "a_capture", "b_capture", "distance")} | {"method": method, "jaccard": j, "merged": method != "similar"})
            yield pa.RecordBatch.from_pylist(rows, _PAIR)

    return both.mapInArrow(judge, "a_text string, b_text string, a_capture string, b_capture string, distance int, method string, jaccard double, merged boolean").withColumn("round_id", F.lit(round_id))


class _Shingles:
    """Shingles of the texts compared last, at most MAX_KEPT of them in all."""

    def __init__(self) -> None:
        self.kept: dict[str, set[bytes]] = {}
        self.size = 0

    def of(self, capture: str, text: str) -> set[bytes]:
        found = self.kept.pop(capture, None)
        if found is None:
            found = shingles(text)
            self.size += len(found)
        self.kept[capture] = found  # the newest stands last
        while self.size > MAX_KEPT and len(self.kept) > 2:
            self.size -= len(self.kept.pop(next(iter(self.kept))))
        return found


MAX_KEPT = 500_000  # shingles: some 50 MiB

_PAIR = pa.schema([("a_text", pa.string()), ("b_text", pa.string()), ("a_capture", pa.string()), ("b_capture", pa.string()), ("distance", pa.int32()), ("method", pa.string()), ("jaccard", pa.float64()), ("merged", pa.bool_())])


def components(edges: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Root (smallest member) of each node of the edges' connected components (union-find)."""
    parent: dict[str, str] = {}

    def root(x: str) -> str:
        parent.setdefault(x, x)
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    for a, b in edges:
        ra, rb = root(a), root(b)
        parent[max(ra, rb)] = min(ra, rb)
    return {x: root(x) for x in parent}


def clusters(spark: SparkSession, contents: DataFrame, similar: DataFrame, ranks: DataFrame) -> DataFrame:
    """`duplicates`: the members of all clusters of two URLs and more, with canonical page and evidence."""
    newest = Window.partitionBy("url_key").orderBy(F.desc("round_no"))
    current = contents.withColumn("place", F.row_number().over(newest)).where("place = 1 AND text_sha256 IS NOT NULL").select("url_key", "url", "capture_id", "text_sha256")
    merged = similar.where("merged").select("a_text", "b_text", "method", "distance", "jaccard")
    roots = components((r.a_text, r.b_text) for r in merged.select("a_text", "b_text").toLocalIterator())
    root_of = spark.createDataFrame(list(roots.items()), "text_sha256 string, root string")
    members = current.join(F.broadcast(root_of), "text_sha256", "left").withColumn("root", F.coalesce("root", "text_sha256"))
    whole = Window.partitionBy("root")
    ranked = (members.withColumn("size", F.count("*").over(whole)).where("size > 1").join(ranks.select("url_key", "inlinks"), "url_key", "left")
              .withColumn("place", F.row_number().over(whole.orderBy(F.desc(F.coalesce("inlinks", F.lit(0))), F.length("url"), "url"))))
    heads = ranked.where("place = 1").select("root", F.col("url_key").alias("cluster_id"), F.col("url").alias("canonical_url"), F.col("text_sha256").alias("head_text"))
    # what a text that is not the canonical page's was compared with: its most alike neighbour
    sides = merged.select(F.col("a_text").alias("text_sha256"), F.col("b_text").alias("other"), "method", "distance", "jaccard").unionByName(
        merged.select(F.col("b_text").alias("text_sha256"), F.col("a_text").alias("other"), "method", "distance", "jaccard"))
    some_url = current.groupBy("text_sha256").agg(F.min("url").alias("evidence_url")).withColumnRenamed("text_sha256", "other")
    alive = sides.join(some_url, "other")
    best = alive.groupBy("text_sha256").agg(F.max_by(F.struct("method", "distance", "jaccard", "evidence_url"), F.struct("jaccard", "evidence_url")).alias("near"))
    out = ranked.join(heads, "root").join(best, "text_sha256", "left")
    head, same = F.col("url_key") == F.col("cluster_id"), F.col("text_sha256") == F.col("head_text")

    def pick(canonical: Column, exact: Column, near: Column) -> Column:
        return F.when(head, canonical).when(same, exact).otherwise(near)

    return out.select(
        "url_key", "url", "capture_id", "cluster_id", "canonical_url", "size", pick(F.lit("canonical"), F.lit("exact"), F.coalesce("near.method", F.lit("exact"))).alias("method"),
        pick(F.lit(None), F.col("canonical_url"), F.col("near.evidence_url")).alias("evidence_url"),
        pick(F.lit(0), F.lit(0), F.col("near.distance")).alias("distance"), pick(F.lit(1.0), F.lit(1.0), F.col("near.jaccard")).alias("jaccard"))
