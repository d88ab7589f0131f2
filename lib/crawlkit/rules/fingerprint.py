"""Fingerprints of a text: SHA-256 of the normalised text, 64-bit SimHash and MinHash over shingles of three words.

MinHash values equal those of datasketch 2's `MinHash(num_perm=128)` (scheme affine32, SHA-1, seed 1) updated with
`shingles(text)`, so signatures can be given to its LSH index. SimHash is Charikar's, over the same SHA-1 digests.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Set
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from datasketch import MinHash

SHINGLE_WORDS = 3
PERMUTATIONS = 128
SIMHASH_BLOCKS = 4
MAX_WORDS = 100_000  # of a text that are fingerprinted; bounds the work on a hostile page

_INVISIBLE = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")
# scripts written without spaces: each character is a word there
_NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_NO_SPACES_CHAR = re.compile(rf"([{_NO_SPACES}])")
_NO_WORD_BEYOND_ASCII = re.compile(r"[^\w\x00-\x7f]+")
_ASCII_SEPARATORS = bytes(b if b > 0x7F or chr(b).isalnum() else 0x20 for b in range(256))
_A, _B = (p.reshape(-1, 1) for p in MinHash(num_perm=PERMUTATIONS).permutations)
_HASHES_AT_ONCE = 1024  # 512 KiB of products: stays in the second-level cache


class Fingerprint(NamedTuple):
    """Of one text; all None without text, the last two None with fewer than three words.

    `text_sha256`: 64 hex digits; `simhash`: signed 64-bit integer; `minhash`: 128 values, 32-bit little-endian.
    """

    text_sha256: str | None
    simhash: int | None
    minhash: bytes | None


def normalize_text(text: str) -> str:
    """NFKC, case-folded, invisible characters removed, white space collapsed: equal for texts that read the same."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    return " ".join(text.casefold().split())


def words(normalized: str) -> list[bytes]:
    """Words of a normalised text in UTF-8: runs of letters and digits, single characters in scripts without spaces."""
    if not normalized.isascii():
        normalized = _NO_SPACES_CHAR.sub(r" \1 ", _NO_WORD_BEYOND_ASCII.sub(" ", normalized))
    return normalized.encode("utf-8", "replace").translate(_ASCII_SEPARATORS).split()[:MAX_WORDS]


def shingles(text: str) -> set[bytes]:
    """Distinct runs of three words of `text`, as UTF-8 with single spaces; empty with fewer than three words."""
    return _shingles(normalize_text(text))


def _shingles(normalized: str) -> set[bytes]:
    found = words(normalized)
    joined = b" ".join(found)
    after = list(accumulate([len(w) + 1 for w in found]))  # the position after each word and its space
    return {joined[start : end - 1] for start, end in zip([0, *after], after[SHINGLE_WORDS - 1 :], strict=False)}


def fingerprint(text: str) -> Fingerprint:
    """All fingerprints of a text, at the cost of one SHA-1 a distinct shingle."""
    normalized = normalize_text(text)
    if not normalized:
        return Fingerprint(None, None, None)
    digest = hashlib.sha256(normalized.encode("utf-8", "replace")).hexdigest()
    found = _shingles(normalized)
    if not found:
        return Fingerprint(digest, None, None)
    simhash, minhash = signatures(found)
    return Fingerprint(digest, simhash, minhash)


def text_sha256(text: str) -> str | None:
    """SHA-256 of the normalised text in hex; None if nothing is left of it."""
    normalized = normalize_text(text)
    return hashlib.sha256(normalized.encode("utf-8", "replace")).hexdigest() if normalized else None


def signatures(shingle_set: Set[bytes]) -> tuple[int, bytes]:
    """SimHash and MinHash of a set of shingles. Raises ValueError on an empty set."""
    if not shingle_set:
        raise ValueError("no shingles: no signature")
    sha1 = hashlib.sha1
    digests = np.frombuffer(b"".join([sha1(s).digest() for s in shingle_set]), np.uint8).reshape(-1, 20)
    return _simhash(digests[:, :8]), _minhash(np.ascontiguousarray(digests[:, :4]).view("<u4")[:, 0])


def _simhash(first8: np.ndarray) -> int:
    ones = np.zeros(64, np.int64)
    bits = np.unpackbits(first8, axis=1, bitorder="little")
    for i in range(0, len(bits), 255):  # sums of at most 255 bits fit the bytes they are added in
        ones += np.add.reduce(bits[i : i + 255], axis=0, dtype=np.uint8)
    return int(np.packbits(2 * ones > len(bits), bitorder="little").view("<i8")[0])


def _minhash(hashes: np.ndarray) -> bytes:
    # the MurmurHash3 finaliser of datasketch's affine32 scheme, then a*h + b mod 2^32 and the smallest
    h = hashes ^ (hashes >> np.uint32(16))
    h = h * np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    low = np.full(PERMUTATIONS, 0xFFFFFFFF, np.uint32)
    for i in range(0, len(h), _HASHES_AT_ONCE):
        products = _A * h[i : i + _HASHES_AT_ONCE]
        products += _B
        np.minimum(low, products.min(axis=1), out=low)
    return low.astype("<u4").tobytes()


def jaccard(a: Set[bytes], b: Set[bytes]) -> float:
    """Size of the intersection over size of the union; 0 if both are empty (nothing says that they are alike)."""
    both = len(a & b)
    union = len(a) + len(b) - both
    return both / union if union else 0.0


def estimated_jaccard(a: bytes, b: bytes) -> float:
    """Jaccard similarity as two MinHash signatures tell it (standard error below 0.045)."""
    return float(np.count_nonzero(np.frombuffer(a, np.uint32) == np.frombuffer(b, np.uint32))) / PERMUTATIONS


def hamming(a: int, b: int) -> int:
    """Number of bits in which two 64-bit fingerprints differ."""
    return ((a ^ b) & 0xFFFFFFFFFFFFFFFF).bit_count()


def simhash_blocks(simhash: int) -> list[tuple[int, int]]:
    """(block number, its 16 bits): two fingerprints at distance 3 or less share at least one of the four."""
    return [(i, (simhash >> (16 * i)) & 0xFFFF) for i in range(SIMHASH_BLOCKS)]


def band_rows(threshold: float) -> int:
    """Rows a band: the most with which a pair at `threshold` still meets in some band with probability 0.995."""
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
