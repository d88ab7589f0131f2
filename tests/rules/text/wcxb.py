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

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_WORD = re.compile(r"\w+")


class RealPage(NamedTuple):
    kind: str
    body: bytes
    text: str


def pages() -> Iterator[RealPage]:
    """All of its pages."""
    for row in shared_rows("suites/wcxb/ground-truth.jsonl"):
        yield RealPage(row["type"], _body(row["id"]), row["main_content"])


def _body(name: str) -> bytes:
    folder: Path = shared("suites/wcxb/html")
    return gzip.decompress((folder / f"{name}.html.gz").read_bytes())


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


def _day(text: object) -> str | None:
    found = _DAY.search(str(text or ""))
    return found.group(0) if found else None


class Told(NamedTuple):
    """What is told of a page; a day begins as YYYY-MM-DD."""

    title: str | None
    author: str | None
    day: str | None


def metadata_scores(read: Callable[[bytes, str], Told]) -> dict[str, float]:
    """Means over the pages that have each: word F1 of title and author, share of right days.

    `read`: of a body and its URL.
    """
    scores: dict[str, list[float]] = {"title": [], "author": [], "date": []}
    for row in shared_rows("suites/wcxb/ground-truth.jsonl"):
        told = read(_body(row["id"]), row["url"])
        scores["title"].append(word_f1(row["title"], told.title or ""))
        if row["author"]:
            scores["author"].append(word_f1(row["author"], told.author or ""))
        if day := _day(row["publish_date"]):
            scores["date"].append(float(day == _day(told.day)))
    return {name: mean(values) for name, values in scores.items()}
