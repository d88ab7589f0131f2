"""dedup: the round's pages against everything known -> contents, sim_bands, similar, duplicates (H1 to H3).

Equal texts are one node, so a million copies of one page cost one comparison. Nearly equal texts meet under MinHash
bands or SimHash blocks; each candidate pair is verified by its shingles. Pairs of texts never change, so all but
`duplicates` is appended; clusters are the connected components of merged pairs over the URLs' newest texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from crawlkit.config import Dedup
from crawlkit.rules.clusters import Components, NearPolicy, block_pairs, match
from crawlkit.rules.fingerprint import hamming, minhash_bands, shingles, simhash_blocks

SIMILAR_DISTANCE = 10  # H2: 4 to 10 is similar, above different


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


def meetings(fresh: DataFrame, known: DataFrame, cfg: Dedup) -> DataFrame:
    """Distinct pairs of texts that share a band, at least one of them new (SIDES, distance, minhash); the row without texts counts the `cut` blocks.

    A block of more than `dedup.max_block` texts is cut as `block_pairs` does.
    """
    block = ["hash", "band", "scheme"]  # the hash first: it alone nearly decides the order
    columns = [*block, "text_sha256", "capture_id", "round_id", "simhash"]
    every = (known.select(*columns).join(F.broadcast(fresh.select(*block).distinct()), block, "left_semi")
             .withColumn("new", F.lit(False)).unionByName(fresh.select(*columns).withColumn("new", F.lit(True))))

    def meet(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in _beside_equals(batch).to_pylist())
        for (_, _, scheme), found in groupby(rows, key=lambda r: (r["hash"], r["band"], r["scheme"])):
            members = list(found)
            out: dict[str, list[Any]] = {name: [] for name in _MET.names}
            for a, b in block_pairs(members, cfg.max_block):
                distance = hamming(a["simhash"], b["simhash"])
                if (a["new"] or b["new"]) and a["text_sha256"] != b["text_sha256"] and (scheme == "minhash" or distance <= SIMILAR_DISTANCE):
                    values = (a["text_sha256"], b["text_sha256"], a["capture_id"], b["capture_id"], a["round_id"], b["round_id"], distance, scheme == "minhash", 0)
                    for name, value in zip(_MET.names, values, strict=True):
                        out[name].append(value)
            if len(members) > cfg.max_block:
                for name in _MET.names:
                    out[name].append(1 if name == "cut" else None)
            if out["cut"]:
                yield pa.RecordBatch.from_pydict(out, _MET)

    met = every.repartition(*block).sortWithinPartitions(*block, "text_sha256").mapInArrow(meet, _MET_DDL)
    return met.groupBy(*SIDES).agg(F.min("distance").alias("distance"), F.max("minhash").alias("minhash"), F.sum("cut").alias("cut"))


SIDES = ("a_text", "b_text", "a_capture", "b_capture", "a_round", "b_round")
_MET = pa.schema([*((name, pa.string()) for name in SIDES), ("distance", pa.int32()), ("minhash", pa.bool_()), ("cut", pa.int64())])
_MET_DDL = ", ".join(f"{name} string" for name in SIDES) + ", distance int, minhash boolean, cut bigint"


def _beside_equals(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a sorted batch whose hash is their neighbour's; the first and the last, whose neighbours are elsewhere, too."""
    hashes = batch.column("hash").to_numpy()
    same = hashes[1:] == hashes[:-1]
    keep = np.ones(len(hashes), bool)
    keep[1:-1] = same[1:] | same[:-1]
    return batch.filter(pa.array(keep))


