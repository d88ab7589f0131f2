"""`crawlkit rebuild`: rebuilds the frontier from the other tables, or a crawl from its WARC files.

From tables: `captures`, `pages`, `links`, the sitemaps and feeds in the WARC files, and what was
injected give crawldb, its log and `buckets`. The new crawldb takes the old one's place in one
commit, so a reader sees the old or the new; killed, the same command does it again.

From WARC files alone: their log records (adapters/warc/capture_log.py) give the parts of each
round, and commit, parse and dedup make the tables of them as in the round itself. crawl.json marks
the crawl until the end: nothing else works on it before.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from crawlkit.adapters.net.geo_ip import open_geo_ip
from crawlkit.adapters.store.objects import Objects
from crawlkit.adapters.store.parts import (
    Record,
    WarcFile,
    encode_part,
    part_key,
    part_keys,
    part_number,
)
from crawlkit.adapters.warc.capture_log import read_log
from crawlkit.adapters.warc.record_store import RecordReader
from crawlkit.config.section import ConfigError
from crawlkit.config.whole import Config
from crawlkit.crawl.open_crawl import REBUILT
from crawlkit.crawl.state import Crawl, CrawlError, Place
from crawlkit.engine.frame import Batches, Frame, Tasks
from crawlkit.model import Capture, Round
from crawlkit.outcomes import Refused
from crawlkit.round.job import Job
from crawlkit.round.page_stages import dedup, ordered_settings, parse, rank
from crawlkit.round.plan_stages import commit, read_parts, read_renders
from crawlkit.stages import parse as p, rebuild_frontier as events_of
from crawlkit.stages.fold import bucket_summary
from crawlkit.stages.host_rows import OfRound, host_rows
from crawlkit.stages.rebuild_frontier import PLAN, plan_of
from crawlkit.upkeep.frame_rows import change, distinct
from crawlkit.upkeep.maintain import keep_injected
from crawlkit.upkeep.state_marks import begin_rebuild, end_rebuild


def rebuild(job: Job) -> dict[str, Any]:
    """crawldb, an empty log and buckets from the tables; counts.

    Raises CrawlError while a round has claimed buckets, TableError, LockHeld.
    """
    open_ = job.crawl.open_rounds()
    if busy := [r.id for r in open_ if r.buckets]:
        raise CrawlError(
            f"round {', '.join(busy)} is open: finish it (`crawlkit round`) or end it (`crawlkit"
            f" abandon {busy[0]}`) before the frontier is rebuilt"
        )
    rounds = _rounds(job)
    if not rounds:
        raise CrawlError(
            f"no round in {job.crawl.data}: nothing to rebuild a frontier from (from WARC files"
            " alone: `crawlkit rebuild --from-warc`)"
        )
    with job.crawl.lock:
        job.report_step("reading stored sitemaps and feeds")
        _read_sitemaps(job, rounds)
        keep_injected(job)
        job.report_step(f"rebuilding the frontier from {len(rounds)} rounds")
        counts = _replace_frontier(
            job, rounds, min((r.no for r in open_), default=rounds[-1][0].no + 1) - 1
        )
        job.remember_tables()
    return counts


def _rounds(job: Job) -> list[tuple[Round, bool]]:
    """All rounds in order, each with whether its outcomes went into the frontier."""
    rounds = (job.crawl.round(r) for r in job.crawl.round_ids())
    return sorted(
        ((r, r.state == "closed" or job.crawl.mark(r, "update") is not None) for r in rounds),
        key=lambda p: p[0].no,
    )


def _read_sitemaps(job: Job, rounds: Iterable[tuple[Round, bool]]) -> None:
    """Read stored sitemaps, feeds and robots.txt again, into discovery records of the log.

    What they list is stored in no table.
    """
    special = _rounds_with(
        job.read("captures").where(
            "is_outcome AND kind IN ('sitemap', 'feed') AND outcome = 'fetched'"
        )
    )
    robots = _rounds_with(job.read("robots")) if job.cfg.frontier.sitemaps else set()
    for round_, _ in rounds:
        frames = []
        if round_.id in special:
            frames.append(p.explode_found(_sitemap_rows(job, round_)))
        if round_.id in robots:
            frames.append(p.explode_found(_robots_rows(job, round_)))
        if frames:
            _replace_found(job, round_, frames[0] if len(frames) == 1 else Frame.union(*frames))


def _rounds_with(rows: Frame) -> set[str]:
    """The round_ids in a frame."""
    return {round_id for (round_id,) in distinct(rows, "round_id")}


def _planned(captures: Frame) -> Frame:
    """The fetch list of a round, as its captures have it."""
    names = ("url_key", "url", "kind", "host", *PLAN, "CAST(NULL AS string) AS domain")
    no_document = (
        "CAST(NULL AS string) AS doc_filename",
        "CAST(NULL AS bigint) AS doc_offset",
        "CAST(NULL AS bigint) AS doc_length",
    )
    return captures.where("is_outcome").select(*names, *no_document)


def _sitemap_rows(job: Job, round_: Round) -> Frame:
    """What a round's sitemaps and feeds list, as rows of the parse stage."""
    captures = job.of_round("captures", round_)
    known_robots = job.read("robots").where(f"fetched_at <= timestamp_micros({_end(round_)})")
    items = p.to_parse(
        captures, _planned(captures), job.read("host_ranks"), p.vouching_origins(known_robots)
    )
    stored = items.where("kind IN ('sitemap', 'feed') AND file IS NOT NULL")
    return p.parse_rows(stored, RecordReader(job.crawl.warc), job.cfg, round_.now)


