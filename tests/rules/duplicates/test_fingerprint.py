from __future__ import annotations

import hashlib
import tarfile
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from crawlkit.rules.duplicates import fingerprint as fingerprints
from crawlkit.rules.duplicates.fingerprint import (
    _WORDS,
    SHINGLE,
    band_rows,
    fingerprint,
    hamming,
    jaccard,
    minhash_bands,
    normalize_text,
    shingles,
    simhash_blocks,
    words,
)
from hypothesis import given, strategies as st

from tests.shared_data import shared

if TYPE_CHECKING:
    from datasketch import MinHash

WORDS = st.lists(
    st.sampled_from("alpha beta gamma delta epsilon zeta eta theta iota kappa".split()),
    min_size=3,
    max_size=60,
)


def test_normal_form():
    assert normalize_text("  Straße\u00ad\n ＡＢＣ\u200b ﬁn ") == "strasse abc fin"
    assert normalize_text("e\u0301") == normalize_text("é")


def test_words():
    assert words("don't_stop — 3.5 été".encode()) == [
        w.encode() for w in ("don", "t", "stop", "3", "5", "été")
    ]
    assert words("日本語 text".encode()) == ["日".encode(), "本".encode(), "語".encode(), b"text"]
    assert words("!!! ??? —".encode()) == []


def runs(text: str) -> set[bytes]:
    """Distinct runs of three words, as text."""
    found = words(normalize_text(text).encode())
    return {b" ".join(found[i : i + 3]) for i in range(len(found) - 2)}


def by_definition(run: bytes) -> int:
    """Hash of a run in plain integers, by the module's definition."""
    h = (
        sum(
            int.from_bytes(hashlib.blake2b(w, digest_size=8).digest(), "little") * k
            for w, k in zip(run.split(), SHINGLE, strict=True)
        )
        % 2**64
    )
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        h = (h ^ h >> shift) * factor % 2**64
    return h


def datasketchs(text: str) -> MinHash:
    from datasketch import MinHash  # its import takes a second

    reference = MinHash(num_perm=128, hashfunc=lambda run: by_definition(run) & 0xFFFFFFFF)
    reference.update_batch(runs(text))
    return reference


def test_mix_is_splitmix64s():
    # the generator's first output for seed 0 (Java's SplittableRandom(0).nextLong() too): the
    # finaliser of its increment
    h = 0x9E3779B97F4A7C15
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        h = (h ^ h >> shift) * factor % 2**64
    assert h == 0xE220A8397B1DCDAF


def test_shingles_are_runs_of_three_words():
    assert shingles("New York, new york!").tolist() == sorted(
        map(by_definition, (b"new york new", b"york new york"))
    )
    assert len(shingles("york new")) == 0
    assert shingles("a b c") != shingles("c b a")


@given(WORDS)
def test_shingles_by_definition(tokens):
    text = " ".join(tokens)
    assert shingles(text).tolist() == sorted(map(by_definition, runs(text)))


def test_words_are_forgotten_in_time(monkeypatch):
    monkeypatch.setattr("crawlkit.rules.duplicates.fingerprint._Words.MAX", 5)
    text = " ".join(f"w{i % 9}" for i in range(40))
    assert shingles(text).tolist() == sorted(map(by_definition, runs(text)))
    assert len(_WORDS) <= 5


def test_jaccard_by_hand():
    # {abc, bcd} and {bcd, cde}: one of three
    assert jaccard(shingles("a b c d"), shingles("b c d e")) == 1 / 3
    assert jaccard(shingles(""), shingles("")) == 0.0


@given(WORDS, WORDS)
def test_jaccard_of_sets(a, b):
    one, other = runs(" ".join(a)), runs(" ".join(b))
    assert jaccard(shingles(" ".join(a)), shingles(" ".join(b))) == len(one & other) / len(
        one | other
    )


