"""Near-duplicates on labelled texts, by the dedup stage at its shipped thresholds: precision and
recall of SimHash and of MinHash, and the candidates of a probe: `python -m bench dedup`.

The texts are made from a seed, and so are the labels: a family is an article and what became of it.
Near-duplicates are its light variants (a few words edited, a date and a notice added, a paragraph
moved, one left out); to be told from it are a rewritten one, one that quotes half of it, and others
of the same template. Labels come from how a text was made, never from a likeness that was measured.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from itertools import accumulate, combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from crawlkit.config import parse_config
from crawlkit.crawl.state import Crawl
from crawlkit.model import Round
from crawlkit.round.job import Job
from crawlkit.round.page_stages import dedup
from crawlkit.rules.duplicates.fingerprint import fingerprint, jaccard, shingles
from crawlkit.rules.url.canonical import url_key
from crawlkit.stages.compare import find_pairs

from bench.measure import write

SEED, FAMILIES, NOW = 7, 4_000, 1_767_225_600.0
WORDS = 20_000  # of the vocabulary, of Zipf frequencies
TARGET = 100  # candidates a probe, at most (H2)
LIGHT = ("edited", "stamped", "moved", "shortened")
OTHER = ("rewritten", "quoting", "template")


class Text(NamedTuple):
    """A text with its family, how it was made, and the round in which it comes."""

    name: str
    family: int
    made: str
    words: str
    late: bool


class Language:
    """Words of Zipf frequencies and paragraphs of them."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._weights = list(accumulate(1 / (n + 10) for n in range(WORDS)))

    def words(self, n: int) -> list[str]:
        ranks = self._rng.choices(range(WORDS), cum_weights=self._weights, k=n)
        return [f"w{rank}" for rank in ranks]

    def article(self) -> list[list[str]]:
        """Paragraphs: a short one, or an article of some hundred words."""
        return [self.words(self._rng.randint(25, 90)) for _ in range(self._rng.randint(3, 8))]


def make_texts(families: int, seed: int) -> list[Text]:
    """The labelled texts of so many families; every second text of a family comes late."""
    rng = random.Random(seed)
    language = Language(rng)
    template = language.words(60)
    texts = []
    for family in range(families):
        base = language.article()
        kinds = ["original", *rng.sample(LIGHT, 2), *rng.sample(OTHER, 2)]
        for n, made in enumerate(kinds):
            words = " ".join(_variant(made, base, template, language, rng))
            texts.append(Text(f"http://t.example/{family}/{n}", family, made, words, n % 2 == 1))
    return texts


