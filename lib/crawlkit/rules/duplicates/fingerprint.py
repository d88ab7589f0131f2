"""Fingerprints of a text: SHA-256 of the normalised text, 64-bit SimHash and MinHash over shingles
of three words.

A shingle is known by 64 bits: BLAKE2b-64 of each of its words a, b, c (little-endian), MIX(a*A +
b*B + c*C) modulo 2^64 with the odd multipliers SHINGLE and MIX the finaliser of SplitMix64. A word
is hashed once a process and the rest is arithmetic on arrays: a third of the time of one SHA-1 a
shingle. MinHash values equal those of datasketch 2's `MinHash(num_perm=128, seed=1)` (scheme
affine32) whose hash function gives a shingle's low 32 bits, so signatures can be given to its LSH
index. SimHash is Charikar's, over the 64 bits.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from crawlkit import native

SHINGLE = (
    0x9E3779B97F4A7C15,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
)  # of the first, second and third word
PERMUTATIONS = 128
SIMHASH_BLOCKS = 4
MAX_WORDS = 100_000  # of a text that are fingerprinted; bounds the work on a hostile page

_INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
_WITHOUT_INVISIBLE = dict.fromkeys(map(ord, _INVISIBLE))
# scripts written without spaces: each character is a word there
_NO_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-"
    "\U0003ffff"
)
_NO_SPACES_CHAR = re.compile(rf"([{_NO_SPACES}])")
_NO_WORD = re.compile(r"\W+")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]{1,100}")
_ASCII_SEPARATORS = bytes(b if b > 0x7F or chr(b).isalnum() else 0x20 for b in range(256))
# datasketch 2's permutations of seed 1 (a is odd); importing it for them would load scipy into
# every worker
_DRAWN = np.random.RandomState(1)
_A = _DRAWN.randint(0, 1 << 31, PERMUTATIONS, np.uint32) * np.uint32(2) + np.uint32(1)
_B = _DRAWN.randint(0, 1 << 32, PERMUTATIONS, np.uint32)
_HASHES_AT_ONCE = 1024  # 512 KiB of products: stays in the second-level cache


class Fingerprint(NamedTuple):
    """Of one text; all None without text, the last two None with fewer than three words.

    `text_sha256`: 64 hex digits; `simhash`: signed 64-bit integer; `minhash`: 128 values, 32-bit
    little-endian.
    """

    text_sha256: str | None
    simhash: int | None
    minhash: bytes | None


def normalize_text(text: str) -> str:
    """NFKC, case-folded, invisible characters removed, white space collapsed: equal for texts that
    read the same.
    """
    return _normalize(text).decode()


def _normalize(text: str) -> bytes:
    """`normalize_text` in UTF-8."""
    if _normal_form is not None and (form := _normal_form(text, _normal)) is not None:
        return bytes(form)
    return " ".join(_normal(text).split()).encode("utf-8", "replace")


def _normal(text: str) -> str:
    """`normalize_text`, white space as it is."""
    if not text.isascii():
        if any(c in text for c in _INVISIBLE):  # nearly never
            text = text.translate(_WITHOUT_INVISIBLE)
        text = unicodedata.normalize("NFKC", text)
    return text.casefold()


def words(normalized: bytes) -> list[bytes]:
    """Words of a normalised text in UTF-8: runs of letters and digits, single characters in scripts
    without spaces.
    """
    if not normalized.isascii():
        normalized = _BEYOND_ASCII.sub(_space_out, normalized.decode()).encode()
    return normalized.translate(_ASCII_SEPARATORS).split()


@lru_cache(10_000)
def _spaced_run(run: str) -> str:
    return _NO_SPACES_CHAR.sub(r" \1 ", _NO_WORD.sub(" ", run))


def _space_out(match: re.Match[str]) -> str:
    """A run beyond ASCII with what separates words made spaces.

    Runs repeat: quotation marks, dashes, a language's words.
    """
    return _spaced_run(match[0])


class _Words(dict[bytes, int]):
    """Hash of each word met; forgotten all at once when they are too many."""

    MAX = 200_000

    def __missing__(self, word: bytes) -> int:
        if len(self) >= self.MAX:
            self.clear()
        value = self[word] = int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "little")
        return value


_WORDS = _Words()


def shingles(text: str) -> np.ndarray:
    """Distinct runs of three words of `text` as hashes: a sorted array of 64-bit unsigned integers,
    empty with fewer than three words.
    """
    return _shingles(_normalize(text))


def _shingles(normalized: bytes) -> np.ndarray:
    return np.frombuffer(_shingle_hashes(normalized, _WORDS, MAX_WORDS, SHINGLE), np.uint64)


def shingle_hashes(
    normalized: bytes, hashes: Mapping[bytes, int], most: int, by: tuple[int, int, int]
) -> bytearray:
    """Pure-Python fallback of `_prints.shingle_hashes`."""
    found = words(normalized)[:most]
    if len(found) < len(by):
        return bytearray()
    w, a, b, c = (
        np.fromiter(map(hashes.__getitem__, found), np.uint64, len(found)),
        *np.array(by, np.uint64),
    )
    h = w[:-2] * a + w[1:-1] * b + w[2:] * c
    h ^= h >> np.uint64(30)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(27)
    h *= np.uint64(0x94D049BB133111EB)
    h ^= h >> np.uint64(31)
    return bytearray(np.unique(h))


def fingerprint(text: str) -> Fingerprint:
    """All fingerprints of a text."""
    normalized = _normalize(text)
    if not normalized:
        return Fingerprint(None, None, None)
    digest = hashlib.sha256(normalized).hexdigest()
    found = _shingles(normalized)
    return (
        Fingerprint(digest, *_signatures(found, _A, _B))
        if len(found)
        else Fingerprint(digest, None, None)
    )


def text_sha256(text: str) -> str | None:
    """SHA-256 of the normalised text in hex; None if nothing is left of it."""
    normalized = _normalize(text)
    return hashlib.sha256(normalized).hexdigest() if normalized else None


def signatures(hashes: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[int, bytes]:
    """Pure-Python fallback of `_prints.signatures`."""
    return _simhash(hashes), _minhash(hashes, a.reshape(-1, 1), b.reshape(-1, 1))


def _simhash(hashes: np.ndarray) -> int:
    ones = np.zeros(64, np.int64)
    bits = np.unpackbits(
        hashes.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little"
    )
    for i in range(0, len(bits), 255):  # sums of at most 255 bits fit the bytes they are added in
        ones += np.add.reduce(bits[i : i + 255], axis=0, dtype=np.uint8)
    return int(np.packbits(2 * ones > len(bits), bitorder="little").view("<i8")[0])


def _minhash(hashes: np.ndarray, a: np.ndarray, b: np.ndarray) -> bytes:
    # the MurmurHash3 finaliser of datasketch's affine32 scheme, then a*h + b mod 2^32 and the
    # smallest
    h = hashes.astype(np.uint32)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    low = np.full(PERMUTATIONS, 0xFFFFFFFF, np.uint32)
    for i in range(0, len(h), _HASHES_AT_ONCE):
        products = a * h[i : i + _HASHES_AT_ONCE]
        products += b
        np.minimum(low, products.min(axis=1), out=low)
    return low.astype("<u4").tobytes()


_part = native.load("_prints")
_normal_form = _part.normal_form if _part else None
_shingle_hashes = _part.shingle_hashes if _part else shingle_hashes
_signatures = _part.signatures if _part else signatures


def jaccard(a: np.ndarray, b: np.ndarray) -> float:
    """Size of the intersection of two `shingles` over that of the union; 0 if both are empty
    (nothing says that they are near-duplicates).
    """
    both = np.sort(np.concatenate((a, b)))
    twice = int(np.count_nonzero(both[1:] == both[:-1]))
    union = len(both) - twice
    return twice / union if union else 0.0


def hamming(a: int, b: int) -> int:
    """Number of bits in which two 64-bit fingerprints differ."""
    return ((a ^ b) & 0xFFFFFFFFFFFFFFFF).bit_count()


def simhash_blocks(simhash: int) -> list[tuple[int, int]]:
    """(block number, its 16 bits): two fingerprints at distance 3 or less share at least one of the
    four.
    """
    return [(i, (simhash >> (16 * i)) & 0xFFFF) for i in range(SIMHASH_BLOCKS)]


def band_rows(threshold: float) -> int:
    """Rows a band: the most with which a pair at `threshold` still meets in some band with
    probability 0.995.
    """
    for rows in range(16, 1, -1):
        if 1 - (1 - threshold**rows) ** (PERMUTATIONS // rows) >= 0.995:
            return rows
    return 1


def minhash_bands(minhash: bytes, threshold: float = 0.8) -> Iterator[tuple[int, int]]:
    """(band number, signed 64-bit hash of the band): pairs that share one are candidates (LSH)."""
    size = 4 * band_rows(threshold)
    for band in range(len(minhash) // size):
        digest = hashlib.blake2b(minhash[band * size : (band + 1) * size], digest_size=8).digest()
        yield band, int.from_bytes(digest, "little", signed=True)