def test_simhash_by_hand():
    # of one shingle it is its hash; of three, each bit's majority
    assert fingerprint("a b c").simhash % 2**64 == by_definition(b"a b c")
    x, y, z = (by_definition(run) for run in (b"a b c", b"b c d", b"c d e"))
    assert fingerprint("a b c d e").simhash % 2**64 == (x & y) | (y & z) | (x & z)


@pytest.mark.waits
@given(WORDS)
def test_minhash_is_datasketchs(tokens):
    text = " ".join(tokens)
    assert fingerprint(text).minhash == datasketchs(text).hashvalues.astype("<u4").tobytes()


@pytest.mark.waits
def test_minhash_of_many_shingles_is_datasketchs():
    text = " ".join(f"word{i * 7919 % 4001}" for i in range(5000))
    assert fingerprint(text).minhash == datasketchs(text).hashvalues.astype("<u4").tobytes()


NATIVE_TEXT = st.lists(
    st.text(max_size=8)
    | st.sampled_from(
        [
            " ",
            "\n\u3000",
            "A",
            "Word ",
            "w" * 23 + " ",
            "w" * 24,
            "É",
            "ŉ",
            "ß",
            "日本",
            "가",
            "・",
            "ΐΰᾷ",
            "\U00010400",
            "\U00020000x",
        ]
    ),
    max_size=60,
).map("".join)


def plainly(text: str) -> bytes:
    """`_normalize` without the part in C."""
    return " ".join(fingerprints._normal(text).split()).encode("utf-8", "replace")


@pytest.mark.waits
def test_a_character_that_joins_what_is_before_it_has_no_form_of_its_own():
    native = pytest.importorskip(
        "crawlkit.native._prints",
        reason="the parts in C are not built: needs a C compiler and Python's headers",
    )
    every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    parts = [unicodedata.decomposition(c).split() for c in every]
    seconds = {chr(int(p[1], 16)) for p in parts if len(p) == 2 and p[0][0] != "<"}
    seconds |= {chr(c) for c in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}  # of Hangul
    with_form = 0
    for char in every:
        if native.normal_form(char, fingerprints._normal) is not None:
            first = unicodedata.normalize("NFKD", char)[0]
            assert not unicodedata.combining(first) and first not in seconds, hex(ord(char))
            with_form += 1
    assert with_form > 40_000


@pytest.mark.waits
@given(NATIVE_TEXT, st.integers(0, 40))
def test_the_part_in_c_says_what_its_fallback_says(text, most):
    native = pytest.importorskip(
        "crawlkit.native._prints",
        reason="the parts in C are not built: needs a C compiler and Python's headers",
    )
    normalized = plainly(text)
    for _ in range(2):  # met for the first time, and remembered
        assert native.normal_form(text, fingerprints._normal) in (normalized, None)
    for n in (most, 100_000):
        found = native.shingle_hashes(normalized, _WORDS, n, fingerprints.SHINGLE)
        assert found == fingerprints.shingle_hashes(normalized, _WORDS, n, fingerprints.SHINGLE)
    hashes = np.frombuffer(found * 30, np.uint64)  # more than one part, and more than a byte counts
    if len(hashes):
        assert native.signatures(
            hashes, fingerprints._A, fingerprints._B
        ) == fingerprints.signatures(hashes, fingerprints._A, fingerprints._B)


@pytest.mark.waits
def test_every_character_is_normalised_and_told_from_a_separator_as_its_fallback_does():
    native = pytest.importorskip(
        "crawlkit.native._prints",
        reason="the parts in C are not built: needs a C compiler and Python's headers",
    )
    for start in [*range(0, 0x32000, 0x400), 0xE0000, 0x10FC00]:
        text = "".join(f"a{chr(c)}b " for c in range(start, start + 0x400))
        normalized = plainly(text)
        for char in text[1::4]:
            mixed = f"e{char}i {char}{char} "
            form = native.normal_form(mixed, fingerprints._normal)
            assert form in (plainly(mixed), None)
        assert native.shingle_hashes(
            normalized, _WORDS, 100_000, fingerprints.SHINGLE
        ) == fingerprints.shingle_hashes(normalized, _WORDS, 100_000, fingerprints.SHINGLE)


