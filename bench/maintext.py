"""Main text beside trafilatura and resiliparse on the article extraction benchmark, by its own
measure.

The rules are tuned on half A (every second page, from the first on) and reported on half B.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from statistics import mean, median
from typing import Any

import trafilatura
from crawlkit.rules.page.encoding import decode_utf8
from crawlkit.rules.page.markup import read_html
from crawlkit.rules.page.page import parse_page
from crawlkit.rules.text.main_text import main_text
from resiliparse.extract.html2text import extract_plain_text

from bench.measure import members, write
from tests.rules.page.article_measure import precision_recall_f1
from tests.rules.text import builder_pages
from tests.rules.text.wcxb import Told, by_type, metadata_scores, word_f1

ROUNDS = 5
TYPE = "text/html; charset=utf-8"


def ours(body: bytes) -> str:
    return main_text(read_html(decode_utf8(body, TYPE)[0]))


def trafilaturas(body: bytes) -> str:
    return trafilatura.extract(body.decode("utf-8", "replace"), include_comments=False) or ""


def resiliparses(body: bytes) -> str:
    return extract_plain_text(
        body.decode("utf-8", "replace"), main_content=True, alt_texts=False, list_bullets=False
    )


WAYS: dict[str, Callable[[bytes], str]] = {
    "here": ours,
    "trafilatura": trafilaturas,
    "resiliparse": resiliparses,
}


def halves() -> dict[str, list[tuple[bytes, str]]]:
    """Pages and their main text, in the order of the ground truth."""
    files = {
        name.rpartition("/")[2]: body
        for name, body in members("suites/articles/articles_half.tar.gz")
    }
    truth = json.loads(files["ground-truth.json"])
    pages = [
        (gzip.decompress(files[f"{name}.html.gz"]), truth[name]["articleBody"]) for name in truth
    ]
    return {"A": pages[::2], "B": pages[1::2]}


def builders_table(result: dict[str, Any]) -> list[str]:
    """Mean word F1 on sixty pages in the markup of twelve page builders."""
    made = [(page.markup.encode(), page.text) for page in builder_pages.pages()]
    scores = {name: [word_f1(text, way(body)) for body, text in made] for name, way in WAYS.items()}
    result["builders"] = {name: mean(of) for name, of in scores.items()}
    return [
        "# Main text of sixty pages in the markup of twelve page builders",
        "",
        "Mean word F1 and the least. Mark: a mean of 0.95.",
        "",
        "| | mean | least |",
        "|---|---|---|",
        *(f"| {name} | {mean(of):.3f} | {min(of):.3f} |" for name, of in scores.items()),
        "",
    ]


def our_metadata(body: bytes, url: str) -> Told:
    meta = parse_page(body, url, TYPE).metadata
    return Told(meta.headline, meta.author, meta.published_on)


def trafilaturas_metadata(body: bytes, url: str) -> Told:
    meta = trafilatura.extract_metadata(body.decode("utf-8", "replace"), default_url=url)
    return Told(meta.title, meta.author, meta.date) if meta else Told(None, None, None)


def metadata_table(result: dict[str, Any]) -> list[str]:
    """Title, author and date of the same pages, here and by trafilatura."""
    scores = {
        "here": metadata_scores(our_metadata),
        "trafilatura": metadata_scores(trafilaturas_metadata),
    }
    result["wcxb_metadata"] = scores
    return [
        "# Title, author and date of the same pages",
        "",
        "Over the pages that have each: mean word F1 of title and author, share of right dates."
        " Mark: at least trafilatura's.",
        "",
        "| | title | author | date |",
        "|---|---|---|---|",
        *(
            f"| {name} | {of['title']:.3f} | {of['author']:.3f} | {of['date']:.3f} |"
            for name, of in scores.items()
        ),
        "",
    ]


def types_table(result: dict[str, Any]) -> list[str]:
    """Mean word F1 on pages of seven types (WCXB), here and by trafilatura."""
    scores = {name: by_type(WAYS[name]) for name in ("here", "trafilatura")}
    result["wcxb"] = scores
    kinds = list(scores["here"])
    rows = [
        [name, *(f"{of[kind]:.3f}" for kind in kinds), f"{mean(of[k] for k in kinds[:-1]):.3f}"]
        for name, of in scores.items()
    ]
    return [
        "# Main text of pages of seven types",
        "",
        "WCXB, the part at hand (380 pages); mean word F1. Mark: 0.83 over all pages, and each type"
        " at least trafilatura's.",
        "",
        f"| | {' | '.join([*kinds, 'mean of types'])} |",
        f"|---|{'---|' * (len(kinds) + 1)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]


def main() -> None:
    pages = halves()
    cpu: dict[str, list[float]] = {name: [] for name in WAYS}
    found: dict[str, dict[str, list[str]]] = {}
    for _ in range(ROUNDS):
        for name, way in WAYS.items():
            start = time.process_time()
            found[name] = {
                half: [way(body) for body, _ in bodies] for half, bodies in pages.items()
            }
            cpu[name].append(time.process_time() - start)
    count = sum(map(len, pages.values()))
    result: dict[str, Any] = {"pages": {half: len(bodies) for half, bodies in pages.items()}}
    lines = [
        "# Main text of article pages",
        "",
        "| | F1 on B (reported) | precision | recall | F1 on A (tuned on) | CPU ms a page |",
        "|---|---|---|---|---|---|",
    ]
    for name in WAYS:
        scores = {
            half: precision_recall_f1(
                (text, got) for (_, text), got in zip(bodies, found[name][half], strict=True)
            )
            for half, bodies in pages.items()
        }
        result[name] = {"scores": scores, "cpu_ms": median(cpu[name]) / count * 1000}
        p, r, f1 = scores["B"]
        lines.append(
            f"| {name} | {f1:.3f} | {p:.3f} | {r:.3f} | {scores['A'][2]:.3f} |"
            f" {result[name]['cpu_ms']:.1f} |"
        )
    share = median(own / other for own, other in zip(cpu["here"], cpu["trafilatura"], strict=True))
    result["share_of_trafilatura_cpu"] = share
    lines += [
        "",
        (
            f"Here at {share:.2f} of trafilatura's CPU (median of {ROUNDS} rounds); mark: at most"
            " 0.25, F1 at least trafilatura's - 0.01."
        ),
        "",
        *types_table(result),
        *metadata_table(result),
        *builders_table(result),
    ]
    write(
        "maintext", result, "\n".join(lines), ("selectolax", "trafilatura", "Resiliparse", "lxml")
    )
