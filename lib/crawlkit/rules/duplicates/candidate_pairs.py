"""Which members of a candidate block are compared: each with the block's first ones and, in a long
block, with its nearest by SimHash.

All pairs of a block of n texts are n²/2, and pages made from one template put thousands into it. A
text is compared with the first `anchors` of its block only (a short block so gets all its pairs);
since what is near to none of them may still be near to another, the members of a longer block are
put in the order of their SimHashes and each is compared with those beside it (the sorted
neighbourhood of Hernández and Stolfo 1995). So the work follows the number of new texts, however
hot a block is.
"""

from __future__ import annotations

import numpy as np

NEIGHBOURS = 3


def candidate_pairs(
    block: np.ndarray, place: np.ndarray, simhash: np.ndarray, anchors: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows i < j to compare, as two arrays; a pair may come twice.

    block: int [n], ascending, equal for the members of one block. place: int [n], each member's
    place in its block, ascending; where a block goes on from an earlier call, its members of place
    0 to `anchors` - 1 are given again before the new ones. simhash: uint64 [n].
    """
    rows = np.arange(len(block))
    first = np.searchsorted(block, block)
    pairs = []
    for p in range(anchors):
        later = rows[place > p]
        if not len(later):
            break
        pairs.append((first[later] + p, later))
    hot = rows[np.isin(block, block[place > anchors])]
    order = hot[np.lexsort((simhash[hot], block[hot]))]
    for step in range(1, NEIGHBOURS + 1):
        a, b = order[:-step], order[step:]
        same = block[a] == block[b]
        pairs.append((np.minimum(a, b)[same], np.maximum(a, b)[same]))
    return np.concatenate([i for i, _ in pairs]), np.concatenate([j for _, j in pairs])


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamming distances of SimHashes, uint64 [n] each."""
    found: np.ndarray = np.bitwise_count(a ^ b)
    return found
