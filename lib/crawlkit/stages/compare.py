"""dedup, second step: candidate pairs of texts, and the pairs that are near-duplicates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crawlkit.config import Dedup
from crawlkit.engine.frame import Batches, Engine, Frame, Tasks
from crawlkit.parsing.table_files import Writer
from crawlkit.rules.duplicates.candidate_pairs import candidate_pairs, distances
from crawlkit.rules.duplicates.clusters import Components, NearPolicy, contradict, match
from crawlkit.rules.duplicates.fingerprint import jaccard, shingles
from crawlkit.tables import FILES_DDL
from crawlkit.tables.ddl import arrow_schema

SIMILAR_DISTANCE = 10  # H2: 4 to 10 is similar, above different


def find_pairs(fresh: Frame, known: Frame, cfg: Dedup) -> tuple[pa.Table, int]:
    """Distinct pairs of texts that share a band, at least one of them new (SIDES, distance), and
    how many blocks were cut.

    A block's members are in the order in which they became known; `candidate_pairs` says which of
    them meet.
    """
    every = fresh.engine.query(_MEMBERS, fresh=fresh, known=known)
    # the hash first: it alone nearly decides the order
    tasks = Tasks(("hash", "band", "scheme"), ("new", "round_id", "text_sha256"))
    met = every.map_batches(partial(_meet, cfg.block_anchors), _MET_DDL, tasks).to_arrow()
    pairs = (
        met.filter(met["cut"].is_null()).group_by(list(SIDES)).aggregate([("distance", "min")])
    )  # a text has one SimHash
    return pairs.rename_columns([*SIDES, "distance"]), pc.sum(met["cut"]).as_py() or 0


_MEMBERS = """
    WITH blocks AS (SELECT DISTINCT hash, band, scheme FROM {fresh})
    SELECT /*+ BROADCAST(b) */ k.hash, k.band, k.scheme, k.text_sha256, k.capture_id, k.round_id,
        k.simhash, false AS new
    FROM {known} AS k SEMI JOIN blocks AS b
    ON k.hash = b.hash AND k.band = b.band AND k.scheme = b.scheme
    UNION ALL
    SELECT hash, band, scheme, text_sha256, capture_id, round_id, simhash, true FROM {fresh}
