"""WCXB: real pages of seven types with their main text (read from the shared folder)."""

from __future__ import annotations

import gzip
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from tests.shared_data import shared, shared_rows

_WORD = re.compile(r"\w+")


class RealPage(NamedTuple):
    kind: str
    body: bytes
    text: str


def pages() -> Iterator[RealPage]:
    """All of its pages."""
    folder: Path = shared("suites/wcxb/html")
    for row in shared_rows("suites/wcxb/ground-truth.jsonl"):
        body = gzip.decompress((folder / f"{row['id']}.html.gz").read_bytes())
        yield RealPage(row["type"], body, row["main_content"])


def word_f1(text: str, found: str) -> float:
    """Its measure: F1 of the words' counts."""
    a, b = (Counter(_WORD.findall(t.lower())) for t in (text, found))
    both = sum((a & b).values())
    if not both:
        return float(not a and not b)
    precision, recall = both / sum(b.values()), both / sum(a.values())
    return 2 * precision * recall / (precision + recall)


def by_type(extract: Callable[[bytes], str]) -> dict[str, float]:
    """Mean F1 of each type of page, and of all pages (the suite's own measure)."""
    scores: dict[str, list[float]] = defaultdict(list)
    for page in pages():
        scores[page.kind].append(word_f1(page.text, extract(page.body)))
    return {kind: mean(values) for kind, values in sorted(scores.items())} | {
        "all pages": mean(score for values in scores.values() for score in values)
    }
