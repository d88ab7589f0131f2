from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

from datasketch import MinHash, MinHashLSH
from hypothesis import given
from hypothesis import strategies as st

from crawlkit.rules.fingerprint import (
    band_rows,
    estimated_jaccard,
    fingerprint,
    hamming,
    jaccard,
    minhash_bands,
    normalize_text,
    shingles,
    signatures,
    simhash_blocks,
    words,
)
from tests.shared_data import shared

WORDS = st.lists(st.sampled_from("alpha beta gamma delta epsilon zeta eta theta iota kappa".split()), min_size=3, max_size=60)


def test_normal_form():
    assert normalize_text("  Straße\u00ad\n ＡＢＣ\u200b ﬁn ") == "strasse abc fin"
    assert normalize_text("e\u0301") == normalize_text("é")


def test_words():
    assert words("don't_stop — 3.5 été") == [w.encode() for w in ("don", "t", "stop", "3", "5", "été")]
    assert words("日本語 text") == ["日".encode(), "本".encode(), "語".encode(), b"text"]
    assert words("!!! ??? —") == []


def test_shingles_are_runs_of_three_words():
    assert shingles("New York, new york!") == {b"new york new", b"york new york"}
    assert shingles("york new") == set()


def test_jaccard_by_hand():
    # {abc, bcd} and {bcd, cde}: one of three
    assert jaccard(shingles("a b c d"), shingles("b c d e")) == 1 / 3
    assert jaccard(set(), set()) == 0.0


def test_simhash_by_hand():
    # of one shingle it is the digest's first 64 bits; of three, each bit's majority
    one = hashlib.sha1(b"a b c").digest()[:8]
    assert signatures({b"a b c"})[0] == int.from_bytes(one, "little", signed=True)
    digests = [int.from_bytes(hashlib.sha1(s).digest()[:8], "little") for s in (b"a b c", b"b c d", b"c d e")]
    majority = (digests[0] & digests[1]) | (digests[1] & digests[2]) | (digests[0] & digests[2])
    assert signatures({b"a b c", b"b c d", b"c d e"})[0] % 2**64 == majority


@given(WORDS)
def test_minhash_is_datasketchs(tokens):
    reference = MinHash(num_perm=128)
    reference.update_batch(shingles(" ".join(tokens)))
    assert fingerprint(" ".join(tokens)).minhash == reference.hashvalues.astype("<u4").tobytes()


def test_minhash_of_many_shingles_is_datasketchs():
    text = " ".join(f"word{i * 7919 % 4001}" for i in range(5000))
    reference = MinHash(num_perm=128)
    reference.update_batch(shingles(text))
    assert fingerprint(text).minhash == reference.hashvalues.astype("<u4").tobytes()


def test_no_text_no_signature():
    assert fingerprint("") == fingerprint(" \n\u200b") == (None, None, None)
    assert fingerprint("!!! ??? ***")[1:] == (None, None)
    assert fingerprint("two words").text_sha256 == hashlib.sha256(b"two words").hexdigest()


@given(st.integers(-(2**63), 2**63 - 1), st.sets(st.integers(0, 63), max_size=3))
def test_near_fingerprints_share_a_block(value, flips):
    other = value % 2**64
    for bit in flips:
        other ^= 1 << bit
    assert hamming(value, other) == len(flips)
    assert set(simhash_blocks(value)) & set(simhash_blocks(other))


def test_bands_meet_at_the_threshold():
    # probability that a pair at the threshold shares no band: (1 - t^r)^b
    for threshold in (0.5, 0.7, 0.8, 0.9):
        rows = band_rows(threshold)
        assert (1 - threshold**rows) ** (128 // rows) <= 0.005 < (1 - threshold ** (rows + 1)) ** (128 // (rows + 1))
    print_ = fingerprint("one two three four five").minhash
    assert len(list(minhash_bands(print_, 0.8))) == 128 // band_rows(0.8)


def test_minhash_articles_suite():
    """Near-duplicate pairs of C. McCormick's MinHash data, by bands and verified Jaccard; none else among 100 and 1,000 articles."""
    with tarfile.open(shared("suites/minhash/articles.tar.gz")) as tar:
        files = {Path(m.name).name: tar.extractfile(m).read().decode("utf-8", "replace") for m in tar if m.isfile()}
    for size in (100, 1000):
        texts = dict(line.split(" ", 1) for line in files[f"articles_{size}.train"].splitlines())
        truth = {frozenset(line.split()) for line in files[f"articles_{size}.truth"].splitlines() if line.strip()}
        prints = {name: fingerprint(text) for name, text in texts.items()}
        blocks: dict[tuple[int, int], list[str]] = {}
        for name, p in prints.items():
            for band in minhash_bands(p.minhash, 0.5):
                blocks.setdefault(band, []).append(name)
        pairs = {frozenset((a, b)) for members in blocks.values() for a in members for b in members if a < b}
        assert {p for p in pairs if jaccard(*(shingles(texts[n]) for n in p)) >= 0.5} == truth
        # the signatures go into datasketch's own index
        if size == 100:
            lsh = MinHashLSH(threshold=0.5, num_perm=128)
            for name, text in texts.items():
                m = MinHash(num_perm=128)
                m.update_batch(shingles(text))
                lsh.insert(name, m)
                assert estimated_jaccard(prints[name].minhash, m.hashvalues.astype("<u4").tobytes()) == 1.0
