"""Whole crawls over a web of real pages, from the start of the command to the report, on both
engines, beside Scrapy on the same web.

`python -m bench rounds`. The web is bench.realweb; all crawl it to its end from the same seeds,
without delays, one request at a time on a host, with robots.txt obeyed, links extracted and every
exchange written to WARC files. Ours is the command `crawlkit crawl` with its tables, duplicates,
ranks and report page.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from crawlkit.adapters.warc.reader import iter_records
from isal import isal_zlib
from selectolax.lexbor import LexborHTMLParser

from bench.measure import ROOT, write
from bench.process import Watched, watch
from bench.realweb import PagesMissing, RealWeb, serve

SIX = 3900  # URLs of a round, so that the web takes six
ONE = 100_000  # the web in one round (its seeds' pages alone in the first)
CRAWLS = {  # name -> engine, URLs of a round
    "local, six rounds": ("local", SIX),
    "local, one round": ("local", ONE),
    "spark, six rounds": ("spark", SIX),
}
PYTHON_STAGES = ("fetch", "parse", "dedup")
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{ROOT / 'lib'}:{ROOT}"}


def phase(event: dict[str, Any]) -> str | None:
    """Stage that begins with an event of `crawlkit --json`."""
    return {"stage": event.get("stage"), "stage_done": "between stages"}.get(event.get("event", ""))


def ours(web: RealWeb, folder: Path, engine: str, max_urls: int) -> Watched:
    folder.mkdir()
    config, seeds = folder / "crawl.yaml", folder / "seeds.txt"
    budget = {"max_urls": max_urls, "urls_per_host": 100_000}
    config.write_text(yaml.safe_dump(web.config(round=budget, frontier={"explore": 0.0})))
    seeds.write_text("\n".join(web.seeds))
    return command(folder, engine, "crawl", "--seeds", seeds, "--rounds", 40)


def command(folder: Path, engine: str, *words: Any) -> Watched:
    """A crawlkit command on a folder, from the start of the process to its end."""
    given = ("--data", folder / "crawl", "--config", folder / "crawl.yaml", "--engine", engine)
    argv = [sys.executable, "-m", "crawlkit", *map(str, words), *map(str, given), "--json"]
    return watch(argv, phase, ENVIRONMENT)


def small_rounds(web: RealWeb, folder: Path, engine: str) -> dict[str, tuple[float, float]]:
    """CPU and wall time (s, medians of 3) of the whole process of a round without anything due, and
    of one with one page due, after a crawl of the web.
    """
    page = next(url for url in web.seeds if "//handbook-" in url)
    runs: dict[str, list[Watched]] = {"nothing": [], "one page": []}
    for n in range(3):
        runs["nothing"].append(command(folder, engine, "round"))
        one = command(folder, engine, "crawl", f"{page}?n={n}", "--rounds", 1)
        runs["one page"].append(one)
    return {
        name: (
            statistics.median(w.cpu_s for w in watched),
            statistics.median(w.wall_s for w in watched),
        )
        for name, watched in runs.items()
    }


def scrapy(web: RealWeb, folder: Path) -> Watched:
    given = folder / "scrapy.json"
    documented = [h for h in web.hosts if not h.startswith("article-")]
    given.write_text(
        json.dumps(
            {
                "seeds": web.seeds,
                "hosts": web.hosts,
                "documented": documented,
                "articles": web.articles,
                "warc": str(folder / "scrapy.warc.gz"),
            }
        )
    )
    return watch(
        [sys.executable, "-m", "bench.scrapy_crawl", str(given)],
        env=ENVIRONMENT,
    )


def floor_ms(warcs: Path) -> float:
    """CPU ms a page of the barest loop over the pages in a folder of WARC files: read a record,
    gunzip, parse the HTML, SHA-256 of the body, gzip again. The best of 3.
    """
    taken = []
    for _ in range(3):
        pages, start = 0, time.process_time()
        for path in warcs.rglob("*.warc.gz"):
            with path.open("rb") as file:
                for record in iter_records(file):
                    if record.type == "response" and b"<html" in record.payload[:2048].lower():
                        LexborHTMLParser(record.payload)
                        hashlib.sha256(record.payload).hexdigest()
                        isal_zlib.compress(record.payload, 1, 31)
                        pages += 1
        taken.append((time.process_time() - start) / pages * 1000)
    return min(taken)


def figures(run: Watched) -> dict[str, Any]:
    """What a crawl of ours took."""
    said = json.loads(run.out.strip().splitlines()[-1])
    parsed = [e for e in run.events if e.get("event") == "stage_done" and e["stage"] == "parse"]
    pages = sum(e.get("pages", 0) for e in parsed)
    cpu: dict[str, Counter[str]] = {name: Counter(c) for name, c in run.cpu.items()}
    python_s = sum(cpu.get(s, Counter())["python"] for s in PYTHON_STAGES)
    return {
        "rounds": len(said["rounds"]),
        "outcomes": said["outcomes"],
        "pages": pages,
        "wall_s": run.wall_s,
        "cpu_s": run.cpu_s,
        "peak_bytes": run.peak_bytes,
        "peak_by_program": run.peak_by_program,
        "cpu_by_stage": {n: dict(c) for n, c in cpu.items()},
        "wall_by_stage": dict(run.wall),
        "python_ms_a_page": python_s / pages * 1000,
    }


def measure(web: RealWeb, folder: Path) -> dict[str, Any]:
    """All crawls in turn, and small rounds after the first of each engine."""
    crawls, small, floor = {}, {}, 0.0
    there = scrapy(web, folder)
    for n, (name, (engine, max_urls)) in enumerate(CRAWLS.items()):
        of_crawl = folder / f"{n}"
        crawls[name] = figures(ours(web, of_crawl, engine, max_urls))
        if not n:
            floor = floor_ms(of_crawl / "crawl" / "warc")
        if max_urls == SIX:
            small[engine] = small_rounds(web, of_crawl, engine)
    statuses = json.loads(there.out)["statuses"]
    return {
        "web": {
            "hosts": len(web.hosts),
            "files": web.files,
            "distinct_bodies": len(web.bodies),
            "mean_page_bytes": web.total_bytes // web.files,
        },
        "crawls": crawls,
        "small_rounds_s": small,
        "floor_ms": floor,
        "scrapy": {
            "statuses": statuses,
            "pages": statuses.get("200", 0),
            "wall_s": there.wall_s,
            "cpu_s": there.cpu_s,
            "peak_bytes": there.peak_bytes,
        },
        "load_average": os.getloadavg()[2],
    }


def ms_a_page(side: dict[str, Any]) -> float:
    return side["cpu_s"] / side["pages"] * 1000


MARKS = {"local, six rounds": "0.35", "local, one round": "0.28", "spark, six rounds": "0.6"}


def table(r: dict[str, Any]) -> str:
    web, crawls, there = r["web"], r["crawls"], r["scrapy"]
    lines = [
        "# Whole crawls over real pages",
        "",
        (
            f"{web['files']:,} pages of documentation packages and articles"
            f" ({web['distinct_bodies']:,} distinct bodies, {web['mean_page_bytes'] / 1000:.1f} kB"
            f" in the mean) under {web['hosts']} host names, one nginx on loopback, no delay, to"
            " the end of the web."
        ),
        "",
        "| what | measured | mark |",
        "|---|---|---|",
    ]
    for name, side in crawls.items():
        ratio = ms_a_page(side) / ms_a_page(there)
        lines.append(f"| CPU a page: {name} / Scrapy | {ratio:.2f} | at most {MARKS[name]} |")
    python_ms = crawls["local, six rounds"]["python_ms_a_page"]
    lines.append(f"| local: CPU of fetch, parse and dedup, ms a page | {python_ms:.2f} | 4.5 |")
    parse_ms = sum(crawls["local, six rounds"]["cpu_by_stage"]["parse"].values()) * 1000
    parse_ms /= crawls["local, six rounds"]["pages"]
    lines.append(
        f"| local: CPU of parse, and of the barest loop over the pages, ms a page | {parse_ms:.2f},"
        f" {r['floor_ms']:.2f} | 2.2 |"
    )
    for engine, small in r["small_rounds_s"].items():
        for name, (cpu_s, wall_s) in small.items():
            mark = {"nothing": "1.5 s wall", "one page": "4 CPU s, 5 s wall"}[name]
            shown = mark if engine == "local" else ""
            lines.append(
                f"| {engine}: a round of {name}, the whole process: CPU s, wall s |"
                f" {cpu_s:.1f}, {wall_s:.1f} | {shown} |"
            )
    lines += [
        "",
        "| crawler | pages | rounds | pages/s | CPU ms a page | peak memory, MiB |",
        "|---|---|---|---|---|---|",
    ]
    for name, side in (*crawls.items(), ("Scrapy", there)):
        lines.append(
            f"| {name} | {side['pages']:,} | {side.get('rounds', '')} |"
            f" {side['pages'] / side['wall_s']:.0f} | {ms_a_page(side):.1f} |"
            f" {side['peak_bytes'] / 2**20:.0f} |"
        )
    lines += ["", *stages_table(crawls), "", *notes(r)]
    return "\n".join(lines)


def stages_table(crawls: dict[str, Any]) -> list[str]:
    """CPU ms a page of each stage, by crawl."""
    lines = [
        f"| stage, CPU ms a page (Java in brackets) | {' | '.join(crawls)} |",
        "|---|" + "---|" * len(crawls),
    ]
    for stage in crawls["spark, six rounds"]["cpu_by_stage"]:
        cells = []
        for side in crawls.values():
            cpu = {k: v / side["pages"] * 1000 for k, v in side["cpu_by_stage"][stage].items()}
            java = f" ({cpu['java']:.2f})" if "java" in cpu else ""
            cells.append(f"{sum(cpu.values()):.2f}{java}")
        lines.append(f"| {stage} | {' | '.join(cells)} |")
    return lines


def notes(r: dict[str, Any]) -> list[str]:
    """How it was measured."""
    return [
        (
            "All: user and system time of the whole process tree, from the start of the"
            " command to its end. Peak memory is proportional (PSS), sampled once a second. Scrapy:"
            " settings of its page on broad crawls, 180 s timeout, retries, robots.txt,"
            " LinkExtractor, warcio with gzip, one request at a time on a host; it keeps no state"
            " between runs, finds no duplicates and writes no tables. What Scrapy's ratio does not"
            " show: the web is on the same machine, so no answer is waited for."
        ),
        (
            "The barest loop: read a WARC record, gunzip, parse with lexbor, SHA-256 of the body,"
            " gzip again."
        ),
        (
            f"Load average of the quarter hour at the end: {r['load_average']:.1f}; above the"
            " number of cores other work ran too, and walls (and some CPU) are longer than they"
            " need be."
        ),
        "",
    ]


def main() -> None:
    try:
        with serve() as web, tempfile.TemporaryDirectory() as name:
            result = measure(web, Path(name))
    except PagesMissing as e:
        sys.exit(str(e))
    write("rounds", result, table(result), ("pyspark", "duckdb", "deltalake", "scrapy", "warcio"))