def shares(pairs: pa.Table) -> list[int]:
    """A share of the verifying for each pair: those of one component together, so that a text is read once for all its pairs.

    A share has at most SHARE_TEXTS texts; a larger component is cut.
    """
    joined: Components[str] = Components()
    ends = list(zip(pairs["a_text"].to_pylist(), pairs["b_text"].to_pylist(), strict=True))
    for a, b in ends:
        joined.union(a, b)
    out, now, held = [0] * len(ends), 0, set[str]()
    for i in sorted(range(len(ends)), key=lambda i: (joined.find(ends[i][0]), ends[i])):
        if len(held.union(ends[i])) > SHARE_TEXTS:
            now, held = now + 1, set()
        held.update(ends[i])
        out[i] = now
    return out


def verified(spark: SparkSession, pairs: pa.Table, texts: DataFrame, cfg: Dedup, round_id: str) -> DataFrame:
    """`similar` rows: pairs with their Jaccard, merged or only similar. pairs: `meetings`; texts: capture_id, text."""
    share = shares(pairs)
    numbered = pairs.select([*SIDES[:4], "distance"]).append_column("share", pa.array(share, pa.int32()))
    sides = {(capture, n) for side in ("a_capture", "b_capture") for capture, n in zip(pairs[side].to_pylist(), share, strict=True)}
    wanted = spark.createDataFrame(pa.table({"capture_id": [c for c, _ in sides], "share": pa.array([n for _, n in sides], pa.int32())}))
    bodies = texts.join(F.broadcast(wanted), "capture_id").select("share", "capture_id", "text", *[F.lit(None).cast("string").alias(n) for n in SIDES[:4]], F.lit(None).cast("int").alias("distance"))
    asked = spark.createDataFrame(numbered).select("share", F.lit(None).cast("string").alias("capture_id"), F.lit(None).cast("string").alias("text"), *SIDES[:4], "distance")
    policy = NearPolicy(jaccard=cfg.jaccard, hamming=cfg.hamming)

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        now, known = -1, dict[str, np.ndarray]()
        for batch in batches:
            rows = []
            for r in batch.to_pylist():
                if r["share"] != now:
                    now, known = r["share"], {}
                if r["capture_id"] is not None:  # the texts of a share come before its pairs
                    known[r["capture_id"]] = shingles(r["text"])
                elif r["a_capture"] in known and r["b_capture"] in known:
                    found = match(r["distance"], known[r["a_capture"]], known[r["b_capture"]], policy)
                    if found is not None:
                        rows.append({k: r[k] for k in (*SIDES[:4], "distance")} | {"method": found.method, "jaccard": found.jaccard, "merged": found.merged})
            yield pa.RecordBatch.from_pylist(rows, _PAIR)

    both = bodies.unionByName(asked).repartition("share").sortWithinPartitions("share", F.col("capture_id").desc())
    return both.mapInArrow(judge, ", ".join(f"{name} string" for name in SIDES[:4]) + ", distance int, method string, jaccard double, merged boolean").withColumn("round_id", F.lit(round_id))


SHARE_TEXTS = 200  # whose shingles are held at a time: 160 MiB if all are as long as may be
_PAIR = pa.schema([*((name, pa.string()) for name in SIDES[:4]), ("distance", pa.int32()), ("method", pa.string()), ("jaccard", pa.float64()), ("merged", pa.bool_())])


def clusters(spark: SparkSession, contents: DataFrame, similar: DataFrame, ranks: DataFrame) -> DataFrame:
    """`duplicates`: the members of all clusters of two URLs and more, with canonical page and evidence."""
    newest = Window.partitionBy("url_key").orderBy(F.desc("round_no"))
    current = contents.withColumn("place", F.row_number().over(newest)).where("place = 1 AND text_sha256 IS NOT NULL").select("url_key", "url", "capture_id", "text_sha256")
    merged = similar.where("merged").select("a_text", "b_text", "method", "distance", "jaccard")
    joined: Components[str] = Components()
    for batch in merged.select("a_text", "b_text").toArrow().to_batches():
        for a, b in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            joined.union(a, b)
    root_of = spark.createDataFrame([(text, members[0]) for members in joined.groups() for text in members], "text_sha256 string, root string")
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
