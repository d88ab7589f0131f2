"""The article extraction benchmark's own measure (scrapinghub/article-extraction-benchmark, MIT):
shingles of four tokens.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_TOKEN = re.compile(r"\w+")


def _shingles(text: str, size: int = 4) -> Counter[tuple[str, ...]]:
    tokens = _TOKEN.findall(text)
    return Counter(
        t for i in range(max(1, len(tokens) - size + 1)) if (t := tuple(tokens[i : i + size]))
    )


def precision_recall_f1(pairs: Iterable[tuple[str, str]]) -> tuple[float, float, float]:
    """Means over (expected, found) texts of precision and recall, and their F1."""
    precisions, recalls = [], []
    for expected, found in pairs:
        want, got = _shingles(expected), _shingles(found)
        both = sum((want & got).values())
        wrong, missed = got.total() - both, want.total() - both
        precisions.append(
            1.0 if both == wrong == 0 or wrong == missed == 0 else both / (both + wrong)
        )
        recalls.append(
            1.0 if both == missed == 0 or wrong == missed == 0 else both / (both + missed)
        )
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return (
        precision,
        recall,
        2 * precision * recall / (precision + recall) if precision + recall else 0.0,
    )