def _robots_rows(job: Job, round_: Round) -> Frame:
    """The sitemaps that a round's robots.txt files name, as rows of the parse stage."""
    planned = _planned(job.of_round("captures", round_))
    robots = job.of_round("robots", round_)
    return p.parse_robots_sitemaps(robots, planned, job.cfg, round_.now)


def _replace_found(job: Job, round_: Round, rows: Frame) -> None:
    """Replace a round's discovery records by the best of found rows."""
    found = p.keep_found(rows, job.read("hostdb"), round_.id, round_.no, round_.now)
    mine = {"round_id": [round_.id], "writer": ["rebuild"]}
    job.tables.replace("crawldb_log", change(found, {"writer": "'rebuild'"}), mine)


def _end(round_: Round) -> int:
    """Real time at which a round was over, µs."""
    return round((round_.closed_at or 4e9) * 1e6)


def _replace_frontier(job: Job, rounds: list[tuple[Round, bool]], through: int) -> dict[str, Any]:
    """Rebuild crawldb and buckets, and empty the log; counts.

    through: number of the last round whose rows are all there; what later ones may yet write is
    folded in the usual way.
    """
    known = job.engine.from_rows(
        events_of.ROUNDS, [(x.id, x.no, x.now, settled, x.imported) for x, settled in rounds]
    )
    captures = job.read("captures")
    renders = job.cfg.render.enabled
    events = events_of.outcomes(captures, job.read("pages"), job.read("duplicates"), known, renders)
    events = events.union(events_of.link_events(job.read("links"), captures, known))
    for name in ("crawldb_log", "injected"):
        events = events.union(events_of.sightings(job.read(name), known))
    job.tables.replace("crawldb", events_of.rows_of(events, ordered_settings(job)))
    rows = job.read("crawldb")
    summary = bucket_summary(rows, through, read_renders(job))
    job.tables.replace("buckets", summary)
    if job.tables.exists("crawldb_log"):
        job.tables.replace("crawldb_log", [])
    states = _count_by(rows, "state")
    return {
        "rounds": len(rounds),
        "known": sum(states.values()),
        "states": states,
        "buckets": len(summary),
    }


