"""What a round costs by what is known already, on the engine local: `python -m bench known`, for
2,000,000 URLs; `KNOWN=16000000 python -m bench known` for more.

The known URLs have rows of crawldb, contents, links and sim_bands in the proportion of a crawl;
none of them is due. Then two rounds of 5,000 pages of the web of bench.realweb, each as a command
of its own, and the same rounds on a folder where nothing is known, in turn.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from crawlkit.config import load_config
from crawlkit.crawl.state import Crawl
from crawlkit.round.job import Job

from bench.measure import write
from bench.process import Watched
from bench.realweb import PagesMissing, RealWeb, serve
from bench.rounds import command
from tests.frontier_rows import known_urls

KNOWN = int(os.environ.get("KNOWN", "2000000"))
DUE, ROUNDS = 5_000, 2
NOW, LATER_S = 1_790_000_000.0, 1e9
LINKS, BLOCKS = 10, 4  # of a page; SimHash blocks of a text
PART = {"round_id": ["r000000"]}
_KEY = "unhex(substr(sha256('http://known' || {n} || '.example/page/' || {n}), 1, 32))"
_FILLED = {
    "contents": f"""
        SELECT 'r000000' AS round_id, 0 AS round_no, {_KEY.format(n="range")} AS url_key,
            'http://known' || range || '.example/page/' || range AS url, 'c' || range AS capture_id,
            sha256('text' || range) AS text_sha256
        FROM range({{known}})""",
    "sim_bands": f"""
        SELECT 'r000000' AS round_id, 'simhash' AS scheme, CAST(b.range AS integer) AS band,
            CAST(hash(t.range) % 65536 AS bigint) AS hash, sha256('text' || t.range) AS text_sha256,
            'c' || t.range AS capture_id, CAST(hash(t.range) >> 1 AS bigint) AS simhash
        FROM range({{known}}) AS t, range({BLOCKS}) AS b""",
    "links": f"""
        SELECT 'c' || t.range AS capture_id, 'r000000' AS round_id, CAST(k.range AS integer) AS n,
            {_KEY.format(n="t.range")} AS from_key,
            'http://known' || t.range || '.example/page/' || t.range AS from_url,
            {_KEY.format(n="((t.range * 50 + k.range) % {known})")} AS to_key,
            'http://known' || t.range || '.example/page/x' AS to_url,
            'known' || t.range || '.example' AS to_host, 'more' AS anchor, 'a' AS kind
        FROM range({{known}}) AS t, range({LINKS}) AS k""",
}


def settings(web: RealWeb, folder: Path) -> Path:
    """The configuration of a crawl, written into its folder."""
    folder.mkdir()
    path = folder / "crawl.yaml"
    budget = {"max_urls": DUE, "urls_per_host": 100_000}
    path.write_text(yaml.safe_dump(web.config(round=budget, frontier={"explore": 0.0})))
    return path


def fill(folder: Path, config: Path) -> None:
    """Write the tables of KNOWN URLs."""
    cfg = load_config(config)
    job = Job(Crawl(folder / "crawl", cfg), engine="local", memory="4GB")
    known_urls(job, KNOWN // cfg.frontier.buckets, 20, NOW + LATER_S, NOW)
    with job.crawl.lock:
        for name, sql in _FILLED.items():
            job.tables.replace(name, job.engine.query(sql.format(known=KNOWN)), PART)
    job.stop()


def figures(run: Watched) -> dict[str, Any]:
    done = {e["stage"]: e for e in run.events if e.get("event") == "stage_done"}
    return {
        "pages": done["parse"]["pages"],
        "cpu_s": run.cpu_s,
        "wall_s": run.wall_s,
        "peak_bytes": run.peak_bytes,
        "cpu_by_stage": {name: sum(cpu.values()) for name, cpu in run.cpu.items()},
    }


def measure(web: RealWeb, folder: Path) -> dict[str, Any]:
    """Rounds on both folders, in turn."""
    runs: dict[str, list[dict[str, Any]]] = {"known": [], "nothing": []}
    for name in runs:
        config = settings(web, folder / name)
        if name == "known":
            fill(folder / name, config)
        (folder / name / "seeds.txt").write_text("\n".join(web.seeds))
        # the first pages, whose links fill the rounds that are measured
        command(
            folder / name, "local", "crawl", "--seeds", folder / name / "seeds.txt", "--rounds", 2
        )
    for _ in range(ROUNDS):
        for name, of in runs.items():
            of.append(figures(command(folder / name, "local", "round")))
    return {"known_urls": KNOWN, "runs": runs}


def table(result: dict[str, Any]) -> str:
    runs = result["runs"]
    lines = [
        f"# A round with {result['known_urls']:,} known URLs",
        "",
        f"Rounds of at most {DUE:,} pages, the whole process each; with {LINKS} links, a text and"
        f" {BLOCKS} bands for each known URL, and with nothing known.",
        "",
        "| known | pages | CPU s | wall s | peak memory, MiB |",
        "|---|---|---|---|---|",
    ]
    for name, known in (("known", f"{result['known_urls']:,}"), ("nothing", "0")):
        lines += [
            f"| {known} | {r['pages']:,} | {r['cpu_s']:.1f} | {r['wall_s']:.1f} |"
            f" {r['peak_bytes'] >> 20:,} |"
            for r in runs[name]
        ]
    names = list(runs["known"][0]["cpu_by_stage"])
    lines += ["", "| CPU s of a stage, median | known | nothing known |", "|---|---|---|"]
    for stage in names:
        both = (statistics.median(r["cpu_by_stage"].get(stage, 0.0) for r in runs[n]) for n in runs)
        lines.append(f"| {stage} | {' | '.join(f'{s:.1f}' for s in both)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    try:
        with serve() as web, tempfile.TemporaryDirectory() as folder:
            result = measure(web, Path(folder))
    except PagesMissing as e:
        sys.exit(f"bench known: {e}")
    name = "known" if KNOWN == 2_000_000 else f"known-{KNOWN}"
    write(name, result, table(result), ("duckdb", "pyarrow"))