def _variant(
    made: str, base: list[list[str]], template: list[str], language: Language, rng: random.Random
) -> list[str]:
    paragraphs = [[*p] for p in base]
    plain = [w for p in paragraphs for w in p]
    if made == "edited":  # one word in a hundred
        for at in rng.sample(range(len(plain)), max(1, len(plain) // 100)):
            plain[at] = language.words(1)[0]
    elif made == "stamped":
        plain = ["updated", str(rng.randrange(10**6)), *plain, *language.words(4)]
    elif made == "moved":
        paragraphs.append(paragraphs.pop(rng.randrange(len(paragraphs))))
        plain = [w for p in paragraphs for w in p]
    elif made == "shortened":  # without the last sentence of some words
        plain = plain[: -max(3, len(plain) // 25)]
    elif made == "rewritten":  # a third of its words are others
        for at in rng.sample(range(len(plain)), len(plain) // 3):
            plain[at] = language.words(1)[0]
    elif made == "quoting":
        plain = [*plain[: len(plain) // 2], *language.words(len(plain))]
    elif made == "template":
        plain = [*template, *language.words(len(plain)), *template[::-1]]
    return plain


def wanted_pairs(texts: list[Text]) -> set[tuple[str, str]]:
    """Pairs of names that are near-duplicates by how they were made."""
    alike: dict[int, list[str]] = {}
    for t in texts:
        if t.made == "original" or t.made in LIGHT:
            alike.setdefault(t.family, []).append(t.name)
    return {pair for names in alike.values() for pair in combinations(sorted(names), 2)}


def run(texts: list[Text], folder: Path) -> tuple[Job, Round]:
    """The dedup stage over two rounds of the texts; the job, and the later round."""
    job = Job(Crawl(folder, parse_config("", "bench", ())), engine="local", quick=True)
    for late in (False, True):
        round_ = job.crawl.open_round(NOW + late)
        rows = [
            {
                "capture_id": t.name,
                "round_id": round_.id,
                "url_key": url_key(t.name),
                "url": t.name,
                "text": t.words,
                "text_bytes": len(t.words),
                **fingerprint(t.words)._asdict(),
            }
            for t in texts
            if t.late is late
        ]
        with job.crawl.lock:
            job.tables.replace("pages", rows, {"round_id": [round_.id]})
        dedup(job, round_)
        job.crawl.close(round_)
    return job, round_


def candidates(job: Job, round_: Round, scheme: str) -> set[tuple[str, str]]:
    """Distinct candidate pairs of all texts by the bands of one scheme, as the stage finds them."""
    bands = job.read("sim_bands").where(f"scheme = '{scheme}'")
    pairs, _ = find_pairs(bands, bands.where("false"), job.cfg.dedup)
    ends = zip(pairs["a_capture"].to_pylist(), pairs["b_capture"].to_pylist(), strict=True)
    return {(min(a, b), max(a, b)) for a, b in ends}


def probe_counts(job: Job, round_: Round, scheme: str, probes: int) -> dict[str, float]:
    """Candidates of a late text: texts that share a block or band with it, of those known and those
    of its round (mean, most), and pairs whose texts are read (a SimHash distance of 11 rules a pair
    out before).
    """
    bands = job.read("sim_bands").where(f"scheme = '{scheme}'")
    fresh = bands.where(f"round_id = '{round_.id}'")
    known = bands.where(f"round_id <> '{round_.id}'")
    query = """
        SELECT count(*) AS n FROM (
            SELECT DISTINCT f.text_sha256 AS probe, k.text_sha256 AS met
            FROM {fresh} AS f JOIN {bands} AS k ON f.band = k.band AND f.hash = k.hash
            WHERE f.text_sha256 <> k.text_sha256
        ) AS pairs GROUP BY probe
    """
    met = [r["n"] for r in job.engine.query(query, fresh=fresh, bands=bands).rows()]
    pairs, _ = find_pairs(fresh, known, job.cfg.dedup)
    return {
        "mean": sum(met) / probes,
        "most": float(max(met, default=0)),
        "read": pairs.num_rows / probes,
    }


def score(found: set[tuple[str, str]], wanted: set[tuple[str, str]]) -> dict[str, float]:
    """Precision and recall of pairs."""
    right = len(found & wanted)
    return {
        "pairs": len(found),
        "precision": right / len(found) if found else 1.0,
        "recall": right / len(wanted),
    }


def measure(families: int, folder: Path, seed: int = SEED) -> dict[str, Any]:
    """Precision, recall and candidates of all ways, at the thresholds that are shipped."""
    texts = make_texts(families, seed)
    wanted = wanted_pairs(texts)
    started = time.process_time()
    job, later = run(texts, folder)
    cpu_s = time.process_time() - started
    prints = {t.name: fingerprint(t.words) for t in texts}
    runs = {t.name: shingles(t.words) for t in texts}
    limit = job.cfg.dedup

    def distance(a: str, b: str) -> int:
        return int(np.bitwise_count(np.int64(prints[a].simhash) ^ np.int64(prints[b].simhash)))

    probes = sum(t.late for t in texts)
    near = {
        p
        for p in candidates(job, later, "simhash")
        if distance(*p) <= limit.hamming  # the fingerprint's opinion
    }
    banded = candidates(job, later, "minhash")
    judged = job.tables.rows("similar", ["a_capture", "b_capture", "merged", "method"])
    merged = {
        tuple(sorted((r["a_capture"], r["b_capture"]))): r["method"] for r in judged if r["merged"]
    }
    ways = {
        f"SimHash, distance <= {limit.hamming}, unverified": near,
        "SimHash, verified Jaccard >= 0.5": {
            p for p in near if jaccard(runs[p[0]], runs[p[1]]) >= 0.5
        },
        "MinHash bands, unverified": banded,
        f"MinHash, verified Jaccard >= {limit.jaccard:g}": {
            p for p in banded if jaccard(runs[p[0]], runs[p[1]]) >= limit.jaccard
        },
        "the stage (either, verified)": {(a, b) for a, b in merged},
    }
    counts = {s: probe_counts(job, later, s, probes) for s in ("simhash", "minhash")}
    job.stop()
    kinds = Counter(t.made for t in texts)
    return {
        "texts": len(texts),
        "made": dict(sorted(kinds.items())),
        "wanted_pairs": len(wanted),
        "probes": probes,
        "ways": {name: score(found, wanted) for name, found in ways.items()},
        "candidates_per_probe": counts,
        "cpu_s": round(cpu_s, 1),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = measure(FAMILIES, Path(folder) / "crawl")
    rows = [
        f"| {name} | {s['precision']:.4f} | {s['recall']:.4f} | {s['pairs']} |"
        for name, s in result["ways"].items()
    ]
    met = result["candidates_per_probe"]
    lines = [
        "# Near-duplicates on labelled texts",
        "",
        (
            f"{result['texts']} texts of {FAMILIES} families made from seed {SEED} (bench/dedup.py"
            f" says how), {result['wanted_pairs']} pairs of near-duplicates by how they were made;"
            " the dedup stage over two rounds, thresholds as shipped. Made texts have no template"
            " but one and no noise of real pages: what a way misses here it misses by its"
            " threshold."
        ),
        "",
        "| way | precision | recall | pairs |",
        "|---|---|---|---|",
        *rows,
        "",
        "| candidates of a probe | share a block, mean | most | texts read, mean |",
        "|---|---|---|---|",
        *(
            f"| {name} | {m['mean']:.2f} | {m['most']:.0f} | {m['read']:.2f} |"
            for name, m in ((name, met[s]) for s, name in _SCHEMES)
        ),
        "",
        (
            f"{result['probes']} probes among all texts known before and beside them; target:"
            f" under {TARGET}."
        ),
    ]
    write("dedup", result, "\n".join(lines), ("numpy", "duckdb"))


_SCHEMES = (("simhash", "SimHash blocks"), ("minhash", "MinHash bands"))