def _count_by(rows: Frame, column: str) -> dict[str, int]:
    """How many rows have each value of a column."""
    query = f"SELECT {column} AS name, count(*) AS n FROM {{rows}} GROUP BY {column}"
    return {r["name"]: r["n"] for r in rows.engine.query(query, rows=rows).rows()}


# -- from WARC files alone -------------------------------------------------------------
def rebuild_from_warc(job: Job) -> dict[str, Any]:
    """The whole crawl from its WARC files; counts.

    Raises CrawlError if there is a crawl already, Refused for a damaged file.
    """
    crawl = job.crawl
    with crawl.lock:
        begin_rebuild(crawl)
        names = sorted(
            k
            for k in crawl.warc.list()
            if k.endswith((".warc.gz", ".warc")) and not k.startswith(".")
        )
        job.report_step(f"reading the logs of {len(names)} WARC files")
        found = _write_parts(job, names)
        rounds = sorted(
            (
                Round(**row, state="closed", closed_at=row["opened_at"])
                for row in found["rounds"].values()
            ),
            key=lambda x: x.no,
        )
        if not rounds:
            raise CrawlError(
                f"{crawl.warc_place}: {len(names)} WARC files, none with the log of a round: they"
                " are not of a crawl of ours, or no files are there"
            )
        for round_ in rounds:
            crawl.put_round(round_)
    for round_ in rounds:
        job.say({"event": "round", "round_id": round_.id})
        _rebuild_round(job, round_)
    with crawl.lock:
        _rebuild_hosts(job, rounds[-1])
        counts = _replace_frontier(job, [(x, True) for x in rounds], rounds[-1].no)
    rank(job, rounds[-1])
    job.remember_tables()
    with crawl.lock:
        end_rebuild(crawl, rounds)
    return counts | {"files": len(names), **found["counts"]}


def _write_parts(job: Job, names: list[str]) -> dict[str, Any]:
    """Write the parts of all rounds from the files' logs, a task a file; rounds and counts."""
    taken: set[str] = set()
    twice: set[int] = set()
    rounds: dict[str, dict[str, Any]] = {}
    counts = Counter({"records": 0, "lost": 0, "unnamed": 0, "files_twice": 0})
    logs = _read_logs(job, names)
    for f in sorted(logs, key=lambda f: (-len(f["logs"]), names[f["n"]])):
        # packed into a file that is taken, and not yet removed as an orphan
        if f["logs"] and taken.issuperset(f["logs"]):
            twice.add(f["n"])
            counts["files_twice"] += 1
            continue
        taken.update(f["logs"])
        counts.update(f["counts"])
        rounds |= f["rounds"]
    _delete_parts(job, twice)
    return {"rounds": {k: v for k, v in rounds.items() if "no" in v}, "counts": dict(counts)}


def _read_logs(job: Job, names: list[str]) -> list[dict[str, Any]]:
    """_part_of for each WARC file, in tasks."""
    if not names:
        return []
    read = partial(_write_parts_of, job.crawl.warc, job.crawl.objects)
    files = job.engine.from_rows("n int, name string", list(enumerate(names)))
    made = files.map_batches(read, "found string", Tasks(order=("n",), spread=True))
    return [json.loads(r["found"]) for r in made.rows()]