"""


def _meet(anchors: int, batches: Batches) -> Batches:
    for rows, number, place in _blocks(batches, anchors):
        yield from _compare(rows, number, place, anchors)


SIDES = ("a_text", "b_text", "a_capture", "b_capture", "a_round", "b_round")
_MET_DDL = ", ".join(f"{name} string" for name in SIDES) + ", distance int, cut bigint"
_MET = arrow_schema(_MET_DDL)
# looked at together: 40 MB; a pair that shares several bands is reported once for all of them
CHUNK_ROWS = 200_000


def _blocks(
    batches: Iterator[pa.RecordBatch], anchors: int
) -> Iterator[tuple[pa.Table, np.ndarray, np.ndarray]]:
    """Sorted rows in chunks, with the number of each row's block and its place in it.

    A chunk begins with the anchors of a block that goes on.
    """
    held: list[pa.RecordBatch] = []
    carried, counted = (
        None,
        0,
    )  # the anchors of the last block, and how many of its rows have been seen
    for batch in chain(batches, [None]):
        if batch is not None:
            held.append(batch)
            if sum(b.num_rows for b in held) < CHUNK_ROWS:
                continue
        if not held:
            return
        new = pa.Table.from_batches(held)
        rows = new if carried is None else pa.concat_tables([carried, new])
        begins = np.ones(rows.num_rows, bool)
        begins[1:] = False
        for name in ("hash", "band", "scheme"):
            values = rows.column(name).combine_chunks()
            begins[1:] |= pc.not_equal(values[1:], values[:-1]).to_numpy(zero_copy_only=False)
        number = np.cumsum(begins) - 1
        start = np.flatnonzero(begins)[number]
        place = np.arange(rows.num_rows) - start
        if carried is not None:
            goes_on = number == 0
            goes_on[: carried.num_rows] = False
            place[goes_on] += counted - carried.num_rows
        yield rows, number, place
        last = start[-1]
        counted, carried, held = (
            int(place[-1]) + 1,
            rows.slice(last, min(anchors, rows.num_rows - last)),
            [],
        )


def _compare(
    rows: pa.Table, number: np.ndarray, place: np.ndarray, anchors: int
) -> Iterator[pa.RecordBatch]:
    """What `find_pairs` tells of a chunk: each pair once, and how many blocks were cut in it."""
    simhash = rows.column("simhash").to_numpy().view(np.uint64)
    i, j = candidate_pairs(number, place, simhash, anchors)
    text = rows.column("text_sha256").combine_chunks().dictionary_encode().indices.to_numpy()
    new = rows.column("new").to_numpy()
    minhash = pc.equal(rows.column("scheme"), "minhash").to_numpy()
    distance = distances(simhash[i], simhash[j])
    kept = (new[i] | new[j]) & (text[i] != text[j]) & (minhash[i] | (distance <= SIMILAR_DISTANCE))
    i, j, distance = i[kept], j[kept], distance[kept]
    pair = text[i].astype(np.int64) << 32 | text[j]
    once = np.unique(pair, return_index=True)[1]
    i, j, distance = i[once], j[once], distance[once]
    cut = int((place == anchors + 1).sum())
    sides = [
        rows.column(name).take(at)
        for name in ("text_sha256", "capture_id", "round_id")
        for at in (i, j)
    ]
    found = pa.Table.from_arrays(
        [*sides, pa.array(distance, pa.int32()), pa.nulls(len(i), pa.int64())], schema=_MET
    )
    yield from found.to_batches(max_chunksize=10_000)
    if cut:
        yield pa.RecordBatch.from_pylist([{"cut": cut}], _MET)


def share_out(pairs: pa.Table, text_bytes: Mapping[str, int]) -> list[int]:
    """A share of the verifying for each pair: those of one component together, so that a text is
    read once for all its pairs.

    text_bytes: of each capture. A share's texts have at most SHARE_BYTES (or are two); a larger
    component is cut.
    """
    joined: Components[str] = Components()
    ends = list(zip(pairs["a_capture"].to_pylist(), pairs["b_capture"].to_pylist(), strict=True))
    for a, b in ends:
        joined.union(a, b)
    out, now, held, held_bytes = [0] * len(ends), 0, set[str](), 0
    for i in sorted(
        range(len(ends)), key=lambda i: (joined.find(ends[i][0]), ends[i][::-1])
    ):  # by the later text: its anchors are those of many
        new = [capture for capture in ends[i] if capture not in held]
        if held and held_bytes + sum(text_bytes.get(c, 0) for c in new) > SHARE_BYTES:
            now, new, held, held_bytes = now + 1, list(ends[i]), set(), 0
        held.update(new)
        held_bytes += sum(text_bytes.get(c, 0) for c in new)
        out[i] = now
    return out


def verify(
    pairs: pa.Table,
    texts: Frame,
    cfg: Dedup,
    round_id: str,
    writer: Callable[[], Writer],
) -> Frame:
    """Writes `similar`: pairs with their Jaccard, merged or only similar; the files (FILES_DDL).

    pairs: `find_pairs`; texts: capture_id, text, text_bytes.
    """
    engine = texts.engine
    share = pa.array(share_out(pairs, _text_bytes(pairs, texts)), pa.int32())
    numbered = pairs.select([*SIDES[:4], "distance"]).append_column("share", share)
    policy = NearPolicy(jaccard=cfg.jaccard, hamming=cfg.hamming)
    # the texts of a share come before its pairs
    query = """
        SELECT /*+ BROADCAST(w) */ w.share, 0 AS step, t.capture_id, t.text,
            CAST(NULL AS binary) AS pairs
        FROM {texts} AS t JOIN {wanted} AS w ON t.capture_id = w.capture_id
        UNION ALL
        SELECT share, 1, CAST(NULL AS string), CAST(NULL AS string), pairs FROM {asked}
    """
    asked, wanted = _pairs_by_share(engine, numbered), _wanted_texts(engine, numbered)
    both = engine.query(query, texts=texts, wanted=wanted, asked=asked)
    judge = partial(_write_judged, policy, round_id, writer)
    return both.map_batches(judge, FILES_DDL, Tasks(("share",), ("step",)))


def _write_judged(
    policy: NearPolicy, round_id: str, writer: Callable[[], Writer], batches: Batches
) -> Batches:
    return writer().write(_judge_shares(policy, round_id, batches))


def _judge_shares(policy: NearPolicy, round_id: str, batches: Batches) -> Batches:
    share, known = -1, dict[str, np.ndarray]()
    for batch in batches:
        for r in batch.to_pylist():
            if r["share"] != share:
                share, known = r["share"], {}
            if r["pairs"] is None:
                known[r["capture_id"]] = shingles(r["text"])
            else:
                yield _judge(pa.ipc.open_stream(r["pairs"]).read_all(), known, policy, round_id)


def disbelieve(hints: pa.Table, texts: Frame, round_id: str, writer: Callable[[], Writer]) -> Frame:
    """Writes `similar`: canonical links between texts that have too little in common (a template
    that names the front page everywhere); the files (FILES_DDL).

    hints: of `cluster.find_hints`; texts: capture_id, text.
    """
    query = """
        SELECT /*+ BROADCAST(h) */ h.a_text, h.b_text, h.a_capture, h.b_capture, a.text AS a,
            b.text AS b
        FROM {hints} AS h JOIN {texts} AS a ON h.a_capture = a.capture_id
        JOIN {texts} AS b ON h.b_capture = b.capture_id
    """
    both = texts.engine.query(query, hints=texts.engine.from_arrow(hints), texts=texts)
    return both.map_batches(partial(_write_disbelieved, round_id, writer), FILES_DDL)


def _write_disbelieved(round_id: str, writer: Callable[[], Writer], batches: Batches) -> Batches:
    return writer().write(_contradictions(round_id, batches))


def _contradictions(round_id: str, batches: Batches) -> Batches:
    known = lru_cache(maxsize=256)(shingles)  # many pages name one
    for batch in batches:
        rows = [
            {name: r[name] for name in SIDES[:4]}
            | {"method": "canonical_link", "jaccard": jaccard(known(r["a"]), known(r["b"]))}
            | {"distance": None, "merged": False, "round_id": round_id}
            for r in batch.to_pylist()
            if contradict(known(r["a"]), known(r["b"]))
        ]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, _SIMILAR)


_SIMILAR = arrow_schema(
    ", ".join(f"{name} string" for name in SIDES[:4])
    + ", distance int, method string, jaccard double, merged boolean, round_id string"
)


def _text_bytes(pairs: pa.Table, texts: Frame) -> dict[str, int]:
    """The size of each text that the pairs name, by capture."""
    ends = [*pairs["a_capture"].chunks, *pairs["b_capture"].chunks]
    captures = pa.table({"capture_id": pc.unique(pa.chunked_array(ends, pa.string()))})
    query = """
        SELECT /*+ BROADCAST(c) */ t.capture_id, t.text_bytes
        FROM {texts} AS t JOIN {captures} AS c ON t.capture_id = c.capture_id
    """
    named = texts.engine.from_arrow(captures)
    sizes = texts.engine.query(query, texts=texts, captures=named).to_arrow()
    return dict(zip(*(column.to_pylist() for column in sizes.columns), strict=True))


def _wanted_texts(engine: Engine, numbered: pa.Table) -> Frame:
    """The captures whose texts each share needs: capture_id, share."""
    sides = [
        numbered.select([side, "share"]).rename_columns(["capture_id", "share"])
        for side in SIDES[2:4]
    ]
    return engine.from_arrow(
        pa.concat_tables(sides).group_by(["capture_id", "share"]).aggregate([])
    )


def _pairs_by_share(engine: Engine, numbered: pa.Table) -> Frame:
    """The pairs of each share: share, pairs."""
    columns = [pa.array(c, f.type) for c, f in zip(_by_share(numbered), _ASKED, strict=True)]
    return engine.from_arrow(pa.Table.from_arrays(columns, schema=_ASKED))


SHARE_BYTES = 4 << 20  # of texts whose shingles are held at a time
_ASKED = pa.schema([("share", pa.int32()), ("pairs", pa.binary())])


def _by_share(numbered: pa.Table) -> tuple[list[int], list[bytes]]:
    """Shares and their pairs, each as a stream of Arrow: rows of Spark cost more than the
    comparisons.
    """
    ordered = numbered.sort_by("share")
    share = ordered["share"].to_numpy()
    names, starts = np.unique(share, return_index=True)
    streams = []
    for start, end in zip(starts, [*starts[1:], len(share)], strict=True):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, ordered.schema) as stream:
            stream.write_table(ordered.slice(start, end - start).combine_chunks())
        streams.append(sink.getvalue().to_pybytes())
    return names.tolist(), streams


def _judge(
    pairs: pa.Table, known: dict[str, np.ndarray], policy: NearPolicy, round_id: str
) -> pa.RecordBatch:
    """`similar` rows of the near-duplicate pairs. known: capture_id -> shingles."""
    matches = [
        match(distance, known[a], known[b], policy) if a in known and b in known else None
        for a, b, distance in zip(
            *(pairs[name].to_pylist() for name in ("a_capture", "b_capture", "distance")),
            strict=True,
        )
    ]
    found = [m for m in matches if m is not None]
    columns = {
        name: (
            pairs[name]
            .filter(pa.array([m is not None for m in matches], pa.bool_()))
            .combine_chunks()
        )
        for name in (*SIDES[:4], "distance")
    }
    return pa.RecordBatch.from_pydict(
        columns
        | {
            "method": pa.array([m.method for m in found], pa.string()),
            "jaccard": pa.array([m.jaccard for m in found], pa.float64()),
            "merged": pa.array([m.merged for m in found], pa.bool_()),
            "round_id": pa.array([round_id] * len(found), pa.string()),
        }
    )
