"""Whole rounds over a web of real pages, from the start of the JVM to the report, beside Scrapy on
the same web.

`python -m bench rounds`. The web is bench.realweb; both crawl it to its end from the same seeds,
without delays, one request at a time on a host, with robots.txt obeyed, links extracted and every
exchange written to WARC files. Ours is the command `crawlkit crawl` with its tables, duplicates,
ranks and report page in rounds of MAX_URLS.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.measure import ROOT, write
from bench.process import Watched, watch
from bench.realweb import PagesMissing, RealWeb, serve

MAX_URLS = 3900  # of a round: six rounds
PYTHON_STAGES = ("fetch", "parse", "dedup")


def phase(event: dict[str, Any]) -> str | None:
    """Stage that begins with an event of `crawlkit --json`."""
    return {"stage": event.get("stage"), "stage_done": "between stages"}.get(event.get("event", ""))


def ours(web: RealWeb, folder: Path) -> tuple[Watched, Path]:
    import yaml

    config, seeds = folder / "crawl.yaml", folder / "seeds.txt"
    config.write_text(
        yaml.safe_dump(
            web.config(
                round={"max_urls": MAX_URLS, "urls_per_host": 100_000}, frontier={"explore": 0.0}
            )
        )
    )
    seeds.write_text("\n".join(web.seeds))
    argv = [
        sys.executable,
        "-m",
        "crawlkit",
        "crawl",
        "--seeds",
        str(seeds),
        "--data",
        str(folder / "crawl"),
        "--config",
        str(config),
        "--rounds",
        "40",
        "--json",
    ]
    return watch(argv, phase, os.environ | {"PYTHONPATH": f"{ROOT / 'lib'}:{ROOT}"}), config


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
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'lib'}:{ROOT}"},
    )


def idle_rounds(data: str, config: str) -> None:
    """Prints the wall times of rounds without anything due, and of rounds with one page due, in a
    warm session; of these also the CPU time of the stages that each round of a crawl runs (rank and
    report run once).
    """
    from crawlkit.config import load_config
    from crawlkit.round.drive import run_round
    from crawlkit.round.job import make_job

    job = make_job(Path(data), load_config(Path(config), ()), quick=True)
    times: dict[str, list[float]] = {"nothing": [], "one page": []}
    cpu_s: list[float] = []
    try:
        url = (
            job.read("crawldb")
            .where("state = 'fetched' AND host LIKE 'handbook-%'")
            .select("url")
            .first()
            .url
        )
        for n in range(4):
            for kind in times:
                began = time.perf_counter()
                round_ = job.crawl.open_round(time.time())
                with job.driving(round_):
                    if kind == "one page":
                        job.run("inject", round_, force=True, lines=[f"{url}?n={n}"])
                    run_round(job, round_)
                if n:  # the first warms
                    times[kind].append(time.perf_counter() - began)
                    if kind == "one page":
                        cpu_s.append(
                            sum(
                                (job.crawl.mark(round_, stage) or {}).get("cpu_s", 0)
                                for stage in (
                                    "inject",
                                    "generate",
                                    "fetch",
                                    "commit",
                                    "parse",
                                    "dedup",
                                    "update",
                                )
                            )
                        )
    finally:
        job.stop()
    print(
        json.dumps(
            {kind: statistics.median(walls) for kind, walls in times.items()}
            | {"cpu": statistics.median(cpu_s)}
        )
    )


def figures(
    web: RealWeb, here: Watched, there: Watched, idle: dict[str, float], data: Path
) -> dict[str, Any]:
    said = json.loads(here.out.strip().splitlines()[-1])
    pages = sum(
        e.get("pages", 0)
        for e in here.events
        if e.get("event") == "stage_done" and e["stage"] == "parse"
    )
    statuses = json.loads(there.out)["statuses"]
    cpu: dict[str, Counter[str]] = {name: Counter(c) for name, c in here.cpu.items()}
    return {
        "web": {
            "hosts": len(web.hosts),
            "files": web.files,
            "distinct_bodies": len(web.bodies),
            "mean_page_bytes": web.total_bytes // web.files,
        },
        "here": {
            "rounds": len(said["rounds"]),
            "outcomes": said["outcomes"],
            "pages": pages,
            "wall_s": here.wall_s,
            "cpu_s": here.cpu_s,
            "peak_bytes": here.peak_bytes,
            "peak_by_program": here.peak_by_program,
            "cpu_by_stage": {n: dict(c) for n, c in cpu.items()},
            "wall_by_stage": dict(here.wall),
            "python_ms_a_page": (
                sum(cpu.get(s, Counter())["python"] for s in PYTHON_STAGES) / pages * 1000
            ),
        },
        "scrapy": {
            "statuses": statuses,
            "pages": statuses.get("200", 0),
            "wall_s": there.wall_s,
            "cpu_s": there.cpu_s,
            "peak_bytes": there.peak_bytes,
        },
        "idle_rounds_s": idle,
        "load_average": os.getloadavg()[2],
    }


def table(r: dict[str, Any]) -> str:
    web, here, there = r["web"], r["here"], r["scrapy"]
    own_cpu_s = here["cpu_s"] - here["rounds"] * r["idle_rounds_s"]["cpu"]
    ms = [side["cpu_s"] / side["pages"] * 1000 for side in (here, there)]
    rows = [
        ("CPU a page, all stages and JVM: here / Scrapy", f"{ms[0] / ms[1]:.2f}", "at most 1"),
        (
            "Python CPU of fetch, parse and dedup, ms a page",
            f"{here['python_ms_a_page']:.2f}",
            "under 8",
        ),
        (
            "round without anything due, warm session, s",
            f"{r['idle_rounds_s']['nothing']:.2f}",
            "under 12",
        ),
        (
            "round of one page, all stages, warm session, s",
            f"{r['idle_rounds_s']['one page']:.2f}",
            "",
        ),
        (
            "… CPU s of its stages but rank and report: what any round costs",
            f"{r['idle_rounds_s']['cpu']:.1f}",
            "",
        ),
        (
            "CPU ms a page without that",
            f"{own_cpu_s / here['pages'] * 1000:.1f}",
            "",
        ),
        (
            "pages a second: here / Scrapy",
            f"{here['pages'] / here['wall_s'] / (there['pages'] / there['wall_s']):.2f}",
            "",
        ),
    ]
    lines = [
        "# Whole rounds over real pages",
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
        *(f"| {a} | {b} | {c} |" for a, b, c in rows),
        "",
    ]
    lines += [
        "| crawler | pages | rounds | pages/s | CPU ms a page | peak memory, MiB |",
        "|---|---|---|---|---|---|",
        *(
            f"| {name} | {side['pages']:,} | {side.get('rounds', '')} |"
            f" {side['pages'] / side['wall_s']:.0f} | {m:.1f} | {side['peak_bytes'] / 2**20:.0f} |"
            for name, side, m in (("here", here, ms[0]), ("Scrapy", there, ms[1]))
        ),
    ]
    lines += [
        "",
        "| stage (all rounds) | wall s | Java CPU ms a page | Python CPU ms a page |",
        "|---|---|---|---|",
    ]
    for name, cpu in here["cpu_by_stage"].items():
        lines.append(
            f"| {name} | {here['wall_by_stage'].get(name, 0):.1f} |"
            f" {cpu.get('java', 0) / here['pages'] * 1000:.2f} |"
            f" {cpu.get('python', 0) / here['pages'] * 1000:.2f} |"
        )
    lines += [
        "",
        (
            "Both sides: user and system time of the whole process tree, from the start of the"
            " command to its end. Peak memory is proportional (PSS), sampled once a second. Scrapy:"
            " settings of its page on broad crawls, 180 s timeout, retries, robots.txt,"
            " LinkExtractor, warcio with gzip, one request at a time on a host; it keeps no state"
            " between runs, finds no duplicates and writes no tables. What Scrapy's ratio does not"
            " show: the web is on the same machine, so no answer is waited for."
        ),
        (
            f"Load average of the quarter hour at the end: {r['load_average']:.1f}; above the"
            " number of cores other work ran too, and walls (and some CPU) are longer than they"
            " need be."
        ),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    try:
        with serve() as web, tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            there = scrapy(web, folder)
            here, config = ours(web, folder)
            idle = watch(
                [sys.executable, "-m", "bench.rounds", str(folder / "crawl"), str(config)],
                env=os.environ | {"PYTHONPATH": f"{ROOT / 'lib'}:{ROOT}"},
            )
            result = figures(
                web, here, there, json.loads(idle.out.strip().splitlines()[-1]), folder
            )
    except PagesMissing as e:
        sys.exit(str(e))
    write("rounds", result, table(result), ("pyspark", "deltalake", "scrapy", "warcio"))


if __name__ == "__main__":
    idle_rounds(*sys.argv[1:3])