def _write_parts_of(warcs: Objects, objects: Objects, batches: Batches) -> Batches:
    for batch in batches:
        found = [_part_of(warcs, objects, row["name"], row["n"]) for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pydict({"found": [json.dumps(f) for f in found]})


def _delete_parts(job: Job, numbers: set[int]) -> None:
    """Delete the parts made of some files."""
    objects = job.crawl.objects
    for key in part_keys(objects, "parts/") if numbers else ():
        if part_number(key) in numbers:
            objects.delete(key)


def _part_of(warcs: Objects, objects: Objects, name: str, n: int) -> dict[str, Any]:
    """Write the parts in the log of one file. Raises Refused."""
    with warcs.open_range(name) as file:
        try:
            log = read_log(file, name)
        except Refused as e:
            raise Refused(
                e.reason, f"{name} {e.detail}: restore it, or move it away to do without it"
            ) from None
    by_attempt: dict[tuple[str, int, int], list[Record]] = {}
    attempts = {
        r.capture_id: (r.round_id, r.slot, r.attempt) for r in log.records if isinstance(r, Capture)
    }
    for r in log.records:
        if r.capture_id in attempts:  # a copy of robots.txt without its capture is of no use
            by_attempt.setdefault(attempts[r.capture_id], []).append(r)
    for (round_id, slot, attempt), records in by_attempt.items():
        if round_id in log.rounds:
            objects.put(
                part_key(round_id, slot, attempt, n),
                encode_part(
                    [WarcFile(name, name, warcs.size(name), log.counts["records"]), *records]
                ),
            )
    return {"n": n, "rounds": log.rounds, "counts": dict(log.counts), "logs": log.logs}


def _rebuild_round(job: Job, round_: Round) -> None:
    """Rebuild captures, robots, pages, links and texts of one round, as its stages do."""
    with job.crawl.lock:
        job.tables.replace(
            "fetchlist",
            plan_of(read_parts(job, round_), job.read("captures"), round_.id, job.cfg),
            {"round_id": [round_.id]},
        )
    planned = job.of_round("fetchlist", round_)
    kinds = _count_by(planned, "kind")
    job.crawl.set_mark(
        round_,
        "generate",
        {
            "planned": sum(kinds.values()),
            "pages": kinds.get("page", 0),
            "sitemaps": kinds.get("sitemap", 0),
            "feeds": kinds.get("feed", 0),
        },
    )
    for name, stage in (("commit", commit), ("parse", parse), ("dedup", dedup)):
        job.crawl.set_mark(round_, name, stage(job, round_))
    job.crawl.set_mark(round_, "update", {})


def _rebuild_hosts(job: Job, last: Round) -> None:
    """Rebuild hostdb without what only parts and rounds told (delays, breakers, proved dates).

    Hosts start at their configured pace.
    """
    none = job.engine.from_rows("host string, state_json string", [])
    job.tables.replace(
        "hostdb",
        host_rows(
            job.read("hostdb").where("false"),
            OfRound(
                job.read("fetchlist"),
                job.read("captures"),
                none,
                job.read("crawldb_log").where("false"),
                job.read("pages"),
                job.read("host_ranks"),
            ),
            last,
            time.time(),
            job.cfg,
            open_geo_ip(job.cfg.fetch),
        ),
    )


def rebuild_command(
    data: Place, cfg: Config, from_warc: bool, say: Any = lambda event: None
) -> dict[str, Any]:
    """`crawlkit rebuild`. Raises ConfigError and what rebuild and rebuild_from_warc raise."""
    crawl = Crawl(data, cfg)
    if not from_warc:
        if "://" not in str(crawl.objects.root) and not Path(crawl.objects.root).is_dir():
            raise ConfigError(
                f"--data {data}: no crawl there; from WARC files alone: `crawlkit rebuild"
                " --from-warc`"
            )
        crawl.check()
    job = Job(crawl, quick=True, say=say, may_lack=REBUILT)
    try:
        return rebuild_from_warc(job) if from_warc else rebuild(job)
    finally:
        job.stop()


def rebuild_text(done: dict[str, Any]) -> str:
    """The result of a rebuild for a terminal."""
    states = ", ".join(f"{state} {n}" for state, n in sorted(done["states"].items()))
    text = f"{done['known']} URLs from {done['rounds']} rounds ({states})"
    if "files" in done:
        text += (
            f"; {done['records']} records in {done['files']} WARC files, {done['unnamed']} that no"
            f" log names, {done['lost']} named and not there"
        )
    return text
