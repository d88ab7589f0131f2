"""Texts of the synthetic web: a fixed vocabulary of made-up words, and Jaccard similarity
by hand.
"""

from __future__ import annotations

import random

_STARTS = (
    "ba be bo da de do fa fe fo ga ge go ka ke ko la le lo ma me mo na ne no pa pe po ra re ro sa"
    " se so ta te to va ve vo".split()
)
_MIDDLES = "bar den fil gor kan lem mor nel par rin".split()
_ENDS = "a el en er ia in is on or um".split()

# 42 x 10 x 10 words; chance meetings of three in a row are rarer than one page in a million
VOCABULARY = tuple(a + m + e for m in _MIDDLES for e in _ENDS for a in _STARTS)


def words(rng: random.Random, count: int) -> list[str]:
    """`count` words, all of them lower-case letters."""
    return rng.choices(VOCABULARY, k=count)


def sentences(text: list[str], length: int = 11) -> list[str]:
    """The words as sentences of `length` words: a capital first, a full stop last."""
    cut = [text[i : i + length] for i in range(0, len(text), length)]
    return [" ".join([s[0].capitalize(), *s[1:]]) + "." for s in cut]


def jaccard(a: list[str], b: list[str], n: int = 3) -> float:
    """Size of the intersection over size of the union of the sets of n-word shingles."""
    left = {tuple(a[i : i + n]) for i in range(len(a) - n + 1)}
    right = {tuple(b[i : i + n]) for i in range(len(b) - n + 1)}
    return len(left & right) / len(left | right)


def edited(rng: random.Random, text: list[str], count: int) -> list[str]:
    """`text` with `count` words replaced, spread evenly: each spoils three shingles."""
    out = list(text)
    step = len(text) // (count + 1)
    for i in range(1, count + 1):
        out[i * step] = rng.choice([w for w in VOCABULARY[:50] if w != out[i * step]])
    return out
