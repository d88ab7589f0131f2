"""Which members of candidate blocks meet: all of a short block, a bounded number of a long one, and
none is left alone.
"""

import numpy as np
import pyarrow as pa
import pytest
from crawlkit.rules.duplicates.candidate_pairs import NEIGHBOURS, candidate_pairs, distances
from crawlkit.stages import compare
from hypothesis import given, strategies as st

SIZES = st.lists(st.integers(1, 30), min_size=1, max_size=8)


def blocks(sizes, seed=0):
    block = np.repeat(np.arange(len(sizes)), sizes)
    place = np.concatenate([np.arange(n) for n in sizes])
    return block, place, np.random.default_rng(seed).integers(0, 2**64, len(block), np.uint64)


@given(SIZES, st.integers(1, 12), st.integers(0, 9))
def test_pairs_of_blocks(sizes, anchors, seed):
    block, place, simhash = blocks(sizes, seed)
    i, j = candidate_pairs(block, place, simhash, anchors)
    assert (i < j).all() and (block[i] == block[j]).all()
    pairs = set(zip(i.tolist(), j.tolist(), strict=True))
    start = 0
    for n in sizes:
        own = {(a - start, b - start) for a, b in pairs if start <= a < start + n}
        anchored = {(a, b) for a in range(min(n, anchors)) for b in range(a + 1, n)}
        if n <= anchors + 1:
            assert own == {(a, b) for a in range(n) for b in range(a + 1, n)}
        else:
            near = sorted(range(n), key=lambda m: simhash[start + m])
            beside = {
                tuple(sorted((near[k], near[k + d])))
                for d in range(1, NEIGHBOURS + 1)
                for k in range(n - d)
            }
            assert own == anchored | beside
        start += n


def test_distance_is_the_number_of_other_bits():
    a = np.array([0, 2**64 - 1, 0b1011], np.uint64)
    assert distances(a, np.array([0, 0, 0b0110], np.uint64)).tolist() == [0, 64, 3]


def table(sizes, seed):
    """Rows of bands as the stage sorts them: some texts in several blocks, the first of each block
    known before.
    """
    rng, rows = np.random.default_rng(seed), []
    for number, n in enumerate(sizes):
        texts = sorted(rng.choice(200, n, replace=False).tolist())
        for k, t in enumerate(texts):
            rows.append(
                {
                    "hash": number // 2,
                    "band": number % 2,
                    "scheme": "minhash",
                    "text_sha256": f"t{t}",
                    "capture_id": f"c{t}",
                    "round_id": f"r{int(k >= n // 2)}",
                    "simhash": hash((t, 1)),
                    "new": k >= n // 2,
                }
            )
    schema = pa.schema(
        [
            ("hash", pa.int64()),
            ("band", pa.int32()),
            ("scheme", pa.string()),
            ("text_sha256", pa.string()),
            ("capture_id", pa.string()),
            ("round_id", pa.string()),
            ("simhash", pa.int64()),
            ("new", pa.bool_()),
        ]
    )
    return pa.RecordBatch.from_pylist(rows, schema)


def told(batch, step, anchors):
    pairs, cut = set(), 0
    for rows, number, place in compare._blocks(
        iter([batch.slice(k, step) for k in range(0, batch.num_rows, step)]), anchors
    ):
        for out in compare._compare(rows, number, place, anchors):
            for r in out.to_pylist():
                cut += r["cut"] or 0
                if r["a_text"]:
                    pairs.add((r["a_text"], r["b_text"]))
    return pairs, cut


@pytest.mark.waits
@pytest.mark.parametrize("chunk", [1, 7, 40])
@given(sizes=SIZES, anchors=st.integers(1, 40), seed=st.integers(0, 99))
def test_blocks_cut_into_chunks_meet_as_whole_ones(chunk, sizes, anchors, seed):
    batch = table(sizes, seed)
    compare.CHUNK_ROWS = chunk
    try:
        pairs, cut = told(batch, 5, anchors)
    finally:
        compare.CHUNK_ROWS = 200_000
    assert cut == sum(n > anchors + 1 for n in sizes)
    rows = batch.to_pylist()
    for number in range(len(sizes)):
        of_block = [r for r in rows if (r["hash"], r["band"]) == (number // 2, number % 2)]
        for k, b in enumerate(of_block):
            for a in of_block[: min(k, anchors)]:
                assert not b["new"] or (a["text_sha256"], b["text_sha256"]) in pairs


def test_a_hot_block_costs_a_bounded_number_of_pairs_a_text():
    sizes = [50_000]
    block, place, simhash = blocks(sizes)
    i, j = candidate_pairs(block, place, simhash, 16)
    assert len(i) <= 50_000 * (16 + NEIGHBOURS)
