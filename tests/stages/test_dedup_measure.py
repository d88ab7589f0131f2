"""Precision, recall and candidates of the dedup stage on labelled texts (H2, H5), in small."""

from __future__ import annotations

import pytest

from bench.dedup import TARGET, make_texts, measure, wanted_pairs

pytestmark = pytest.mark.waits


def test_labels_are_of_how_a_text_was_made():
    texts = make_texts(3, seed=1)
    assert len(texts) == 15 and texts == make_texts(3, seed=1)
    assert len(wanted_pairs(texts)) == 9  # of each family an original and two light variants


def test_near_duplicates_are_found_and_others_are_not(tmp_path):
    told = measure(60, tmp_path / "crawl", seed=3)
    ways = {name.partition(",")[0]: s for name, s in told["ways"].items() if "unv" not in name}
    stage, minhash, simhash = (ways[name] for name in ("the stage (either", "MinHash", "SimHash"))
    assert stage["precision"] == minhash["precision"] == simhash["precision"] == 1
    assert stage["recall"] >= 0.9 and minhash["recall"] >= 0.9
    assert 0.25 < simhash["recall"] < minhash["recall"]
    # a text meets its relatives, and others by chance: 300 x 4 / 2 ** 16 by SimHash
    assert all(0.5 < c["mean"] < 3 for c in told["candidates_per_probe"].values())
    assert all(c["most"] < TARGET for c in told["candidates_per_probe"].values())