@given(
    st.lists(
        st.binary(max_size=9)
        | st.sampled_from([b"a b c ", "é".encode()[:1], b"\xf0\x90", b"\xed\xa0\x80"]),
        max_size=20,
    ).map(b"".join)
)
def test_bytes_that_are_no_text_are_read_in_bounds(raw):
    native = pytest.importorskip(
        "crawlkit.native._prints",
        reason="the parts in C are not built: needs a C compiler and Python's headers",
    )
    assert len(native.shingle_hashes(raw, _WORDS, 100, fingerprints.SHINGLE)) <= 8 * max(
        0, len(raw) - 2
    )


def test_the_part_in_c_takes_what_it_can_read_only():
    native = pytest.importorskip(
        "crawlkit.native._prints",
        reason="the parts in C are not built: needs a C compiler and Python's headers",
    )
    for arguments in (
        (b"1234567", fingerprints._A, fingerprints._B),
        (b"", fingerprints._A[:-1], fingerprints._B),
        (b"", fingerprints._A, b""),
    ):
        with pytest.raises(ValueError):
            native.signatures(*arguments)
    word = b"w" * 30  # too long to be remembered
    for hashes in ({}, {word: -1}, {word: 2**64}, {word: "1"}):
        with pytest.raises((KeyError, OverflowError, TypeError)):
            native.shingle_hashes(word, hashes, 10, fingerprints.SHINGLE)


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
        assert (
            (1 - threshold**rows) ** (128 // rows)
            <= 0.005
            < (1 - threshold ** (rows + 1)) ** (128 // (rows + 1))
        )
    print_ = fingerprint("one two three four five").minhash
    assert len(list(minhash_bands(print_, 0.8))) == 128 // band_rows(0.8)


@pytest.mark.parametrize("threshold", [0.5, 0.6, 0.7, 0.8, 0.9])
def test_bands_are_those_of_datasketchs_optimum(threshold):
    """Its weights of false positives and negatives: a candidate too many costs one comparison, one
    too few is a duplicate that is missed.
    """
    from datasketch import MinHashLSH

    optimum = MinHashLSH(threshold=threshold, num_perm=128, weights=(0.001, 0.999))
    rows = band_rows(threshold)
    assert optimum.r == rows and optimum.b <= 128 // rows


@pytest.mark.waits
def test_minhash_articles_suite():
    """Near-duplicate pairs of C.

    McCormick's MinHash data, by bands and verified Jaccard; none else among 100 and 1,000 articles.
    """
    from datasketch import MinHashLSH

    with tarfile.open(shared("suites/minhash/articles.tar.gz")) as tar:
        files = {
            Path(m.name).name: tar.extractfile(m).read().decode("utf-8", "replace")
            for m in tar
            if m.isfile()
        }
    for size in (100, 1000):
        texts = dict(line.split(" ", 1) for line in files[f"articles_{size}.train"].splitlines())
        truth = {
            frozenset(line.split())
            for line in files[f"articles_{size}.truth"].splitlines()
            if line.strip()
        }
        prints = {name: fingerprint(text) for name, text in texts.items()}
        blocks: dict[tuple[int, int], list[str]] = {}
        for name, p in prints.items():
            for band in minhash_bands(p.minhash, 0.5):
                blocks.setdefault(band, []).append(name)
        pairs = {
            frozenset((a, b))
            for members in blocks.values()
            for a in members
            for b in members
            if a < b
        }
        assert {p for p in pairs if jaccard(*(shingles(texts[n]) for n in p)) >= 0.5} == truth
        # the signatures go into datasketch's own index
        if size == 100:
            lsh = MinHashLSH(threshold=0.5, num_perm=128)
            for name, text in texts.items():
                m = datasketchs(text)
                lsh.insert(name, m)
                assert prints[name].minhash == m.hashvalues.astype("<u4").tobytes()
